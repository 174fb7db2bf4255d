"""Weights from anywhere into a model: plan first, and only then change anything."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from assay.checkpoint.formats import read_weights_file
from assay.checkpoint.init_plan import InitPlan, Strictness, plan_init
from assay.checkpoint.mapped_pages import drop_pages
from assay.checkpoint.nested import likely_state_dicts, state_dict_at
from assay.checkpoint.positions import resize_positions
from assay.checkpoint.rename import (
    RenameRule,
    append_module_prefix,
    rename_by_rules,
    replace_module_prefix,
    strip_wrappers,
)
from assay.checkpoint.vissl_names import (
    check_model_compatibility,
    get_checkpoint_model_state_dict,
    heads_are_initialised,
)
from assay.errors import ModelError

__all__ = [
    "init_model_from_file",
    "init_model_from_weights",
    "init_weights",
    "model_names",
]

_log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=nn.Module)
_CLASSY = "classy_state_dict"


def init_model_from_weights(
    config: Mapping[str, Any],
    model: Model,
    state_dict: Mapping[str, Any],
    state_dict_key_name: str | None,
    skip_layers: Sequence[str] | None,
    replace_prefix: str | None = None,
    append_prefix: str | None = None,
    *,
    strict: Strictness = "fit",
    interpolate_positions: bool = False,
) -> Model:
    """Change ``model`` in place: give it the weights of a checkpoint, and return it.

    Under ``classy_state_dict`` stands a run of VISSL, whose names follow from the settings. Other
    names lose ``replace_prefix`` first, then get ``append_prefix``, and have to begin as this
    model's do (:func:`check_model_compatibility`). Heads are loaded unless the settings evaluate
    the trunk alone. What was loaded and what was not, and why, goes to the log.

    Args:
        config: the settings; read are those under MODEL.FEATURE_EVAL_SETTINGS.
        state_dict: the checkpoint; values may be arrays of NumPy.
        state_dict_key_name: the key or dotted path of the weights in it; empty: it is them.
        skip_layers: layers whose names contain one of these stay as they are.
        replace_prefix: taken off the front of names.
        append_prefix: then put in front of all names.
        strict: what counts as failure: "fit" a wrong shape or kind, "all" missing and unexpected
            names as well, "off" neither.
        interpolate_positions: bring position embeddings of another grid of patches to the model's.

    Raises:
        ModelError: the key is absent (what is there is offered), names do not begin as the model's,
            or the plan fails under ``strict``. The model is then as it was.
    """
    chosen = state_dict_at(state_dict, state_dict_key_name or "")
    if state_dict_key_name == _CLASSY:
        named = get_checkpoint_model_state_dict(config, chosen)
    else:
        named = model_names(chosen, remove_prefix=replace_prefix, add_prefix=append_prefix)
        check_model_compatibility(config, named)
    plan = init_weights(
        model,
        named,
        skip_layers=skip_layers,
        load_heads=heads_are_initialised(config.get("MODEL") or {}),
        strict=strict,
        interpolate_positions=interpolate_positions,
    )
    for line in plan.lines():
        _log.info("%s", line)
    return model


def init_model_from_file(
    model: nn.Module,
    path: str | Path,
    *,
    key: str | None = None,
    strip: Sequence[str] = (),
    rename: Sequence[RenameRule] = (),
    remove_prefix: str | None = None,
    add_prefix: str | None = None,
    skip_layers: Sequence[str] | None = None,
    strict: Strictness = "fit",
    interpolate_positions: bool = False,
    trusted: bool = False,
) -> InitPlan:
    """Change ``model`` in place: give it the weights of a file of any format; what became of each.

    The file is mapped and its pages are given back one tensor after the other, so that memory
    beyond the model's own is that of the largest tensor.

    Args:
        key: the key or dotted path of the weights in the file; None: the likeliest state dict.
        strip, rename, remove_prefix, add_prefix: see :func:`model_names`.
        skip_layers, strict, interpolate_positions: see :func:`init_weights`.
        trusted: unpickle whatever a file of ``torch.save`` names, which runs its code.

    Raises:
        ModelError: the file cannot be read, or its weights do not fit; the model is as it was.
    """
    file = read_weights_file(path, trusted=trusted)
    try:
        if key is None:
            likely = likely_state_dicts(file.tree)
            chosen: Mapping[str, Any] = next(iter(likely.values()), {})
        else:
            chosen = state_dict_at(file.tree, key)
        named = model_names(
            chosen, strip=strip, rename=rename, remove_prefix=remove_prefix, add_prefix=add_prefix
        )
        return init_weights(
            model,
            named,
            skip_layers=skip_layers,
            strict=strict,
            interpolate_positions=interpolate_positions,
            # The map was made here and nobody else has it.
            done_with=drop_pages if file.is_mapped else None,
        )
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def model_names(
    state_dict: Mapping[str, Any],
    *,
    strip: Sequence[str] = (),
    rename: Sequence[RenameRule] = (),
    remove_prefix: str | None = None,
    add_prefix: str | None = None,
) -> dict[str, Any]:
    """A new dict of the same values under new names.

    The order is: wrappers of ``strip`` go, rules rename, ``remove_prefix`` goes from the front,
    ``add_prefix`` comes in front.

    Raises:
        ModelError: two names would become one.
    """
    named = dict(state_dict)
    if strip:
        named = strip_wrappers(named, strip)
    if rename:
        named = rename_by_rules(named, rename)
    if remove_prefix:
        named = replace_module_prefix(named, remove_prefix)
    return append_module_prefix(named, add_prefix) if add_prefix else named


def init_weights(
    model: nn.Module,
    state_dict: Mapping[str, Any],
    *,
    skip_layers: Sequence[str] | str | None = None,
    load_heads: bool = True,
    strict: Strictness = "fit",
    interpolate_positions: bool = False,
    done_with: Callable[[Tensor], None] | None = None,
) -> InitPlan:
    """Change ``model`` in place: copy tensors under its own names; what became of each.

    Values take the dtype and device of the model. See :func:`plan_init` for the arguments.

    Args:
        strict: "fit", "all" or "off"; see :func:`init_model_from_weights`.
        done_with: called with each tensor of ``state_dict`` that has been copied.

    Raises:
        ModelError: the plan fails under ``strict``, or the model cannot be written to. It is then
            as it was.
    """
    own = model.state_dict()
    plan = plan_init(
        own,
        state_dict,
        skip_layers=skip_layers,
        load_heads=load_heads,
        interpolate_positions=interpolate_positions,
        tied=_tied(own),
    )
    faults = plan.faults(strict)
    if faults:
        raise ModelError(
            f"The weights do not fit, and the model was left as it was. {' '.join(faults)} Are "
            f"they of another model, or under another prefix?"
        )
    _check_writable(model, own, plan.loaded)
    resized = {change.name for change in plan.resized}
    with torch.no_grad():
        for name in plan.loaded:
            value = state_dict[name]
            tensor = value.detach() if isinstance(value, Tensor) else _from_numpy(value)
            if name in resized:
                own[name].copy_(resize_positions(tensor, own[name].shape))
            else:
                own[name].copy_(tensor)
            if done_with is not None and isinstance(value, Tensor):
                done_with(value)
    return plan


def _check_writable(model: nn.Module, own: Mapping[str, Any], names: Sequence[str]) -> None:
    """The state dict has to be the model's own memory: some hooks hand out copies."""
    memory = {
        _address(tensor)
        for tensors in (model.named_parameters(), model.named_buffers())
        for _, tensor in tensors
        if not tensor.is_meta
    }
    for name in names:
        if own[name].is_meta:
            raise ModelError(
                f"{name} is on the device 'meta' and has no memory for weights. Give the model "
                f"some with model.to_empty(device='cpu')."
            )
        if own[name].numel() and _address(own[name]) not in memory:
            raise ModelError(
                f"The model's state_dict() gives a copy of {name}, so that the model cannot be "
                f"written to through it. Use model.load_state_dict, with the names of "
                f"assay.checkpoint.rename."
            )


def _tied(own: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of one and the same tensor: name -> the others."""
    groups: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for name, tensor in own.items():
        if isinstance(tensor, Tensor) and tensor.numel() and not tensor.is_meta:
            groups[tensor.data_ptr(), tuple(tensor.shape), tensor.stride()].append(name)
    return {
        name: [other for other in names if other != name]
        for names in groups.values()
        if len(names) > 1
        for name in names
    }


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    # A copy where torch would warn of an array that may not be written to, or refuse its strides.
    writable = native.flags.writeable and all(stride >= 0 for stride in native.strides)
    return torch.from_numpy(native if writable else native.copy())

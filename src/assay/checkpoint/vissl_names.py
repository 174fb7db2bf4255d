"""How VISSL names weights, and how torchvision names the same ones.

A stored run of VISSL is ``{"classy_state_dict": {"base_model": {"model": {"trunk": ..., "heads":
...}}}}``. Its ResNe(X)t trunk keeps the parts of torchvision's model under their own names in
``_feature_blocks``; the classifier ``fc`` is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from assay.checkpoint.rename import append_module_prefix, renamed
from assay.errors import ModelError

__all__ = [
    "check_model_compatibility",
    "check_model_compatibilty",
    "get_checkpoint_model_state_dict",
    "heads_are_initialised",
    "is_feature_extractor",
    "torchvision_to_vissl",
    "trunk_prefix",
    "vissl_to_torchvision",
]

Value = TypeVar("Value")

_BLOCKS = "_feature_blocks."
_HEADS = "heads."
# The longest first: each is the end of the one before.
_TRUNKS = ("trunk.base_model._feature_blocks.", "trunk._feature_blocks.",
           "base_model._feature_blocks.", _BLOCKS)  # fmt: skip
_CLASSIFIER = "fc."


def is_feature_extractor(config: Mapping[str, Any]) -> bool:
    """Whether the settings make a frozen trunk that gives the features of named layers."""
    settings = _evaluation_settings(config)
    return bool(
        settings.get("EVAL_MODE_ON")
        and settings.get("FREEZE_TRUNK_ONLY")
        and settings.get("LINEAR_EVAL_FEAT_POOL_OPS_MAP")
    )


def heads_are_initialised(model_config: Mapping[str, Any]) -> bool:
    """Whether the heads take weights from a file: not where the trunk alone is evaluated.

    Args:
        model_config: the section MODEL.
    """
    settings = _evaluation_settings({"MODEL": model_config})
    return not settings.get("EVAL_MODE_ON") or bool(settings.get("EVAL_TRUNK_AND_HEAD"))


def trunk_prefix(config: Mapping[str, Any]) -> str:
    """Where the model keeps its trunk: ``trunk.``, or ``trunk.base_model.`` in an extractor."""
    return "trunk.base_model." if is_feature_extractor(config) else "trunk."


def check_model_compatibility(config: Mapping[str, Any], state_dict: Mapping[str, Any]) -> None:
    """Check that every key starts as the trunk or a head of the model does.

    That is ``trunk._feature_blocks.``, or ``trunk.base_model._feature_blocks.`` where the settings
    make a feature extractor; or ``heads.``.

    Raises:
        ModelError: a key starts otherwise; the message has the prefix to be set.
    """
    trunk = trunk_prefix(config) + _BLOCKS
    strangers = [key for key in state_dict if not str(key).startswith((trunk, _HEADS))]
    if not strangers:
        return
    raise ModelError(
        f"{len(strangers)} of {len(state_dict)} names start neither with {trunk!r} nor with "
        f"{_HEADS!r}, as this model's do: {', '.join(map(str, strangers[:3]))}. "
        f"{_advice(strangers, trunk)}"
    )


check_model_compatibilty = check_model_compatibility  # as the reference spells it


def get_checkpoint_model_state_dict(
    config: Mapping[str, Any], state_dict: Mapping[str, Any]
) -> dict[str, Any]:
    """The weights of a stored VISSL run under the names of the model that the settings make.

    Args:
        config: the settings; an extractor has its trunk one level deeper.
        state_dict: what stands under ``classy_state_dict``, or the whole checkpoint.

    Raises:
        ModelError: it is not laid out as VISSL stores runs.
    """
    run = state_dict.get("classy_state_dict", state_dict)
    try:
        model = run["base_model"]["model"]
        trunk, heads = model["trunk"], model.get("heads", {})
    except (KeyError, TypeError, AttributeError):
        raise ModelError(
            f"This is no run that VISSL stored: it lacks base_model.model.trunk and has the keys "
            f"{[str(key) for key in run][:8]}. For other weights set STATE_DICT_KEY_NAME to where "
            f"they stand in the file, and APPEND_PREFIX to where the model has its trunk."
        ) from None
    return {
        **append_module_prefix(trunk, trunk_prefix(config)),
        **append_module_prefix(heads or {}, _HEADS),
    }


def torchvision_to_vissl(
    state_dict: Mapping[str, Value], *, prefix: str = "trunk._feature_blocks."
) -> dict[str, Value]:
    """A ResNe(X)t of torchvision as VISSL names its trunk; the classifier ``fc`` is left out.

    >>> torchvision_to_vissl({"conv1.weight": 1, "fc.bias": 2})
    {'trunk._feature_blocks.conv1.weight': 1}
    """
    body = {key: value for key, value in state_dict.items() if not key.startswith(_CLASSIFIER)}
    return append_module_prefix(body, prefix)


def vissl_to_torchvision(state_dict: Mapping[str, Value]) -> dict[str, Value]:
    """A ResNe(X)t trunk of VISSL as torchvision names it; heads are left out.

    The trunk may stand under ``_feature_blocks.``, ``trunk.`` or ``trunk.base_model.`` before it.

    Raises:
        ModelError: no key does, or two keys would become one.

    >>> vissl_to_torchvision({"trunk._feature_blocks.conv1.weight": 1, "heads.0.clf.0.bias": 2})
    {'conv1.weight': 1}
    """
    prefix = next((p for p in _TRUNKS if any(key.startswith(p) for key in state_dict)), None)
    if prefix is None:
        raise ModelError(
            f"No name starts with {' or '.join(map(repr, reversed(_TRUNKS)))}, as VISSL's trunks "
            f"do; there are {', '.join(list(state_dict)[:3])}."
        )
    trunk = {key: value for key, value in state_dict.items() if key.startswith(prefix)}
    return renamed(trunk, lambda key: key[len(prefix) :], by=f"cutting {prefix!r} off")


def _advice(strangers: list[Any], trunk: str) -> str:
    """What to set. Where all names share a known beginning, that is to be removed."""
    first = str(strangers[0])
    known = next((p for p in (*_TRUNKS, "module.", "_orig_mod.") if first.startswith(p)), "")
    if known and all(str(key).startswith(known) for key in strangers):
        return f"Set MODEL.WEIGHTS_INIT.REMOVE_PREFIX to {known!r} and APPEND_PREFIX to {trunk!r}."
    return (
        f"Set MODEL.WEIGHTS_INIT.APPEND_PREFIX to {trunk!r}, and REMOVE_PREFIX to what has to go "
        f"before that."
    )


def _evaluation_settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    model = (config or {}).get("MODEL") or {}
    return model.get("FEATURE_EVAL_SETTINGS") or {}

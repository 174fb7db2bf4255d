"""Weights from a state dict into a model, and a report of what fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from assay.checkpoint.read import StateDictFile, read_state_dict, read_state_dict_file
from assay.checkpoint.remap import PrefixChange, infer_prefix_change
from assay.errors import AssayWarning, ModelError

__all__ = [
    "LoadReport",
    "StateDictFile",
    "load_weights",
    "read_state_dict",
    "read_state_dict_file",
]

_NAMES_SHOWN = 5


@dataclass(frozen=True)
class LoadReport:
    """What became of a file's tensors and of the model's."""

    source: str  # where the tensors come from, for people
    loaded: tuple[str, ...]  # model names that took a tensor of the file
    missing: tuple[str, ...]  # model names that the file lacks: classifier, counters, index tables
    shape_mismatch: tuple[str, ...]  # classifier names whose shapes differ; the model keeps its own
    unexpected: tuple[str, ...]  # file names that the model has no place for
    prefix_removed: str  # cut off the front of the file's names, "" for nothing
    prefix_added: str  # put there
    head: str  # the model's classifier, its last layer, if that is linear; else ""

    @property
    def head_loaded(self) -> bool:
        """Whether the classifier, if there is one, has its weights from the file."""
        left = (*self.missing, *self.shape_mismatch)
        return not any(_is_under(name, self.head) for name in left)


@dataclass(frozen=True)
class _Fit:
    """The model's names and the file's, matched."""

    taken: dict[str, str]  # model name -> file name, both of one shape
    mismatched: dict[str, str]  # model name -> file name
    missing: list[str]  # model names
    unexpected: dict[str, str]  # file name -> what the model would call it


def load_weights(
    module: nn.Module, state_dict: Mapping[str, Tensor], *, source: str = "the state dict"
) -> LoadReport:
    """Copy ``state_dict`` into ``module``, in place, and report what fitted.

    Names are matched after the one change of prefix that fits most of them ("module." off,
    "trunk." on). Only the classifier, the last linear layer, may be missing or of another shape
    (another number of classes), and whole-number buffers may be missing; these stay as they are.
    Values take the model's dtype. On an error the module is as before.

    Raises:
        ModelError: anything else is missing or of another shape, or nothing fits.
    """
    ours, theirs = _tensors(module.state_dict()), _tensors(state_dict)
    change = infer_prefix_change(_shapes(theirs), _shapes(ours))
    fit = _match(theirs, ours, change)
    head = _head_name(module)
    _check(fit, theirs, ours, head, source)
    _warn_of_a_larger_model(fit, theirs, head, source)
    module.load_state_dict({name: theirs[key] for name, key in fit.taken.items()}, strict=False)
    return LoadReport(
        source=source,
        loaded=tuple(fit.taken),
        missing=tuple(fit.missing),
        shape_mismatch=tuple(fit.mismatched),
        unexpected=tuple(fit.unexpected),
        prefix_removed=change.removed,
        prefix_added=change.added,
        head=head,
    )


def _match(theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor], change: PrefixChange) -> _Fit:
    file_names: dict[str, str] = {}
    for key in theirs:
        name = change.apply(key)
        if name is not None and name in ours:
            file_names[name] = key
    for key in theirs:  # a part of the file may have the right names already
        if key in ours:
            file_names.setdefault(key, key)
    used = set(file_names.values())
    fits = {name: _fits(theirs[key], ours[name]) for name, key in file_names.items()}
    return _Fit(
        taken={name: file_names[name] for name in ours if fits.get(name) is True},
        mismatched={name: file_names[name] for name in ours if fits.get(name) is False},
        missing=[name for name in ours if name not in file_names],
        unexpected={key: change.apply(key) or key for key in theirs if key not in used},
    )


def _check(
    fit: _Fit, theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor], head: str, source: str
) -> None:
    if all(_is_under(name, head) or not _is_learned(ours[name]) for name in fit.taken):
        raise ModelError(
            f"{source}: none of its {len(theirs)} tensors fits the model. The file has "
            f"{_first(list(theirs))}; the model has {_first(list(ours))}. "
            f"Is it the weights of another model?"
        )
    missing = [
        name for name in fit.missing if not _is_under(name, head) and _is_learned(ours[name])
    ]
    mismatched = [
        f"{name} ({_kind(theirs[key])} in the file, {_kind(ours[name])} in the model)"
        for name, key in fit.mismatched.items()
        if not _is_under(name, head)
    ]
    if not missing and not mismatched:
        return
    faults = []
    if missing:
        faults.append(f"{len(missing)} are missing from the file: {_first(missing)}.")
    if mismatched:
        faults.append(f"{len(mismatched)} do not fit: {_first(mismatched)}.")
    raise ModelError(
        f"{source}: only {len(fit.taken)} of the model's {len(ours)} tensors can be loaded. "
        f"{' '.join(faults)} Is it the weights of another model, or of another size of it?"
    )


def _warn_of_a_larger_model(
    fit: _Fit, theirs: Mapping[str, Tensor], head: str, source: str
) -> None:
    """ResNet-34's weights fill a ResNet-18 without a gap: only what is left over tells."""
    parts = {name.partition(".")[0] for name in fit.taken if "." in name}
    parts.discard(head.partition(".")[0])
    left = [
        key
        for key, name in fit.unexpected.items()
        if name.partition(".")[0] in parts and _is_learned(theirs[key])
    ]
    if left:
        warnings.warn(
            f"{source}: {len(left)} tensors belong to parts that the model has, yet it has no "
            f"place for them: {_first(left)}. Is it the weights of a larger model?",
            AssayWarning,
            stacklevel=3,
        )


def _head_name(module: nn.Module) -> str:
    """The last layer with weights, by custom the classifier, if it is linear; else ""."""
    last = ""
    for name, part in module.named_modules():
        if next(part.parameters(recurse=False), None) is not None:
            last = name if isinstance(part, nn.Linear) else ""
    return last


def _fits(theirs: Tensor, own: Tensor) -> bool:
    return theirs.shape == own.shape and (_is_learned(theirs) or not _is_learned(own))


def _is_learned(tensor: Tensor) -> bool:
    """Whether it holds weights or statistics, not counters or indices that building sets right."""
    return tensor.is_floating_point() or tensor.is_complex()


def _is_under(name: str, head: str) -> bool:
    return bool(head) and name.startswith(f"{head}.")


def _tensors(state_dict: Mapping[str, object]) -> dict[str, Tensor]:
    return {name: value for name, value in state_dict.items() if isinstance(value, Tensor)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _first(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

"""State dicts within a training checkpoint: where they stand, and the one that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from assay.checkpoint.remap import is_second_choice
from assay.errors import ModelError, nearest_names

__all__ = ["find_state_dicts", "likely_state_dicts", "state_dict_at", "state_dict_named"]

# The usual keys under which training code keeps the weights, the most telling first.
_HOLDERS = (
    "state_dict",
    "model_state_dict",
    "model",
    "teacher",
    "classy_state_dict",
    "network",
    "net",
    "module",
    "backbone",
    "encoder",
    "trunk",
    "weights",
    "params",
)
_MAX_DEPTH = 8
_OFFERS = 8


def find_state_dicts(tree: object) -> dict[str, dict[str, Tensor]]:
    """Every mapping in ``tree`` that holds tensors by name, by the dotted path that leads to it.

    What an optimizer keeps is left out. ``""`` is the tree itself.
    """
    return {".".join(keys): tensors for keys, tensors in _groups(tree, ())}


def likely_state_dicts(tree: object) -> dict[str, dict[str, Tensor]]:
    """The state dicts that may be the network, the likeliest first.

    The largest, and those at least half as large; of these the one under the most usual key, copies
    such as "student" or "model_ema" last.
    """
    found = dict(_groups(tree, ()))
    sizes = {keys: _size(tensors) for keys, tensors in found.items()}
    largest = max(sizes.values(), default=0)
    likely = sorted((keys for keys in found if 2 * sizes[keys] >= largest), key=_rank)
    return {".".join(keys): found[keys] for keys in likely}


def state_dict_at(tree: Any, path: str) -> dict[str, Any]:
    """The mapping under a key or a dotted path; ``""`` is ``tree`` itself, or what ``tree`` holds.

    Raises:
        ModelError: there is none; the message offers those that are there.
    """
    if not path:
        if isinstance(tree, Mapping) and any(_is_weight(value) for value in tree.values()):
            return dict(tree)
        raise ModelError(f"There are no tensors by name at the top.{_offer(tree)}")
    value = _follow(tree, path)
    if not isinstance(value, Mapping):
        what = "no key" if value is None else f"a {type(value).__name__}, no mapping, under"
        known = [str(key) for key in tree] if isinstance(tree, Mapping) else []
        raise ModelError(f"There is {what} {path!r}.{nearest_names(path, known)}{_offer(tree)}")
    return dict(value)


def state_dict_named(tree: Any, word: str) -> tuple[str, dict[str, Tensor]]:
    """The network that goes by a name: its path or prefix, and its tensors.

    ``word`` is found as a part of a key: "ema" in ``model_ema``, ``ema_state_dict`` or
    ``state_dict_ema``, "teacher" in ``teacher.backbone.``. Of several the largest is taken.

    Raises:
        ModelError: no key has the word; the message offers the state dicts that are there.
    """
    found = find_state_dicts(tree)
    under = {
        path: tensors
        for path, tensors in found.items()
        if any(_has_word(part, word) for part in path.split("."))
    }
    if not under:
        for path, tensors in found.items():
            prefixes = {
                prefix
                for name in tensors
                if _has_word(prefix := name.partition(".")[0], word) and prefix != name
            }
            for prefix in prefixes:
                start = f"{prefix}."
                under[f"{path}.{start}".lstrip(".")] = {
                    name.removeprefix(start): tensor
                    for name, tensor in tensors.items()
                    if name.startswith(start)
                }
    if not under:
        raise ModelError(f"Nothing goes by the name of {word!r}.{_offer(tree)}")
    best = max(under, key=lambda path: _size(under[path]))
    return best, under[best]


def _follow(tree: Any, path: str) -> Any:
    """The value at a dotted path; keys that hold dots themselves are tried, too."""
    if not isinstance(tree, Mapping):
        return None
    if path in tree:
        return tree[path]
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        head = ".".join(parts[:length])
        if head in tree:
            found = _follow(tree[head], ".".join(parts[length:]))
            if found is not None:
                return found
    return None


def _offer(tree: Any) -> str:
    found = likely_state_dicts(tree)
    if not found:
        if isinstance(tree, Mapping):
            return f" The keys are {list(tree)[:_OFFERS]}, and none holds tensors."
        return f" It is a {type(tree).__name__}."
    offers = [
        f"{path!r} ({len(tensors)} tensors)"
        if path
        else f"the top ({len(tensors)} tensors, key '')"
        for path, tensors in found.items()
    ]
    more = f" and {len(offers) - _OFFERS} more" if len(offers) > _OFFERS else ""
    return f" State dicts are at {', '.join(offers[:_OFFERS])}{more}."


def _groups(
    tree: object, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], dict[str, Tensor]]]:
    """Every mapping in ``tree`` that holds tensors by name, with the keys that lead to it."""
    if not isinstance(tree, Mapping) or len(keys) > _MAX_DEPTH:
        return
    named = {key: value for key, value in tree.items() if isinstance(key, str)}
    tensors = {key: value.detach() for key, value in named.items() if isinstance(value, Tensor)}
    if tensors:
        yield keys, tensors
    for key, value in named.items():
        if "optim" not in key.lower():
            yield from _groups(value, (*keys, key))


def _size(tensors: Mapping[str, Tensor]) -> int:
    """How many tensors, scalars aside: an epoch counter is no network."""
    return sum(tensor.ndim > 0 for tensor in tensors.values())


def _rank(keys: tuple[str, ...]) -> tuple[bool, int]:
    """The first of a sort is taken; sorting keeps the file's order among equals."""
    usual = [_HOLDERS.index(key) for key in keys[:1] if key in _HOLDERS]
    return (is_second_choice(".".join(keys)), usual[0] if usual else len(_HOLDERS) * bool(keys))


def _has_word(key: str, word: str) -> bool:
    return f"_{word.lower()}_" in f"_{key.lower()}_"


def _is_weight(value: object) -> bool:
    return isinstance(value, (Tensor, np.ndarray))

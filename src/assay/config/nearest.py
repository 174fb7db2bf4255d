"""Which known key an unknown one was meant to be."""

from __future__ import annotations

from difflib import get_close_matches

from assay.config.schema_keys import known_keys

__all__ = ["nearest_keys"]

_SHOWN = 2
_TOO_MANY = 4  # keys of one name: a hint that names any of them is none
_LISTED = 24  # keys of a section that a hint may list


def nearest_keys(key: str) -> str:
    """A hint with the nearest known full keys, else with all keys of the section.

    Nearest are keys of that name deeper in the same section, then keys of which every part is spelt
    alike, also below ``config``, then keys elsewhere that end in the same way.

    >>> nearest_keys("config.SVN.maxiter")
    ' Did you mean config.SVM.max_iter?'
    >>> nearest_keys("SVM.max_iter"), nearest_keys("config.max_iter")
    (' Did you mean config.SVM.max_iter?', ' Did you mean config.SVM.max_iter?')
    >>> nearest_keys("config.EXTRACT.foo")
    ' config.EXTRACT has AMP and CHANNELS_LAST.'
    """
    near = _deeper(key) or _spelt_alike(key) or _spelt_alike(f"config.{key}") or _same_end(key)
    if near:
        return f" Did you mean {' or '.join(near[:_SHOWN])}?"
    section = key.rpartition(".")[0]
    names = [name for name, _ in _children(f"{section}.")] if section else []
    if not names or len(names) > _LISTED:
        return ""
    *others, last = names
    return f" {section} has {', '.join(others)}{' and ' if others else ''}{last}."


def _deeper(key: str) -> list[str]:
    section, _, name = key.rpartition(".")
    found = [
        known
        for known in known_keys()
        if known.startswith(f"{section}.") and known.endswith(f".{name}")
    ]
    return found if len(found) < _TOO_MANY else []


def _spelt_alike(key: str) -> list[str]:
    found = [""]
    for name in key.split("."):
        # Below a section the nearest of its keys; of the last part's neighbours more than one.
        found = [near for prefix in found[:1] for near in _children_like(prefix, name)]
    return [near.removesuffix(".") for near in found]


def _children(prefix: str) -> list[tuple[str, str]]:
    """(name, full key) of each key directly in a section; ``prefix`` ends in a dot or is empty."""
    return [
        (known.removeprefix(prefix), known)
        for known in known_keys()
        if known.startswith(prefix) and "." not in known.removeprefix(prefix)
    ]


def _children_like(prefix: str, name: str) -> list[str]:
    children = {_squeezed(child): f"{known}." for child, known in _children(prefix)}
    wanted = _squeezed(name)
    near = get_close_matches(wanted, children, n=_SHOWN, cutoff=0.6)
    if not near and len(wanted) > 2:
        near = [child for child in children if child.startswith(wanted)]
    return [children[child] for child in near]


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _same_end(key: str) -> list[str]:
    wanted = key.lower().split(".")

    def common_end(known: str) -> int:
        pairs = zip(reversed(known.lower().split(".")), reversed(wanted), strict=False)
        count = 0
        for ours, theirs in pairs:
            if ours != theirs:
                break
            count += 1
        return count

    lengths = {known: common_end(known) for known in known_keys()}
    longest = max(lengths.values())
    found = [known for known, length in lengths.items() if length == longest]
    return found if longest and len(found) < _TOO_MANY else []

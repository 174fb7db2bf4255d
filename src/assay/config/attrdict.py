"""A dict whose keys are also attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from assay.errors import nearest_names

__all__ = ["AttrDict"]


class AttrDict(dict[str, Any]):
    """A dict that reads, sets and deletes its keys as attributes too.

    Dicts at any depth, also within lists and tuples, become AttrDicts when they come in: at
    construction, by assignment, ``update``, ``setdefault`` and ``|``. Lists and tuples that come in
    are copied, so nothing that the caller holds is changed; what is appended to a list later stays
    as it is. An AttrDict that comes in is kept itself, not copied.

    A key that is also a method of dict (``items``, ``copy``, ...) is reached as an item alone:
    ``config["items"]``. Copies, also deep ones, and pickles are AttrDicts; equality is dict's.

    >>> config = AttrDict({"SVM": {"costs": [{"base": 2}]}})
    >>> config.SVM.costs[0].base
    2
    >>> config.SVM.max_iter = 5
    >>> config.to_dict()
    {'SVM': {'costs': [{'base': 2}], 'max_iter': 5}}
    """

    def __init__(self, dictionary: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        super().__init__()
        self.update(dictionary)

    def __getattr__(self, key: str) -> Any:
        """The value of ``key``.

        Raises:
            AttributeError: there is no such key; the message names the nearest ones.
        """
        # Python itself looks for names like __deepcopy__: a key of that name is no answer to it.
        if key in self and not _is_special(key):
            return self[key]
        self._refuse(key)

    def __setattr__(self, key: str, value: Any) -> None:
        """Set ``key``.

        Raises:
            AttributeError: ``key`` is a method of dict, which the attribute would still give.
        """
        self._refuse_method(key)
        self[key] = value

    def __delattr__(self, key: str) -> None:
        """Delete ``key``.

        Raises:
            AttributeError: there is no such key; the message names the nearest ones.
        """
        self._refuse_method(key)
        if key not in self:
            self._refuse(key)
        del self[key]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self if isinstance(key, str))]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, _converted(value))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is set to ``default`` first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **values: Any) -> None:
        """Set all keys of a mapping, or of pairs, and of ``values``; as ``dict.update``."""
        plain = [_without_omegaconf(other) for other in others]
        for key, value in dict(*plain, **values).items():
            self[key] = value

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        joined = type(self)(other)
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def copy(self) -> AttrDict:
        """A shallow copy: AttrDicts within are shared, lists and tuples are new."""
        return type(self)(self)

    @classmethod
    def fromkeys(  # type: ignore[override]
        cls, keys: Iterable[str], value: Any = None
    ) -> AttrDict:
        """An AttrDict in which each key has ``value``."""
        return cls((key, value) for key in keys)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and tuples at every depth; they share nothing with this one."""
        return {key: _plain(value) for key, value in self.items()}

    def _refuse(self, key: str) -> NoReturn:
        names = [name for name in self if isinstance(name, str)]
        raise AttributeError(f"No key {key!r}.{nearest_names(key, names)}")

    def _refuse_method(self, key: str) -> None:
        if hasattr(type(self), key):
            raise AttributeError(
                f"{key!r} is a method of dict, so it is no attribute for a value: "
                f"write config[{key!r}]."
            )


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _converted(value: Any) -> Any:
    value = _without_omegaconf(value)
    if isinstance(value, AttrDict):
        return value
    if isinstance(value, Mapping):
        return AttrDict(value)
    return _rebuilt(value, _converted)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return _rebuilt(value, _plain)


def _rebuilt(value: Any, change: Any) -> Any:
    """Lists and tuples with changed items; of the subclasses only named tuples, which allow it."""
    if type(value) in (list, tuple):
        return type(value)(change(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(change(item) for item in value)
    return value


def _without_omegaconf(value: Any) -> Any:
    """An OmegaConf container as plain dicts and lists with its interpolations resolved."""
    if type(value).__module__.partition(".")[0] != "omegaconf":
        return value
    from omegaconf import OmegaConf

    return OmegaConf.to_container(value, resolve=True)

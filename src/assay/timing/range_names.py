"""What may name a range."""

from __future__ import annotations

from assay.errors import InstrumentError

__all__ = ["encoded_name"]


def encoded_name(name: str) -> bytes:
    """The name in UTF-8, as C takes it; what UTF-8 cannot hold (lone surrogates) is escaped.

    Raises:
        InstrumentError: the name is no text, or holds a NUL, with which C would end it.
    """
    if not isinstance(name, str):
        raise InstrumentError(
            f"The name of a range is a text, not {type(name).__name__}: {name!r}."
        )
    if "\0" in name:
        raise InstrumentError(f"The name of a range cannot hold a NUL character: {name!r}.")
    return name.encode("utf-8", "backslashreplace")

"""Names of layers and splits as parts of names of files and folders."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

__all__ = ["folder_name", "name_part"]

_DIGEST_LENGTH = 16
_LONGEST_FOLDER = 200  # bytes; file systems take 255


def folder_name(name: str) -> str:
    """``name`` as the name of a folder of its own: unchanged, if it can be one.

    A slash, backslash or NUL is percent-encoded; a name of more than 200 bytes becomes that of
    :func:`name_part`. What came out of this goes through it unchanged.

    >>> folder_name("trunk res5"), folder_name("block/0"), folder_name("block%2F0")
    ('trunk res5', 'block%2F0', 'block%2F0')
    """
    if len(name.encode("utf-8", "surrogatepass")) > _LONGEST_FOLDER:
        return name_part(name)
    return re.sub(r"[/\\\0]", lambda mark: f"%{ord(mark[0]):02X}", name)


def name_part(name: str, *, longest: int = 150) -> str:
    """``name`` as text that every file system takes in a file's name; equal names, equal text.

    Letters, digits and ``_ . - ~`` stay; any other character is percent-encoded. What is then
    longer than ``longest`` is cut, and ends in ``~`` and first digits of the SHA-256 of the name.

    >>> name_part("block/0.relu"), name_part("layer4")
    ('block%2F0.relu', 'layer4')
    >>> len(name_part("deep." * 100))
    150
    """
    escaped = quote(name, safe="", errors="surrogatepass")
    if len(escaped) <= longest:
        return escaped
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{escaped[: longest - _DIGEST_LENGTH - 1]}~{digest}"

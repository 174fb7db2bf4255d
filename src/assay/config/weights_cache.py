"""Weights that a setting names by their address on the web, fetched once."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from assay._atomic import atomic_path, make_folder
from assay.errors import ModelError
from assay.runtime.masking import masked_text

__all__ = ["cached_weights"]

_TIMEOUT_S = 60.0
_UNFIT = re.compile(r"[^\w.-]")


def cached_weights(url: str, folder: str | os.PathLike[str]) -> Path:
    """The local copy of ``url`` in ``folder``, fetched where it is not there yet.

    A copy appears whole or not at all, and each address has a file of its own, so a name that two
    sites share is no mistake.

    Raises:
        ModelError: it cannot be fetched, or what came is shorter than the server had said.
        OutputError: it cannot be written.
    """
    path = Path(folder) / _file_name(url)
    if path.is_file():
        return path
    make_folder(path.parent)
    with atomic_path(path) as partial:
        _fetch(url, partial)
    return path


def _file_name(url: str) -> str:
    """``1a2b3c4d5e6f/resnet.pth``: a digest of the whole address, and its last part."""
    name = _UNFIT.sub("_", unquote(PurePosixPath(urlsplit(url).path).name)).lstrip(".")[-100:]
    return f"{hashlib.sha256(url.encode()).hexdigest()[:12]}/{name or 'weights'}"


def _fetch(url: str, partial: Path) -> None:
    import http.client
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            _copy(answer, partial)
    except (OSError, ValueError, http.client.HTTPException) as error:
        if getattr(error, "filename", None) == str(partial):
            raise  # the disk's fault, not the web's
        raise ModelError(
            f"{masked_text(url)} cannot be fetched: {error}. Fetch it by other means, and name the "
            f"file by config.MODEL.WEIGHTS_INIT.PARAMS_FILE."
        ) from error


def _copy(answer: Any, partial: Path) -> None:
    with partial.open("wb") as file:
        shutil.copyfileobj(answer, file)
    promised = answer.headers.get("Content-Length")
    if promised is not None and int(promised) != partial.stat().st_size:
        raise OSError(f"{promised} bytes were promised, {partial.stat().st_size} came")

"""The records of a zip archive: where they lie in the file, and whether their checksums hold.

``torch.save`` and ``numpy.savez`` both write such archives, and neither torch nor a memory map
looks at the checksums on reading: a flipped bit would become a wrong weight.
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["ZipRecord", "check_zip", "is_zip", "zip_records"]

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_SIGNATURE = b"PK\x03\x04"
_NAMES_ARE_UTF8 = 0x800
_WINDOW_BYTES = 1 << 24  # mapped at a time; a multiple of every page size
_CHUNK_BYTES = 1 << 20
_THREADS = 4  # zlib lets go of the interpreter's lock


@dataclass(frozen=True)
class ZipRecord:
    """One file of an archive."""

    name: str
    offset: int  # of its first byte in the archive
    num_bytes: int  # as it stands there
    is_stored: bool  # not compressed: its bytes in the archive are its own
    checksum: int  # CRC-32 of its own bytes; 0 where the writer left it out


def is_zip(file: Path) -> bool:
    """Whether the file begins as an archive with at least one record does."""
    with file.open("rb") as opened:
        return opened.read(4) == _SIGNATURE


def zip_records(file: Path) -> list[ZipRecord]:
    """The records of an archive, in its order.

    Raises:
        zipfile.BadZipFile: it is none, a record stands twice, or its header is damaged.
    """
    with zipfile.ZipFile(file) as archive, file.open("rb") as opened:
        infos = archive.infolist()
        if len({info.filename for info in infos}) < len(infos):
            raise zipfile.BadZipFile("two records have one name")
        return [_record(info, opened) for info in infos]


def check_zip(file: Path) -> None:
    """Compare every record with its checksum.

    Raises:
        zipfile.BadZipFile: the archive is damaged; the message names the first damaged record.
    """
    records = [record for record in zip_records(file) if record.checksum]
    threads = min(_THREADS, os.cpu_count() or 1, len(records) or 1)
    with ThreadPoolExecutor(threads) as pool:
        sums = pool.map(lambda record: _checksum(file, record), records)
        for record, found in zip(records, sums, strict=True):
            if found != record.checksum:
                raise zipfile.BadZipFile(f"bad checksum of {record.name!r}")


def _record(info: zipfile.ZipInfo, opened: BinaryIO) -> ZipRecord:
    opened.seek(info.header_offset)
    header = opened.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(_SIGNATURE):
        raise zipfile.BadZipFile(f"damaged header of {info.filename!r}")
    *_, flags, _method, _time, _date, _crc, _packed, _size, name_bytes, extra_bytes = (
        _LOCAL_HEADER.unpack(header)
    )
    name = opened.read(name_bytes).decode(
        "utf-8" if flags & _NAMES_ARE_UTF8 else "cp437", errors="replace"
    )
    if name != info.orig_filename:
        raise zipfile.BadZipFile(f"header of {info.filename!r} has another name")
    return ZipRecord(
        name=info.filename,
        offset=info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes,
        num_bytes=info.compress_size,
        is_stored=info.compress_type == zipfile.ZIP_STORED,
        checksum=info.CRC,
    )


def _checksum(file: Path, record: ZipRecord) -> int:
    """The CRC-32 of what really stands there. Errors of the decompressor are told by -1."""
    checksum = 0
    if record.is_stored:
        for window in _windows(file, record.offset, record.num_bytes):
            checksum = zlib.crc32(window, checksum)
            window.release()
        return checksum
    try:
        with zipfile.ZipFile(file) as archive, archive.open(record.name) as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                checksum = zlib.crc32(chunk, checksum)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        return -1
    return checksum


def _windows(file: Path, offset: int, num_bytes: int) -> Iterator[memoryview]:
    """The bytes of a part of a file, mapped window by window so that few are in memory at once."""
    end = offset + num_bytes
    if end > file.stat().st_size:
        raise zipfile.BadZipFile("a record goes on behind the end of the file")
    with file.open("rb") as opened:
        for start in range(offset - offset % _WINDOW_BYTES, end, _WINDOW_BYTES):
            stop = min(start + _WINDOW_BYTES, end)
            with mmap.mmap(
                opened.fileno(), stop - start, access=mmap.ACCESS_READ, offset=start
            ) as window:
                yield memoryview(window)[max(offset - start, 0) :]

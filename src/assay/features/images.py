"""One image file -> an RGB image as a browser shows it, or an error that names the file."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from assay._optional import require
from assay.errors import ImageError
from assay.features.regular_file import open_regular

require("PIL.Image", extra="evaluate", purpose="read images")
from PIL import ExifTags, Image, UnidentifiedImageError  # noqa: E402

__all__ = ["BadImage", "printable", "raise_bad_images", "read_image", "to_rgb"]

_NAMED_BAD_IMAGES = 50

# What Pillow's openers and decoders raise on damaged data: they parse by hand, so nearly every
# kind of look-up, arithmetic and type error is among it. `Warning` is for runs under `-W error`.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    EOFError,
    RuntimeError,
    MemoryError,
    AssertionError,
    Warning,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_TIFF_PHOTOMETRIC = 262  # 0: the smallest value is white
_TIFF_SAMPLE_FORMAT = 339  # 1 or missing: unsigned; 2: signed; 3: floating point


@dataclass(frozen=True)
class BadImage:
    """An image that cannot be read."""

    name: str  # its name in its image set
    reason: str  # why not, for people


def read_image(source: str | os.PathLike[str] | bytes, name: str | None = None) -> Image.Image:
    """The image in a file, or in the bytes of one, in mode RGB as a browser shows it.

    The EXIF orientation is applied (a broken EXIF block is ignored); everything else is the
    business of :func:`to_rgb`. Of an animation or a file of several pages it is the first. No file
    handle stays open.

    Args:
        source: path of the file, or its content.
        name: what an error calls it; by default its path.

    Raises:
        ImageError: missing, not a regular file, empty, not an image, truncated, corrupt, or with
            more pixels than ``PIL.Image.MAX_IMAGE_PIXELS``, where Pillow itself only warns.
    """
    if name is None:
        name = "image data" if isinstance(source, bytes) else os.fspath(source)
    try:
        with _open(source) as stream, Image.open(stream) as image:
            _refuse_untrusted(image)
            image.load()
            turn = _UPRIGHT.get(_orientation(image))
            rgb = to_rgb(image)
            return rgb if turn is None else rgb.transpose(turn)
    except _DAMAGE as error:
        raise ImageError(f"{printable(name)}: {_reason(error)}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """A new image in mode RGB, for an image of any of Pillow's modes.

    - Transparent pixels, of an alpha channel or of a palette, lie on white.
    - 16-bit grey keeps its high byte, as Pillow does for 16-bit colour. (Pillow's own conversion
      clips grey at 255, which turns most of the picture white.)
    - 32-bit grey has no agreed white. It is taken as the smallest of 255, 65535, 2**32 - 1 that
      no pixel exceeds; for floating point 1 comes first, and the brightest pixel last. Negative
      values and NaN are black, infinity is white.
    - CMYK is converted without a profile (Pillow undoes the inversion of CMYK JPEG files).
    - Embedded colour profiles are not applied: the pipelines that vision models were trained
      with do not apply them either.

    Raises:
        ValueError: Pillow cannot convert the mode (``LAB``).
    """
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        return _deep_grey(image).convert("RGB")
    if image.has_transparency_data:
        rgba = _with_byte_key(image).convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def raise_bad_images(bad_images: Sequence[BadImage], source: str = "") -> None:
    """Do nothing if there are none; else raise one error that names them all, up to 50.

    Raises:
        ImageError: ``bad_images`` is not empty.
    """
    if not bad_images:
        return
    count = len(bad_images)
    named = [f"  {bad.name}: {bad.reason}" for bad in bad_images[:_NAMED_BAD_IMAGES]]
    if count > len(named):
        named.append(f"  ... and {count - len(named)} more")
    what = "1 image" if count == 1 else f"{count} images"
    origin = f" of {source}" if source else ""
    advice = "Mend or remove them, or have them skipped: config.DATA.BAD_IMAGES=skip"
    raise ImageError("\n".join([f"{what}{origin} cannot be read:", *named, advice]))


def printable(name: str) -> str:
    """``name`` as text that every encoder takes: bytes that are not UTF-8 become U+FFFD.

    >>> printable("caf\\udce9.jpg") == "caf\\ufffd.jpg"
    True
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _open(source: str | os.PathLike[str] | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)


def _refuse_untrusted(image: Image.Image) -> None:
    if image.format == "EPS":  # a program, which Pillow would have Ghostscript run
        raise UnidentifiedImageError("PostScript")
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")


def _orientation(image: Image.Image) -> Any:
    """The EXIF orientation, 1 to 8; or whatever else stands there; 1 if the block is broken."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except _DAMAGE:
        return 1


def _with_byte_key(image: Image.Image) -> Image.Image:
    """The image with its transparent colour in 8 bits, where a 16-bit PNG gives it in 16."""
    key = image.info.get("transparency")
    if image.mode != "RGB" or not isinstance(key, tuple) or max(key) <= 255:
        return image
    copy = image.copy()
    copy.info["transparency"] = tuple(value >> 8 for value in key)
    return copy


def _deep_grey(image: Image.Image) -> Image.Image:
    """Mode I;16*, I or F as mode L."""
    values = np.asarray(image)
    tags = getattr(image, "tag_v2", {})
    if image.mode == "F":
        grey = _float_to_byte(values)
    else:
        if image.mode == "I" and tags and tags.get(_TIFF_SAMPLE_FORMAT, 1) in (1, (1,)):
            values = values.view(np.uint32)  # Pillow keeps unsigned values in signed integers
        sixteen = image.mode != "I" or image.format in ("PNG", "PPM")
        grey = _int_to_byte(values, bits=16 if sixteen else None)
    if tags.get(_TIFF_PHOTOMETRIC) == 0:
        grey = 255 - grey
    key = image.info.get("transparency")
    if isinstance(key, int):
        grey = np.where(values == key, np.uint8(255), grey)
    return Image.fromarray(grey)


def _int_to_byte(values: npt.NDArray[Any], bits: int | None) -> npt.NDArray[np.uint8]:
    """The high byte of integers of ``bits`` bits; None takes the least of 8, 16, 32 that fits."""
    wide = np.maximum(values.astype(np.int64), 0)
    if bits is None:
        bits = next(bits for bits in (8, 16, 32) if wide.max() < 1 << bits)
    return (wide >> (bits - 8)).astype(np.uint8)


def _float_to_byte(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    numbers = np.where(np.isnan(values), 0, values).astype(np.float64)
    brightest = float(np.max(numbers, initial=0, where=np.isfinite(numbers)))
    white = next((white for white in (1, 255, 65535, 2**32 - 1) if brightest <= white), brightest)
    return np.rint(np.clip(numbers / white, 0, 1) * 255).astype(np.uint8)


def _reason(error: BaseException) -> str:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return (
            f"more pixels than PIL.Image.MAX_IMAGE_PIXELS ({Image.MAX_IMAGE_PIXELS}): {error}. "
            "Raise that limit if you trust the file"
        )
    if isinstance(error, UnidentifiedImageError):
        return "empty, truncated, or not an image of a kind that Pillow reads"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"truncated or corrupt: {error or type(error).__name__}"

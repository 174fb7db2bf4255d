"""Small pictures for the page, each kept once and all within a budget of bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay._optional import require
from assay.errors import ImageError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["LARGEST_PX", "Thumbnail", "Thumbnails", "make_thumbnail"]

LARGEST_PX = 96
_CRISP_PX = 32


@dataclass(frozen=True)
class Thumbnail:
    """One picture, ready for the page."""

    uri: str  # data:image/...;base64,...
    width_px: int
    height_px: int
    crisp: bool  # enlarge it as squares, not blurred


def make_thumbnail(image: Image) -> Thumbnail:
    """``image`` with no side over 96 pixels.

    Up to 32 pixels a side it keeps every pixel (PNG) and is to be enlarged as squares, so that an
    8 x 8 digit stays one; above, it is shrunk where it must be, and stored as JPEG.
    """
    images = require("PIL.Image", extra="evaluate", purpose="put images on the report")
    rgb = image.convert("RGB")
    crisp = max(rgb.size) <= _CRISP_PX
    if not crisp:
        rgb.thumbnail((LARGEST_PX, LARGEST_PX), images.Resampling.LANCZOS)
    buffer = io.BytesIO()
    if crisp:
        rgb.save(buffer, format="PNG", optimize=True)
    else:
        rgb.save(buffer, format="JPEG", quality=82, optimize=True)
    kind = "png" if crisp else "jpeg"
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Thumbnail(f"data:image/{kind};base64,{data}", rgb.width, rgb.height, crisp)


@dataclass
class Thumbnails:
    """Thumbnails of test images by row, made when first asked for.

    An image that cannot be read any more has none; its reason is kept in ``unreadable``.
    """

    load_image: Callable[[int], Image]
    budget_bytes: int
    used_bytes: int = 0
    made: dict[int, Thumbnail] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)

    def add(self, rows: set[int]) -> bool:
        """Make the thumbnails of ``rows``; False, and none is added, if they exceed the budget."""
        fresh: dict[int, Thumbnail] = {}
        for row in sorted(rows - self.made.keys() - self.unreadable.keys()):
            try:
                fresh[row] = make_thumbnail(self.load_image(row))
            except (ImageError, OSError) as error:
                # The scores stand without the picture; the page says that it is gone, and why.
                self.unreadable[row] = str(error)
        cost = sum(len(thumbnail.uri) for thumbnail in fresh.values())
        if self.used_bytes + cost > self.budget_bytes:
            return False
        self.made.update(fresh)
        self.used_bytes += cost
        return True

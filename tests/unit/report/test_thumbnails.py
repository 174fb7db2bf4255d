from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from assay.errors import ImageError
from assay.report.thumbnails import Thumbnails, make_thumbnail


def decode(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, size=(height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_a_tiny_image_keeps_every_pixel() -> None:
    image = noise(8, 8)

    thumbnail = make_thumbnail(image)

    assert thumbnail.crisp
    assert thumbnail.uri.startswith("data:image/png;base64,")
    assert decode(thumbnail.uri).convert("RGB").tobytes() == image.tobytes()


@pytest.mark.parametrize("size", [(400, 200), (200, 400), (96, 96), (5000, 3)])
def test_a_large_image_fits_96_pixels_in_its_own_shape(size: tuple[int, int]) -> None:
    thumbnail = make_thumbnail(noise(*size))

    assert not thumbnail.crisp
    assert max(thumbnail.width_px, thumbnail.height_px) == 96
    assert min(thumbnail.width_px, thumbnail.height_px) >= 1
    assert decode(thumbnail.uri).size == (thumbnail.width_px, thumbnail.height_px)


@pytest.mark.parametrize("mode", ["L", "RGB", "1", "P", "RGBA", "CMYK"])
def test_an_image_of_any_mode_becomes_a_thumbnail_and_is_not_changed(mode: str) -> None:
    image = noise(120, 120).convert(mode)

    make_thumbnail(image)

    assert image.mode == mode
    assert image.size == (120, 120)


def test_each_image_is_loaded_and_kept_once() -> None:
    loaded: list[int] = []

    def load(row: int) -> Image.Image:
        loaded.append(row)
        return noise(8, 8)

    thumbnails = Thumbnails(load, budget_bytes=100_000)
    thumbnails.add({1, 2})
    thumbnails.add({2, 3})

    assert loaded == [1, 2, 3]
    assert set(thumbnails.made) == {1, 2, 3}


def test_images_beyond_the_budget_are_refused_together() -> None:
    size = len(make_thumbnail(noise(96, 96)).uri)
    thumbnails = Thumbnails(lambda row: noise(96, 96), budget_bytes=int(2.5 * size))

    assert thumbnails.add({1, 2})
    assert not thumbnails.add({3, 4})
    assert set(thumbnails.made) == {1, 2}
    assert thumbnails.used_bytes == 2 * size


@pytest.mark.parametrize("error", [ImageError("cat.jpg: truncated"), OSError("cat.jpg: gone")])
def test_an_image_that_cannot_be_read_any_more_is_noted_with_its_reason(error: Exception) -> None:
    def load(row: int) -> Image.Image:
        raise error

    thumbnails = Thumbnails(load, budget_bytes=1000)

    assert thumbnails.add({7})
    assert thumbnails.made == {}
    assert thumbnails.unreadable == {7: str(error)}


def test_a_fault_of_the_program_is_not_taken_for_a_bad_image() -> None:
    def load(row: int) -> Image.Image:
        raise IndexError(row)

    with pytest.raises(IndexError):
        Thumbnails(load, budget_bytes=1000).add({7})

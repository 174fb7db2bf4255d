from __future__ import annotations

import io
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from assay.errors import DataError, ImageError
from assay.features.images import BadImage, printable, raise_bad_images, read_image, to_rgb

RAMP16 = np.arange(65536, dtype=np.uint16).reshape(256, 256)

# The EXIF standard: the visual side on which the stored row 0 lies, and the stored column 0.
EXIF_SIDES = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}

pytestmark = pytest.mark.filterwarnings("ignore")  # Pillow's own, about broken files


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def tiff(pixels: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, pixels, **options)
    return stream.getvalue()


def png(pixels: np.ndarray, colour: int, key: bytes = b"") -> bytes:
    """A 16-bit PNG of (H, W) or (H, W, C) pixels, with a tRNS chunk if ``key`` is given."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, colour, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    transparent = chunk(b"tRNS", key) if key else b""
    body = chunk(b"IHDR", head) + transparent + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def array(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def as_seen(stored: np.ndarray, orientation: int) -> np.ndarray:
    """Where the EXIF standard puts each stored pixel."""
    rows, columns = stored.shape[:2]
    row_side, column_side = EXIF_SIDES[orientation]
    swapped = row_side in ("left", "right")
    seen = np.empty((columns, rows, 3) if swapped else (rows, columns, 3), stored.dtype)
    for row in range(rows):
        for column in range(columns):
            place = {row_side: row, column_side: column}
            y = place["top"] if "top" in place else seen.shape[0] - 1 - place["bottom"]
            x = place["left"] if "left" in place else seen.shape[1] - 1 - place["right"]
            seen[y, x] = stored[row, column]
    return seen


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_as_its_exif_block_says(photos, kind, orientation):
    photo = photos["rocket"].resize((24, 16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95}}.get(kind, {})
    data = encode(photo, kind, exif=exif, **options)
    stored = np.asarray(Image.open(io.BytesIO(encode(photo, kind, **options))))
    np.testing.assert_array_equal(np.asarray(read_image(data)), as_seen(stored, orientation))


@pytest.mark.parametrize(
    "block",
    [
        b"Exif\0\0",
        b"Exif\0\0garbage that is no TIFF header",
        b"Exif\0\0II*\0",
        b"Exif\0\0II*\0\xff\xff\xff\x7f",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01" * 40,
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\xff\xff\xff\xff\0\0\0\0",
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x05\0\x01\0\0\0\xf0\xff\0\0\0\0\0\0",
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_broken_exif_block_is_ignored(photos, kind, block):
    photo = photos["cat"]
    plain, broken = encode(photo, kind), encode(photo, kind, exif=block)
    assert block[6:] in broken
    np.testing.assert_array_equal(np.asarray(read_image(broken)), np.asarray(read_image(plain)))


@pytest.mark.parametrize("orientation", [0, 9, 255, 65535])
def test_an_orientation_that_is_none_is_ignored(photos, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = photos["cat"]
    assert read_image(encode(photo, "JPEG", exif=exif)).size == photo.size


def test_an_rgb_file_keeps_its_pixels_by_path_by_text_and_by_bytes(tmp_path, photos):
    path = tmp_path / "cat.png"
    photos["cat"].save(path)
    for source in (path, str(path), path.read_bytes()):
        image = read_image(source)
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), np.asarray(photos["cat"]))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "BMP", "GIF"])
def test_grey_becomes_three_equal_channels(photos, kind):
    grey = photos["coffee"].convert("L")
    seen = array(read_image(encode(grey, kind)))
    assert (seen == seen[:, :, :1]).all()
    assert abs(seen[:, :, 0] - array(grey)).mean() <= (5 if kind == "JPEG" else 0)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
def test_one_bit_becomes_black_and_white(photos, kind):
    bits = photos["coffee"].convert("1")
    np.testing.assert_array_equal(
        np.asarray(read_image(encode(bits, kind)))[:, :, 1], np.asarray(bits).astype(np.uint8) * 255
    )


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_pixels_lie_on_white(photos, mode):
    photo = photos["cat"].convert(mode)
    alpha = Image.linear_gradient("L").resize(photo.size)
    alpha.paste(0, (0, 0, alpha.width, 1))
    alpha.paste(255, (0, alpha.height - 1, alpha.width, alpha.height))
    photo.putalpha(alpha)
    opacity = np.asarray(alpha)[:, :, None] / 255
    colours = np.asarray(photo.convert("RGB")).astype(float)
    expected = colours * opacity + 255 * (1 - opacity)
    seen = array(read_image(encode(photo, "PNG")))
    assert abs(seen - expected).max() <= 1
    assert (seen[0] == 255).all()
    np.testing.assert_array_equal(seen[-1], colours[-1])


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF"])
def test_a_palette_is_looked_up(photos, kind):
    palette = photos["flower"].quantize(32)
    expected = np.asarray(palette.convert("RGB"))
    np.testing.assert_array_equal(np.asarray(read_image(encode(palette, kind))), expected)


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_transparent_palette_entry_is_white(photos, kind):
    palette = photos["flower"].quantize(32)
    clear = np.asarray(palette) == 5
    expected = np.where(clear[:, :, None], 255, np.asarray(palette.convert("RGB")))
    assert clear.any()
    seen = read_image(encode(palette, kind, transparency=5))
    np.testing.assert_array_equal(np.asarray(seen), expected)


def test_palette_entries_may_be_half_transparent(photos):
    palette = photos["flower"].quantize(4)
    data = encode(palette, "PNG", transparency=bytes([128, 128, 128, 128]))
    expected = array(palette.convert("RGB")) * (128 / 255) + 255 * (127 / 255)
    assert abs(array(read_image(data)) - expected).max() <= 1


@pytest.mark.parametrize(("mode", "key"), [("L", 0), ("RGB", (0, 0, 0))])
def test_a_transparent_colour_is_white(mode, key):
    image = Image.new(mode, (4, 4), key)
    image.paste(Image.new(mode, (2, 4), 100 if mode == "L" else (100, 50, 1)), (0, 0))
    seen = array(read_image(encode(image, "PNG", transparency=key)))
    assert (seen[:, 2:] == 255).all()
    assert (seen[:, :2, 0] == 100).all()


def test_cmyk_jpeg_and_tiff_look_like_the_photograph(photos):
    cmyk = photos["person"].convert("CMYK")
    jpeg = encode(cmyk, "JPEG", quality=95)
    assert b"Adobe" in jpeg  # these store the inverse of their values
    for data, off_by in ((jpeg, 4), (encode(cmyk, "TIFF"), 0)):
        assert abs(array(read_image(data)) - array(photos["person"])).mean() <= off_by


def test_cmyk_jpeg_without_the_adobe_mark_is_taken_as_inverted_as_browsers_do(photos):
    jpeg = encode(photos["person"].convert("CMYK"), "JPEG", quality=95)
    start = jpeg.index(b"\xff\xee")
    length = struct.unpack(">H", jpeg[start + 2 : start + 4])[0]
    bare = jpeg[:start] + jpeg[start + 2 + length :]
    assert b"Adobe" not in bare
    assert abs(array(read_image(bare)) - array(photos["person"])).mean() <= 4


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encode(Image.fromarray(RAMP16), "PNG"), id="png"),
        pytest.param(encode(Image.fromarray(RAMP16), "TIFF"), id="tiff"),
        pytest.param(tiff(RAMP16.astype(">u2"), byteorder=">"), id="big-endian tiff"),
        pytest.param(b"P5 256 256 65535\n" + RAMP16.astype(">u2").tobytes(), id="pgm"),
    ],
)
def test_sixteen_bit_grey_is_scaled_not_clipped(data):
    seen = np.asarray(read_image(data))
    for channel in range(3):
        np.testing.assert_array_equal(seen[:, :, channel], RAMP16 >> 8)


def test_sixteen_bit_grey_that_is_dark_stays_dark():
    dark = RAMP16 // 512
    for data in (
        encode(Image.fromarray(dark), "PNG"),
        tiff(dark),
        b"P5 256 256 65535\n" + dark.astype(">u2").tobytes(),
    ):
        assert read_image(data).getextrema()[0] == (0, 0)


def test_sixteen_bit_colour_and_grey_agree():
    colour = np.stack([RAMP16] * 3, axis=2)
    grey = np.asarray(read_image(encode(Image.fromarray(RAMP16), "PNG")))
    np.testing.assert_array_equal(np.asarray(read_image(tiff(colour, photometric="rgb"))), grey)
    np.testing.assert_array_equal(np.asarray(read_image(png(colour, colour=2))), grey)


def test_sixteen_bit_grey_with_alpha_or_a_transparent_value():
    alpha = np.where(RAMP16 < 30000, 0, 65535).astype(np.uint16)
    seen = np.asarray(read_image(png(np.stack([RAMP16, alpha], axis=2), colour=4)))[:, :, 0]
    np.testing.assert_array_equal(seen, np.where(RAMP16 < 30000, 255, RAMP16 >> 8))
    seen = np.asarray(read_image(png(RAMP16, colour=0, key=struct.pack(">H", 300))))[:, :, 0]
    np.testing.assert_array_equal(seen, np.where(RAMP16 == 300, 255, RAMP16 >> 8))


def test_sixteen_bit_colour_with_a_transparent_value():
    pixels = np.array([[[0x1234, 0x5678, 0x9ABC], [0x4000, 0x5000, 0x6000]]], np.uint16)
    key = struct.pack(">3H", 0x1234, 0x5678, 0x9ABC)
    seen = read_image(png(pixels, colour=2, key=key))
    assert [seen.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (0x40, 0x50, 0x60)]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_tiff_whose_least_value_is_white(dtype):
    ramp = (RAMP16 >> (16 - np.iinfo(dtype).bits)).astype(dtype)
    seen = np.asarray(read_image(tiff(ramp, photometric="miniswhite")))[:, :, 0]
    np.testing.assert_array_equal(seen, 255 - (RAMP16 >> 8))


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.array([[0, 128, 255]], np.int32), [0, 128, 255]),
        (np.array([[0, 256, 65535]], np.int32), [0, 1, 255]),
        (np.array([[0, 1 << 24, 2**32 - 1]], np.uint32), [0, 1, 255]),
        (np.array([[-5, 0, 255]], np.int32), [0, 0, 255]),
        (np.array([[0, 0.5, 1]], np.float32), [0, 128, 255]),
        (np.array([[0, 1.5, 255]], np.float32), [0, 2, 255]),
        (np.array([[0, 257, 65535]], np.float32), [0, 1, 255]),
        (np.array([[0, 5e9, 1e10]], np.float32), [0, 128, 255]),
        (np.array([[-1, np.nan, 1]], np.float32), [0, 0, 255]),
        (np.array([[0.5, -np.inf, np.inf]], np.float32), [128, 0, 255]),
        (np.array([[np.nan, np.nan, np.nan]], np.float32), [0, 0, 0]),
    ],
)
def test_thirty_two_bit_grey_takes_the_least_white_that_holds_it(pixels, expected):
    assert list(np.asarray(read_image(tiff(pixels)))[0, :, 0]) == expected


def test_the_first_frame_of_an_animation_is_the_image(photos):
    frames = [photos[name].resize((32, 32)).quantize(16) for name in ("cat", "rocket")]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    expected = np.asarray(frames[0].convert("RGB"))
    np.testing.assert_array_equal(np.asarray(read_image(data)), expected)


def test_colour_profiles_are_not_applied(photos):
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("XYZ")).tobytes()
    seen = read_image(encode(photos["cat"], "PNG", icc_profile=profile))
    np.testing.assert_array_equal(np.asarray(seen), np.asarray(photos["cat"]))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LA"])
def test_to_rgb_leaves_its_argument_alone(photos, mode):
    image = photos["cat"].convert("RGB").convert("L" if mode == "LA" else "RGB").convert(mode)
    before, info = image.tobytes(), dict(image.info)
    converted = to_rgb(image)
    assert converted.mode == "RGB"
    assert converted is not image
    assert (image.tobytes(), image.info) == (before, info)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"])
def test_a_truncated_file_is_named(tmp_path, photos, kind, share):
    path = tmp_path / f"half.{kind.lower()}"
    data = encode(photos["cat"].quantize() if kind == "GIF" else photos["cat"], kind)
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "object at 0x" not in str(caught.value)


def test_a_corrupt_file_is_named_by_the_given_name(photos):
    data = bytearray(encode(photos["cat"], "PNG"))
    data[len(data) // 2 :] = os.urandom(10) + data[len(data) // 2 + 10 :]
    with pytest.raises(ImageError, match=r"^cat/1\.png: truncated or corrupt"):
        read_image(bytes(data), "cat/1.png")


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"\x89PNG\r\n\x1a\n", b"\0" * 999])
def test_what_is_not_an_image_is_named(tmp_path, content):
    path = tmp_path / "no image.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"no image\.jpg: .*not an image"):
        read_image(path)


def test_postscript_is_not_run(photos):
    with pytest.raises(ImageError, match="not an image"):
        read_image(encode(photos["cat"], "EPS"))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(ImageError, match=r"gone\.jpg: No such file"):
        read_image(tmp_path / "gone.jpg")
    with pytest.raises(ImageError, match=r"Is a directory"):
        read_image(tmp_path)
    with pytest.raises(ImageError, match="null"):
        read_image("nul\0.jpg")


@pytest.mark.parametrize("limit", [96 * 96 // 2, 10])
@pytest.mark.filterwarnings("ignore")
def test_more_pixels_than_pillow_allows_are_refused(tmp_path, photos, monkeypatch, limit):
    path = tmp_path / "bomb.png"
    photos["person"].save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(ImageError, match=r"bomb\.png: more pixels than .*MAX_IMAGE_PIXELS"):
        read_image(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert read_image(path).size == (96, 96)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs a list of open files")
def test_no_file_stays_open(tmp_path, photos):
    good, bad = tmp_path / "a.gif", tmp_path / "b.gif"
    photos["cat"].quantize().save(good)
    bad.write_bytes(good.read_bytes()[:500])
    images = [read_image(good)]
    with pytest.raises(ImageError):
        read_image(bad)
    open_files = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
    assert not open_files & {str(good), str(bad)}
    assert images[0].size == photos["cat"].size


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP", "PPM", "ICO", "JPEG2000"]),
    seed=st.integers(0, 2**32),
    changes=st.integers(1, 30),
    near_start=st.booleans(),
)
def test_damaged_files_are_read_or_refused_and_nothing_else(
    photos, kind, seed, changes, near_start
):
    small = photos["rocket"].resize((20, 14))
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {"exif": exif} if kind in ("JPEG", "PNG", "TIFF", "WEBP") else {}
    data = bytearray(encode(small.quantize() if kind == "GIF" else small, kind, **options))
    chance = random.Random(seed)
    for _ in range(changes):
        place = chance.randrange(min(len(data), 200) if near_start else len(data))
        data[place] = chance.randrange(256)
    refusal, mode = "damaged: ", "RGB"
    try:
        mode = read_image(bytes(data), "damaged").mode
    except ImageError as error:
        refusal = str(error)
    assert refusal.startswith("damaged: ")
    assert mode == "RGB"


def test_no_bad_images_raise_nothing():
    raise_bad_images([])


def test_bad_images_are_named_together_with_their_reasons():
    bad = [BadImage("cat/1.jpg", "truncated"), BadImage("dog/2.jpg", "empty")]
    with pytest.raises(ImageError) as caught:
        raise_bad_images(bad, "data/train")
    assert str(caught.value).splitlines()[:3] == [
        "2 images of data/train cannot be read:",
        "  cat/1.jpg: truncated",
        "  dog/2.jpg: empty",
    ]
    assert "skip" in str(caught.value)


def test_of_very_many_bad_images_fifty_are_named_and_the_rest_counted():
    with pytest.raises(ImageError) as caught:
        raise_bad_images([BadImage(f"{index}.jpg", "empty") for index in range(60)])
    text = str(caught.value)
    assert "60 images cannot be read" in text
    assert "  49.jpg: empty\n  ... and 10 more\n" in text


@given(st.binary(max_size=40))
def test_any_file_name_can_be_printed(name):
    text = printable(os.fsdecode(name))
    text.encode("utf-8")
    if name.isascii():
        assert text == name.decode()

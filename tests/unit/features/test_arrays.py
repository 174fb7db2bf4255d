from __future__ import annotations

import contextlib
import os
import pickle
import random

import numpy as np
import pytest
from sklearn.datasets import load_digits

from assay.errors import DataError, ImageError
from assay.features.arrays import Digits, NpyImages, read_targets


@pytest.fixture
def store(tmp_path):
    """Save images and targets; open them."""

    def save(pixels: np.ndarray, targets: object = None) -> NpyImages:
        np.save(tmp_path / "images.npy", pixels)
        np.save(
            tmp_path / "targets.npy", np.zeros(len(pixels), int) if targets is None else targets
        )
        return NpyImages(tmp_path / "images.npy")

    return save


GREY = np.arange(0, 240, 8, dtype=np.uint8).reshape(1, 6, 5)
COLOUR = np.arange(90, dtype=np.uint8).reshape(1, 6, 5, 3)


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        pytest.param(GREY, GREY[0], id="grey"),
        pytest.param(GREY[..., None], GREY[0], id="one channel"),
        pytest.param(GREY[:, None], GREY[0], id="one channel first"),
        pytest.param(GREY.astype(np.int64), GREY[0], id="int64"),
        pytest.param(GREY.astype(np.uint16) * 257, GREY[0], id="uint16"),
        pytest.param((GREY.astype(np.uint16) * 257).astype(">u2"), GREY[0], id="big-endian"),
        pytest.param(GREY.astype(np.float32) / 255, GREY[0], id="float32"),
        pytest.param(GREY.astype(np.float64) / 255, GREY[0], id="float64"),
        pytest.param(GREY >= 100, (GREY[0] >= 100) * 255, id="bool"),
        pytest.param(np.asfortranarray(GREY), GREY[0], id="fortran"),
    ],
)
def test_grey_arrays_become_images(store, pixels, expected):
    image = store(pixels).load(0)
    assert image.mode == "RGB"
    for channel in range(3):
        np.testing.assert_array_equal(np.asarray(image)[:, :, channel], expected)


@pytest.mark.parametrize(
    "pixels", [COLOUR, np.moveaxis(COLOUR, 3, 1), COLOUR / 255], ids=["last", "first", "float"]
)
def test_colour_arrays_become_images(store, pixels):
    np.testing.assert_array_equal(np.asarray(store(pixels).load(0)), COLOUR[0])


def test_the_fourth_channel_is_opacity(store):
    alpha = np.full((1, 6, 5, 1), 255, np.uint8)
    alpha[:, 0] = 0
    seen = np.asarray(store(np.concatenate([COLOUR, alpha], axis=3)).load(0))
    assert (seen[0] == 255).all()
    np.testing.assert_array_equal(seen[1:], COLOUR[0, 1:])


def test_half_precision_pixels_are_read(store):
    seen = np.asarray(store((GREY / 255).astype(np.float16)).load(0))[:, :, 0].astype(int)
    assert abs(seen - GREY[0]).max() <= 1


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(255.0, np.float32), (-0.5, np.float64), (np.nan, np.float32), (np.inf, np.float16),
     (256, np.int32), (-1, np.int8)],
)  # fmt: skip
def test_values_out_of_range_are_named_by_their_image(store, value, dtype):
    pixels = np.zeros((3, 4, 4), dtype)
    pixels[2, 1, 1] = value
    images = store(pixels)
    images.load(1)
    with pytest.raises(ImageError, match=r"images\.npy\[2\]: .* pixels from"):
        images.load(2)


@pytest.mark.parametrize(
    "shape", [(5, 10), (5, 6, 6, 2), (0, 4, 4), (5, 0, 4), (5,), (2, 2, 2, 2, 2)]
)
def test_arrays_that_are_no_images_are_refused(store, shape):
    with pytest.raises(DataError, match=r"images\.npy: an array of shape"):
        store(np.zeros(shape, np.uint8))


def test_pixels_must_be_numbers(store):
    with pytest.raises(DataError, match="complex64"):
        store(np.zeros((2, 3, 3), np.complex64))


def test_images_are_named_by_file_and_index(store, tmp_path):
    images = store(np.zeros((3, 4, 4), np.uint8), [0, 2, 2])
    assert images.names == ["images/0", "images/1", "images/2"]
    assert images.class_names == ("0", "1", "2")
    assert images.targets.tolist() == [[0], [2], [2]]
    assert not images.multi_label


def test_a_different_number_of_targets_is_refused(store):
    with pytest.raises(DataError, match=r"3 images, but .* 2 targets"):
        store(np.zeros((3, 4, 4), np.uint8), [0, 1])


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("images.npy", "targets.npy"),
        ("images.npy", "labels.npy"),
        ("X.npy", "X_labels.npy"),
        ("X.npy", "X_targets.npy"),
        ("train_images.npy", "train_targets.npy"),
        ("train_images.npy", "train_labels.npy"),
    ],
)
def test_targets_are_found_beside_the_images(tmp_path, images, labels):
    np.save(tmp_path / images, np.zeros((2, 4, 4), np.uint8))
    np.save(tmp_path / labels, [1, 0])
    assert NpyImages(tmp_path / images).targets.tolist() == [[1], [0]]


def test_a_folder_of_both_files_is_opened(store, tmp_path):
    store(np.zeros((2, 4, 4), np.uint8), [1, 0])
    assert NpyImages(tmp_path).targets.tolist() == [[1], [0]]


def test_no_targets_or_two_files_of_them_are_refused(store, tmp_path):
    store(np.zeros((2, 4, 4), np.uint8))
    np.save(tmp_path / "labels.npy", [0, 0])
    with pytest.raises(DataError, match="two files of targets"):
        NpyImages(tmp_path)
    assert NpyImages(tmp_path, tmp_path / "labels.npy").targets.tolist() == [[0], [0]]
    (tmp_path / "labels.npy").unlink()
    (tmp_path / "targets.npy").unlink()
    with pytest.raises(DataError, match=r"no targets beside it \(targets\.npy or labels\.npy\)"):
        NpyImages(tmp_path)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, bool])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_column_holds_class_ids(tmp_path, dtype, shape):
    np.save(tmp_path / "t.npy", np.array([0, 1, 1, 0], dtype).reshape(shape))
    targets, class_names, multi_label = read_targets(tmp_path / "t.npy")
    assert targets.dtype == np.int64
    assert targets.tolist() == [[0], [1], [1], [0]]
    assert class_names == ("0", "1")
    assert not multi_label


def test_several_columns_hold_several_labels(tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1, 0, -1], [0, 0, 1]], np.int8))
    targets, class_names, multi_label = read_targets(tmp_path / "t.npy")
    assert targets.tolist() == [[1, 0, -1], [0, 0, 1]]
    assert class_names == ("0", "1", "2")
    assert multi_label


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([0, -1], "class ids from -1"),
        ([0, 10**9], "Number the classes from 0"),
        ([0.5, 1], "not whole"),
        ([np.nan, 1], "not whole"),
        (["cat", "dog"], "dtype <U3"),
        ([[0, 1], [2, 0]], "row 1"),
        (np.zeros((0,)), "shape"),
        (np.zeros((0, 3)), "shape"),
        (np.zeros((2, 3, 4)), "shape"),
        (np.array(3), "shape"),
    ],
)
def test_targets_of_another_kind_are_refused(tmp_path, array, message):
    np.save(tmp_path / "t.npy", np.array(array))
    with pytest.raises(DataError, match=message):
        read_targets(tmp_path / "t.npy")


def test_objects_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "images.npy", np.array([Trap(), Trap()], object), allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("images.npy", "pickle.npy"):
        with pytest.raises(DataError, match=r"not a whole \.npy file"):
            NpyImages(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_a_cut_off_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "images.npy"
    np.save(path, np.zeros((20, 4, 4), np.uint8))
    data = path.read_bytes()
    for content in (
        b"",
        data[:5],
        data[:50],
        data[:-1],
        b"PK\3\4" + data,
        data.replace(b"{", b"("),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"images\.npy: not a whole \.npy file"):
            NpyImages(path)
    with pytest.raises(DataError, match="No such file"):
        NpyImages(tmp_path / "gone.npy")


@pytest.mark.filterwarnings("ignore")
def test_damaged_headers_are_read_or_refused_and_nothing_else(tmp_path):
    path, chance = tmp_path / "t.npy", random.Random(0)
    np.save(path, np.zeros((20, 4), np.uint8))
    whole = path.read_bytes()
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(128)] = chance.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(DataError):
            read_targets(path)


def test_the_digest_follows_pixels_labels_and_time(store, tmp_path):
    pixels = np.zeros((50, 20, 20), np.uint8)
    digests = [store(pixels).digest()]
    stamp = (tmp_path / "images.npy").stat().st_mtime_ns
    digests.append(store(pixels, np.arange(50) % 2).digest())
    pixels[49, 19, 19] = 1
    images = store(pixels)
    os.utime(tmp_path / "images.npy", ns=(stamp, stamp))
    digests.append(images.digest())
    os.utime(tmp_path / "images.npy", ns=(stamp + 1, stamp + 1))
    digests.append(images.digest())
    assert len(set(digests)) == 4


def test_loading_reads_one_image_only(tmp_path):
    np.lib.format.open_memmap(tmp_path / "images.npy", "w+", np.uint8, (40_000, 512, 512))
    np.save(tmp_path / "targets.npy", np.zeros(40_000, int))  # 10 GB of holes
    images = NpyImages(tmp_path)
    assert images.load(39_999).size == (512, 512)
    assert images.digest().startswith("sha256:")


def test_digits_are_those_of_scikit_learn():
    digits, images = load_digits(), Digits()
    assert len(images) == 1797
    assert images.targets[:, 0].tolist() == digits.target.tolist()
    assert images.class_names == tuple("0123456789")
    assert images.names[3] == "digits/3"
    image = images.load(3)
    assert (image.mode, image.size) == ("RGB", (8, 8))
    seen = np.asarray(image)[:, :, 1] / 255 * 16
    assert abs(seen - digits.images[3]).max() < 0.04
    assert max(np.asarray(images.load(index)).max() for index in range(9)) == 255

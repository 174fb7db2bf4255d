from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from assay.errors import DataError, ImageError
from assay.features.datasets import (
    BadImage,
    Concat,
    Digits,
    FileList,
    ImageFolder,
    ImageSet,
    NpyImages,
    Subset,
    VocImages,
)


@pytest.fixture
def every_kind(tmp_path: Path, image_folder: Path, voc_tree: Path) -> dict[str, ImageSet]:
    """One image set of each kind."""
    np.save(tmp_path / "images.npy", np.arange(4 * 6 * 5, dtype=np.uint8).reshape(4, 6, 5))
    np.save(tmp_path / "targets.npy", np.array([0, 1, 1, 0]))
    (tmp_path / "list.txt").write_text("photos/cat/a.jpg 1\nphotos/flower/1.jpg 0")
    folder = ImageFolder(image_folder)
    return {
        "folder": folder,
        "voc": VocImages(voc_tree, "train"),
        "npy": NpyImages(tmp_path / "images.npy"),
        "list": FileList(tmp_path / "list.txt"),
        "digits": Digits(),
        "subset": Subset(folder, [4, 1]),
        "concat": Concat([folder, folder]),
    }


def load_bytes(images: ImageSet) -> bytes:
    return images.load(len(images) - 1).tobytes()


def test_every_kind_keeps_its_promises(every_kind):
    for images in every_kind.values():
        width = len(images.class_names) if images.multi_label else 1
        assert len(images) == len(images.names) > 0
        assert images.targets.shape == (len(images), width)
        assert images.targets.dtype == np.int64
        image, targets = images[0]
        assert isinstance(image, Image.Image)
        assert image.mode == "RGB"
        np.testing.assert_array_equal(targets, images.targets[0])
        assert images.names[0].rsplit("/", 1)[-1] in images.location(0) or "[0]" in images.location(
            0
        )


def test_every_kind_has_a_digest_of_its_own_that_stays(every_kind):
    digests = {kind: images.digest() for kind, images in every_kind.items()}
    assert len(set(digests.values())) == len(digests)
    assert all(digest.startswith("sha256:") and len(digest) == 71 for digest in digests.values())
    assert digests == {kind: images.digest() for kind, images in every_kind.items()}


def test_every_kind_ends_where_it_ends(every_kind):
    for images in every_kind.values():
        with pytest.raises(IndexError):
            images.load(len(images))


def test_every_kind_can_be_pickled(every_kind):
    for images in every_kind.values():
        data = pickle.dumps(images)
        copy = pickle.loads(data)
        assert copy.digest() == images.digest()
        assert copy.names == images.names
        assert load_bytes(copy) == load_bytes(images)


LOAD_ELSEWHERE = """
import pickle, sys

sets = pickle.load(sys.stdin.buffer)
pickle.dump([images.load(len(images) - 1).tobytes() for images in sets], sys.stdout.buffer)
"""


def test_a_process_in_another_folder_loads_the_same_images(every_kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = [*every_kind.values(), ImageFolder("photos")]
    child = subprocess.run(
        [sys.executable, "-c", LOAD_ELSEWHERE],
        input=pickle.dumps(sets),
        cwd=tmp_path.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert pickle.loads(child.stdout) == [load_bytes(images) for images in sets]


def test_mapped_arrays_are_not_pickled_whole(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((1000, 32, 32), np.uint8))
    np.save(tmp_path / "targets.npy", np.arange(1000) % 2)
    images = NpyImages(tmp_path / "images.npy")
    images.load(0)
    assert len(pickle.dumps(images)) < 100_000


def test_a_data_loader_takes_an_image_set(image_folder):
    from torch.utils.data import DataLoader

    images = ImageFolder(image_folder)
    loader = DataLoader(images, batch_size=4, num_workers=1, collate_fn=list)
    batches = list(loader)
    assert [len(batch) for batch in batches] == [4, 2]
    seen = [targets[0] for batch in batches for _, targets in batch]
    assert seen == images.targets[:, 0].tolist()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "cat" / "a.jpg").write_bytes(b"x"), id="size"),
        pytest.param(lambda root: os.utime(root / "cat" / "a.jpg", ns=(0, 1)), id="time"),
        pytest.param(
            lambda root: (root / "cat" / "a.jpg").rename(root / "cat" / "z.jpg"), id="name"
        ),
        pytest.param(lambda root: (root / "cat" / "a.jpg").unlink(), id="fewer"),
        pytest.param(lambda root: (root / "cat").rename(root / "dog"), id="class"),
        pytest.param(
            lambda root: (root / "cat" / "a.jpg").rename(root / "flower" / "a.jpg"), id="label"
        ),
    ],
)
def test_the_digest_of_a_folder_changes_with_it(image_folder, change: Callable[[Path], object]):
    before = ImageFolder(image_folder).digest()
    change(image_folder)
    assert ImageFolder(image_folder).digest() != before


def test_a_copy_that_keeps_its_times_has_the_same_digest(image_folder, tmp_path):
    shutil.copytree(image_folder, tmp_path / "copy")
    assert ImageFolder(tmp_path / "copy").digest() == ImageFolder(image_folder).digest()


def test_a_digest_of_files_that_are_gone_is_another_one(image_folder):
    images = ImageFolder(image_folder)
    before = images.digest()
    (image_folder / "cat" / "a.jpg").unlink()
    assert images.digest() != before


def test_try_load_tells_what_load_would_raise(image_folder):
    (image_folder / "cat" / "a.jpg").write_bytes(b"nothing")
    images = ImageFolder(image_folder)
    place = images.names.index("cat/a.jpg")
    with pytest.raises(ImageError) as caught:
        images.load(place)
    bad = images.try_load(place)
    assert isinstance(bad, BadImage)
    assert str(caught.value) == f"{image_folder / 'cat' / 'a.jpg'}: {bad.reason}"
    assert bad.name == "cat/a.jpg"
    assert isinstance(images.try_load(place + 1), Image.Image)


def test_class_ids_follow_the_given_classes_by_name(blank_images):
    images = blank_images([0, 1, 1, 2], ["ant", "bee", "cow"])
    followed = images.with_class_names(["cow", "dog", "ant", "bee"])
    assert followed.targets[:, 0].tolist() == [2, 3, 3, 0]
    assert followed.class_names == ("cow", "dog", "ant", "bee")
    assert images.targets[:, 0].tolist() == [0, 1, 1, 2]
    assert followed.digest() != images.digest()


def test_columns_follow_the_given_classes_by_name(blank_images):
    images = blank_images([[1, 0, -1], [0, 0, 1]], ["ant", "bee", "cow"])
    followed = images.with_class_names(["cow", "dog", "ant"])  # no image has a bee
    assert followed.targets.tolist() == [[-1, 0, 1], [1, 0, 0]]


def test_an_unknown_class_is_named_with_its_nearest(blank_images):
    images = blank_images([0, 1], ["bee", "cat"])
    with pytest.raises(DataError, match=r"class 'cat' .*Did you mean 'cats'"):
        images.with_class_names(["bee", "cats"])
    assert images.with_class_names(["cat", "bee"]).targets.tolist() == [[1], [0]]


def test_classes_to_follow_must_differ(blank_images):
    with pytest.raises(DataError, match="twice"):
        blank_images([0]).with_class_names(["0", "0"])


def test_a_class_without_an_image_need_not_be_known(blank_images):
    images = blank_images([0, 0], ["ant", "bee"])
    assert images.has_class().tolist() == [True, False]
    assert images.with_class_names(["cow", "ant"]).targets.tolist() == [[1], [1]]


def test_labels_that_do_not_fit_are_refused(blank_images):
    with pytest.raises(DataError, match="targets of shape"):
        blank_images([[1, 0]], ["only"])


def test_a_subset_is_its_images_in_its_order(image_folder):
    images = ImageFolder(image_folder)
    some = Subset(images, [5, 0])
    assert some.names == [images.names[5], images.names[0]]
    assert some.targets.tolist() == [[2], [0]]
    assert some.load(0).tobytes() == images.load(5).tobytes()
    assert some.location(1) == images.location(0)
    assert some.class_names == images.class_names
    nested = Subset(some, [1])
    assert nested.names == [images.names[0]]
    assert nested.load(0).tobytes() == images.load(0).tobytes()


def test_a_subset_has_a_digest_of_its_own(blank_images):
    images = blank_images([0, 0, 0, 0])
    digests = {Subset(images, indices).digest() for indices in ([0, 1], [1, 0], [2, 3], [0], [])}
    assert len(digests | {images.digest()}) == 6


@pytest.mark.parametrize("indices", [[3], [-1], [0, 0], [[0, 1]]])
def test_a_subset_refuses_indices_that_are_none(blank_images, indices):
    with pytest.raises(DataError, match="subset"):
        Subset(blank_images([0, 1, 2]), indices)


def test_a_subset_follows_given_classes(blank_images):
    some = Subset(blank_images([0, 1, 2], ["ant", "bee", "cow"]), [2, 0])
    assert some.with_class_names(["cow", "ant"]).targets.tolist() == [[0], [1]]


def test_sets_are_joined_end_to_end(image_folder, blank_images):
    images = ImageFolder(image_folder)
    black = blank_images([2, 0], list(images.class_names))
    joined = Concat([images, black, images])
    assert len(joined) == 14
    assert joined.targets[:, 0].tolist() == [0, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 2]
    assert joined.load(6).size == (2, 2)
    assert joined.load(-1).tobytes() == joined.load(5).tobytes() == images.load(5).tobytes()
    assert joined.location(13) == images.location(5)
    assert joined.names[7] == "blank: blank/1"
    assert joined.digest() != Concat([images, images, black]).digest()


def test_sets_of_other_classes_or_another_kind_of_labels_are_not_joined(blank_images):
    one = blank_images([0, 1])
    with pytest.raises(DataError, match="not the same classes"):
        Concat([one, blank_images([0, 1], ["ant", "bee"])])
    with pytest.raises(DataError, match="several labels"):
        Concat([one, blank_images([[1, 0]])])

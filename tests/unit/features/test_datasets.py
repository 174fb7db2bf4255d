from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from assay.errors import AssayWarning, ConfigError, DataError
from assay.features.datasets import (
    BadImage,
    Digits,
    FileList,
    ImageFolder,
    NpyImages,
    VocImages,
    find_bad_images,
    open_images,
)


@pytest.fixture
def arrays(tmp_path):
    """A folder with images.npy and targets.npy."""
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.save(folder / "images.npy", np.zeros((4, 6, 5), np.uint8))
    np.save(folder / "targets.npy", [0, 1, 2, 0])
    return folder


def test_auto_tells_the_sources_apart(image_folder, voc_tree, arrays):
    (image_folder / "list.csv").write_text("cat/a.jpg,1")
    np.save(image_folder / "paths.npy", np.array(["cat/a.jpg"]))
    np.save(image_folder / "labels.npy", [0])
    for path, kind in {
        image_folder: ImageFolder,
        voc_tree: VocImages,
        voc_tree.parent: VocImages,
        arrays: NpyImages,
        arrays / "images.npy": NpyImages,
        image_folder / "list.csv": FileList,
        "digits": Digits,
    }.items():
        assert isinstance(open_images("auto", [str(path)], split="test"), kind)
    listed = open_images(
        "auto",
        [image_folder / "paths.npy"],
        label_paths=[image_folder / "labels.npy"],
        split="test",
    )
    assert isinstance(listed, FileList)


@pytest.mark.parametrize("paths", [[], ["digits"]])
def test_digits_need_no_path(paths):
    assert len(open_images("digits", paths, split="train")) == 1797


def test_a_folder_called_digits_comes_before_the_digits(image_folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    image_folder.rename(tmp_path / "digits")
    assert isinstance(open_images("auto", ["digits"], split="train"), ImageFolder)


def test_a_source_may_be_named(image_folder, arrays):
    images = open_images("disk_folder", [str(image_folder)], split="train")
    assert len(images) == 6
    with pytest.raises(DataError, match="not a VOC tree"):
        open_images("voc", [str(image_folder)], split="train")
    with pytest.raises(DataError, match="Is a directory"):
        open_images("disk_filelist", [str(image_folder)], split="train")


def test_one_path_without_a_list_is_one_path(image_folder):
    assert len(open_images("auto", str(image_folder), split="train")) == 6


def test_an_unknown_source_is_refused_with_its_nearest():
    with pytest.raises(DataError, match=r"'disk_foldr'.* Did you mean 'disk_folder'"):
        open_images("disk_foldr", ["x"], split="train")


def test_a_missing_path_is_refused_with_its_nearest(image_folder):
    with pytest.raises(DataError, match=r"photo: no such file or folder. Did you mean 'photos'"):
        open_images("auto", [str(image_folder)[:-1]], split="train")


@pytest.mark.parametrize("paths", [[], [""]])
def test_no_path_is_refused(paths):
    with pytest.raises(DataError, match=r"No path|An empty path"):
        open_images("auto", paths, split="train")


def test_a_file_of_an_unknown_kind_is_refused(tmp_path):
    (tmp_path / "data.h5").write_bytes(b"x")
    with pytest.raises(DataError, match=r"data\.h5: cannot tell what this is"):
        open_images("auto", [tmp_path / "data.h5"], split="train")


def test_labels_go_with_the_paths_one_by_one(arrays, image_folder):
    np.save(arrays / "other.npy", [3, 3, 3, 3])
    labels = [str(arrays / "other.npy")]
    images = open_images("npy", [str(arrays)], label_paths=labels, split="train")
    assert images.targets[:, 0].tolist() == [3, 3, 3, 3]
    with pytest.raises(DataError, match="2 paths to images, but 1 to labels"):
        open_images("npy", [str(arrays)] * 2, label_paths=labels, split="train")
    with pytest.raises(DataError, match="has its own labels"):
        open_images("auto", [str(image_folder)], label_paths=labels, split="train")
    with pytest.raises(DataError, match="takes no paths"):
        open_images("digits", [], label_paths=labels, split="train")


def test_a_test_folder_follows_the_classes_of_the_training_folder(image_folder, tmp_path):
    test_folder = tmp_path / "test"
    shutil.copytree(image_folder / "rocket", test_folder / "rocket")
    shutil.copytree(image_folder / "flower", test_folder / "flower")
    train = open_images("auto", [image_folder], split="train")
    test = open_images("auto", [test_folder], split="test", class_names=train.class_names)
    assert test.class_names == train.class_names
    assert test.targets[:, 0].tolist() == [1, 1, 2]
    (test_folder / "flower").rename(test_folder / "flowers")
    with pytest.raises(DataError, match=r"class 'flowers' .*Did you mean 'flower'"):
        open_images("auto", [test_folder], split="test", class_names=train.class_names)


def test_several_paths_are_one_set_with_the_classes_of_all(image_folder, tmp_path):
    more = tmp_path / "more"
    shutil.copytree(image_folder / "rocket", more / "rocket")
    shutil.copytree(image_folder / "cat", more / "ant")
    images = open_images("auto", [str(image_folder), str(more)], split="train")
    assert images.class_names == ("ant", "cat", "flower", "rocket")
    assert images.targets[:, 0].tolist() == [1, 1, 1, 2, 2, 3, 0, 0, 0, 3]
    assert images.names[0] == f"{image_folder}: cat/B.PNG"
    assert images.load(9).tobytes() == images.load(5).tobytes()


def test_several_paths_with_numbered_classes_keep_their_ids(tmp_path):
    for name, label in (("a", 10), ("b", 11), ("c", 2)):
        (tmp_path / f"{name}.txt").write_text(f"x.jpg {label}")
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    images = open_images("auto", paths, split="train")
    assert images.targets[:, 0].tolist() == [10, 11, 2]
    assert images.class_names == tuple(str(index) for index in range(12))


def test_a_limit_keeps_every_class_and_the_seed_chooses():
    some = open_images("digits", [], split="train", limit=100, seed=3)
    assert np.bincount(some.targets[:, 0]).tolist() == [10] * 10
    again = open_images("digits", [], split="train", limit=100, seed=3)
    other = open_images("digits", [], split="train", limit=100, seed=4)
    assert some.digest() == again.digest() != other.digest()
    with pytest.raises(ConfigError, match="limit"):
        open_images("digits", [], split="train", limit=0)


def test_a_voc_tree_without_test_images_in_both_splits_is_read_without_overlap(voc_tree):
    for path in (voc_tree / "ImageSets" / "Main").glob("*test.txt"):
        path.unlink()
    train = open_images("auto", [voc_tree], split="train", other_paths=[voc_tree.parent])
    test = open_images("auto", [voc_tree.parent], split="test", other_paths=[voc_tree])
    assert len(train) == 2
    assert len(test) == 1
    assert not set(train.names) & set(test.names)


def test_a_voc_tree_to_train_on_alone_is_read_whole(voc_tree, tmp_path):
    for path in (voc_tree / "ImageSets" / "Main").glob("*test.txt"):
        path.unlink()
    assert len(open_images("auto", [voc_tree], split="train")) == 3
    (tmp_path / "list.txt").write_text("")
    other = [tmp_path / "list.txt", tmp_path / "gone"]
    assert len(open_images("auto", [voc_tree], split="train", other_paths=other)) == 3
    assert len(open_images("auto", [voc_tree], split="test", other_paths=other)) == 1
    with pytest.warns(AssayWarning, match="the images of val take their place"):
        open_images("auto", [voc_tree], split="test")


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_every_bad_image_is_found_in_order(image_folder, num_workers):
    (image_folder / "cat" / "a.jpg").write_bytes(b"")
    path = image_folder / "flower" / "1.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    (image_folder / "rocket" / "gone.png").symlink_to("nowhere")
    done: list[int] = []
    bad = find_bad_images(ImageFolder(image_folder), num_workers, done.append)
    assert [image.name for image in bad] == ["cat/a.jpg", "flower/1.jpg", "rocket/gone.png"]
    assert all(isinstance(image, BadImage) and image.reason for image in bad)
    assert str(image_folder) not in bad[0].reason
    assert sum(done) == 7


@pytest.mark.parametrize("num_workers", [0, 2])
def test_good_images_are_not_found_bad(num_workers):
    done: list[int] = []
    assert find_bad_images(Digits(), num_workers, done.append) == []
    assert sum(done) == 1797


def test_a_negative_number_of_workers_is_refused(blank_images):
    with pytest.raises(ConfigError, match="num_workers"):
        find_bad_images(blank_images([0]), -1)


def test_image_sets_need_neither_torch_nor_scikit_learn_to_be_imported():
    code = (
        "import sys, assay.features.datasets;"
        "print([name for name in ('torch', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_path_that_is_a_link_to_itself_or_to_nothing_is_said_to_be_one(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(DataError, match="loop: a link that leads to itself"):
        open_images("auto", [tmp_path / "loop"], split="train")
    with pytest.raises(DataError, match="gone: a link to nowhere, which is not there"):
        open_images("auto", [tmp_path / "gone"], split="train")
    with pytest.raises(DataError, match="cannot be opened: File name too long"):
        open_images("auto", [tmp_path / ("a" * 300)], split="train")


def test_an_array_without_targets_is_told_of_flag_and_setting(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(DataError, match=r"--train-labels .*config\.DATA\.TRAIN\.LABEL_PATHS"):
        open_images("auto", [tmp_path / "images.npy"], split="train")

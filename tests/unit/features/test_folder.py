from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.errors import AssayWarning, DataError, ImageError
from assay.features.folder import ImageFolder


def test_a_sub_folder_is_a_class_and_all_is_in_order(image_folder):
    images = ImageFolder(image_folder)
    assert images.class_names == ("cat", "flower", "rocket")
    assert images.names == [
        "cat/B.PNG",
        "cat/a.jpg",
        "cat/more/c.webp",
        "flower/1.jpg",
        "flower/2.bmp",
        "rocket/saturn V.tif",
    ]
    assert images.targets.tolist() == [[0], [0], [0], [1], [1], [2]]
    assert not images.multi_label
    assert images.source == str(image_folder)


def test_images_are_those_of_the_files(image_folder, photos):
    images = ImageFolder(image_folder)
    np.testing.assert_array_equal(np.asarray(images.load(0)), np.asarray(photos["cat"]))
    np.testing.assert_array_equal(np.asarray(images.load(-1)), np.asarray(photos["rocket"]))


def test_hidden_names_and_other_files_are_left_out(image_folder):
    names = ImageFolder(image_folder).names
    (image_folder / ".cache").mkdir()
    (image_folder / ".cache" / "a.jpg").write_bytes(b"x")
    (image_folder / "README.md").write_text("photos")
    for name in ("._a.jpg", ".jpg", "Thumbs.db", "notes.txt", "a.jpg.part", "jpg"):
        (image_folder / "cat" / name).write_bytes(b"x")
    (image_folder / "cat" / ".trash").mkdir()
    (image_folder / "cat" / ".trash" / "a.jpg").write_bytes(b"x")
    assert ImageFolder(image_folder).names == names


@pytest.mark.parametrize("suffix", [".JPG", ".Jpeg", ".JPE", ".TIFF", ".PgM", ".GIF"])
def test_suffixes_are_known_in_any_case(tmp_path, suffix):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / f"x{suffix}").write_bytes(b"")
    assert ImageFolder(tmp_path).names == [f"class/x{suffix}"]


def test_links_to_images_and_folders_are_followed(image_folder, tmp_path):
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "felines").symlink_to(image_folder / "cat")
    (linked / "plants").mkdir()
    (linked / "plants" / "one.jpg").symlink_to(image_folder / "flower" / "1.jpg")
    images = ImageFolder(linked)
    assert images.class_names == ("felines", "plants")
    assert len(images) == 4
    assert images.load(3).tobytes() == ImageFolder(image_folder).load(3).tobytes()


def test_a_link_in_a_circle_ends(image_folder):
    (image_folder / "cat" / "again").symlink_to(image_folder / "cat")
    (image_folder / "flower" / "all").symlink_to(image_folder)
    images = ImageFolder(image_folder)
    assert images.names[:3] == ["cat/B.PNG", "cat/a.jpg", "cat/more/c.webp"]


def test_a_dangling_link_is_an_image_that_cannot_be_read(image_folder):
    (image_folder / "cat" / "0.jpg").symlink_to("nowhere.jpg")
    images = ImageFolder(image_folder)
    assert images.names[0] == "cat/0.jpg"
    with pytest.raises(ImageError, match=r"cat/0\.jpg: No such file"):
        images.load(0)


def test_a_class_without_images_is_warned_of_and_stays(image_folder):
    (image_folder / "dog").mkdir()
    (image_folder / "dog" / "later").mkdir()
    with pytest.warns(AssayWarning, match="no image of 'dog'"):
        images = ImageFolder(image_folder)
    assert images.class_names == ("cat", "dog", "flower", "rocket")
    assert images.targets[:, 0].tolist() == [0, 0, 0, 2, 2, 3]


def test_images_outside_of_the_classes_are_warned_of_and_left_out(image_folder, photos):
    names = ImageFolder(image_folder).names
    photos["coffee"].save(image_folder / "coffee.jpg")
    with pytest.warns(AssayWarning, match=r"1 images lie outside .*'coffee\.jpg'"):
        images = ImageFolder(image_folder)
    assert images.names == names


def test_one_class_alone_is_a_set_of_images(tmp_path, photos):
    (tmp_path / "only").mkdir()
    photos["cat"].save(tmp_path / "only" / "cat.png")
    assert ImageFolder(tmp_path).class_names == ("only",)


def test_folders_without_a_class_or_an_image_say_what_to_do(tmp_path, photos):
    with pytest.raises(DataError, match="the folder is empty"):
        ImageFolder(tmp_path)
    photos["cat"].save(tmp_path / "cat.png")
    with pytest.raises(
        DataError, match=r"1 images and no sub-folder. Put the images of each class"
    ):
        ImageFolder(tmp_path)
    (tmp_path / "cat.png").unlink()
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "cat.xcf").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no image in any of its 1 sub-folders.*\.jpg"):
        ImageFolder(tmp_path)


def test_a_file_or_nothing_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="Not a directory"):
        ImageFolder(tmp_path / "file")
    with pytest.raises(DataError, match="No such file"):
        ImageFolder(tmp_path / "gone")


@pytest.mark.parametrize("name", ["日本 語", 'it\'s "odd" #1', "a.b-c", "100%", "🚀"])
def test_odd_names_are_classes_and_images(tmp_path, photos, name):
    (tmp_path / name).mkdir()
    photos["cat"].save(tmp_path / name / f"{name}.png")
    images = ImageFolder(tmp_path)
    assert images.class_names == (name,)
    assert images.names == [f"{name}/{name}.png"]
    assert images.load(0).size == photos["cat"].size


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes")
def test_names_that_are_not_utf8_load_and_can_be_printed(tmp_path, photos):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    photos["cat"].save(folder / os.fsdecode(b"\xff.png"))
    images = ImageFolder(tmp_path)
    assert images.class_names == ("caf\ufffd",)
    assert images.names == ["caf\ufffd/\ufffd.png"]
    assert images.load(0).size == photos["cat"].size
    assert images.digest().startswith("sha256:")


def test_a_link_to_the_folder_itself_is_not_entered(image_folder: Path) -> None:
    whole = len(ImageFolder(image_folder))
    (image_folder / "cat" / "up").symlink_to(image_folder, target_is_directory=True)

    assert len(ImageFolder(image_folder)) == whole


def test_a_link_to_itself_is_an_image_that_cannot_be_read_or_no_class(image_folder):
    (image_folder / "cat" / "0.jpg").symlink_to("0.jpg")
    (image_folder / "dog").symlink_to("dog")
    (image_folder / "cat" / "more" / "deeper").symlink_to("deeper")
    images = ImageFolder(image_folder)
    assert images.class_names == ("cat", "flower", "rocket")
    assert images.names[0] == "cat/0.jpg"
    assert images.digest()
    with pytest.raises(ImageError, match=r"cat/0\.jpg: Too many levels of symbolic links"):
        images.load(0)


def test_what_is_no_regular_file_is_an_image_that_cannot_be_read(image_folder):
    os.mkfifo(image_folder / "cat" / "0.jpg")
    (image_folder / "cat" / "1.png").symlink_to("/dev/zero")
    (image_folder / "cat" / "2.png").symlink_to(image_folder / "flower")
    images = ImageFolder(image_folder)
    assert images.names[:2] == ["cat/0.jpg", "cat/1.png"]
    for index in (0, 1):
        with pytest.raises(ImageError, match=r"/cat/.*: Not a regular file"):
            images.load(index)

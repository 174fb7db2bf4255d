from __future__ import annotations

import os
import shutil

import pytest

from assay.errors import DataError, ImageError
from assay.features.voc import VocImages, read_annotation, read_class_list

CLASSES = ("cat", "person", "rocket")
TRAIN = [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
TEST = [[-1, 0, 0], [0, 0, 0], [1, -1, 0]]


def without(tree, *patterns):
    """Delete what matches from the lists."""
    for pattern in patterns:
        found = list((tree / "ImageSets" / "Main").glob(pattern))
        assert found
        for path in found:
            path.unlink()


def only_ids(tree):
    without(tree, *(f"{name}_*.txt" for name in CLASSES))


def test_present_is_1_absent_is_0_and_only_difficult_is_ignored(voc_tree):
    train, test = VocImages(voc_tree, "train"), VocImages(voc_tree, "test")
    assert train.class_names == test.class_names == CLASSES
    assert train.targets.tolist() == TRAIN
    assert test.targets.tolist() == TEST
    assert train.multi_label
    assert train.names == [f"JPEGImages/00000{index}.jpg" for index in (1, 2, 3)]
    assert train.source == f"{voc_tree} (trainval)"
    assert test.source == f"{voc_tree} (test)"


def test_annotations_stand_in_for_the_class_lists(voc_tree):
    only_ids(voc_tree)
    train, test = VocImages(voc_tree, "train"), VocImages(voc_tree, "test")
    assert train.class_names == CLASSES
    assert train.targets.tolist() == TRAIN
    assert test.class_names == ("cat", "person")  # no rocket among these
    assert test.with_class_names(CLASSES).targets.tolist() == TEST


def test_images_are_those_of_the_tree(voc_tree, photos):
    images = VocImages(voc_tree, "train")
    assert images.load(0).size == photos["cat"].size
    assert images.location(0) == str(voc_tree / "JPEGImages" / "000001.jpg")


def test_the_tree_is_found_below_the_given_folder(voc_tree):
    for root in (voc_tree, voc_tree.parent, voc_tree.parent.parent):
        assert VocImages(root, "test").targets.tolist() == TEST


def test_of_several_trees_one_must_be_named(voc_tree):
    shutil.copytree(voc_tree, voc_tree.parent / "VOC2012")
    with pytest.raises(DataError, match=r"several VOC trees \(VOC2007, VOC2012\)"):
        VocImages(voc_tree.parent, "train")
    assert len(VocImages(voc_tree.parent / "VOC2012", "train")) == 3


def test_what_is_not_a_tree_is_refused(tmp_path, image_folder):
    with pytest.raises(DataError, match="not a VOC tree"):
        VocImages(image_folder, "train")
    with pytest.raises(DataError, match="not a VOC tree"):
        VocImages(tmp_path / "gone", "train")


def test_train_and_val_stand_in_for_trainval_and_test(voc_tree):
    without(voc_tree, "*trainval.txt", "*test.txt")
    assert VocImages(voc_tree, "train").list_name == "train"
    assert VocImages(voc_tree, "train").targets.tolist() == TRAIN[:2]
    assert VocImages(voc_tree, "test").list_name == "val"
    assert VocImages(voc_tree, "test").targets.tolist() == TRAIN[2:]


def test_a_tree_without_test_images_that_serves_both_is_read_without_overlap(voc_tree):
    without(voc_tree, "*_test.txt", "test.txt")
    train = VocImages(voc_tree, "train", serves_both=True)
    test = VocImages(voc_tree, "test", serves_both=True)
    assert (train.list_name, test.list_name) == ("train", "val")
    assert not set(train.names) & set(test.names)
    assert VocImages(voc_tree, "train").list_name == "trainval"


def test_a_tree_with_test_images_may_serve_both(voc_tree):
    assert VocImages(voc_tree, "train", serves_both=True).list_name == "trainval"
    assert VocImages(voc_tree, "test", serves_both=True).list_name == "test"


def test_a_missing_list_is_told_with_those_that_are_there(voc_tree):
    without(voc_tree, "*_test.txt", "test.txt", "*_val.txt", "val.txt")
    with pytest.raises(DataError, match=r"Expected test or val in .* which has train, trainval"):
        VocImages(voc_tree, "test")
    with pytest.raises(DataError, match="no list of images to test on"):
        VocImages(voc_tree, "test", serves_both=True)


def test_a_tree_without_lists_is_all_its_annotations_and_never_both_parts(voc_tree):
    shutil.rmtree(voc_tree / "ImageSets")
    images = VocImages(voc_tree, "train")
    assert images.targets.tolist() == TRAIN + TEST
    assert images.source == str(voc_tree)
    with pytest.raises(DataError, match="split in two"):
        VocImages(voc_tree, "train", serves_both=True)


def test_lists_follow_the_id_not_the_line(voc_tree):
    path = voc_tree / "ImageSets" / "Main" / "rocket_trainval.txt"
    path.write_text("\n".join(reversed(path.read_text().splitlines())))  # and no final newline
    assert VocImages(voc_tree, "train").targets.tolist() == TRAIN


def test_class_names_may_hold_underscores(voc_tree):
    main = voc_tree / "ImageSets" / "Main"
    for path in list(main.glob("cat_*.txt")):
        path.rename(main / path.name.replace("cat_", "big_wild_cat_"))
    assert VocImages(voc_tree, "train").class_names == ("big_wild_cat", "person", "rocket")


def test_a_class_list_with_other_images_is_refused(voc_tree):
    path = voc_tree / "ImageSets" / "Main" / "rocket_trainval.txt"
    path.write_text("000001 1\n000002 -1\n")
    with pytest.raises(DataError, match=r"rocket_trainval\.txt .*'000003'"):
        VocImages(voc_tree, "train")


@pytest.mark.parametrize("line", ["000001", "000001 2", "000001 yes", "000001 1 1x"])
def test_a_line_of_another_form_is_refused(tmp_path, line):
    (tmp_path / "cat_train.txt").write_text(f"000000  1\n\n{line}\n")
    with pytest.raises(DataError, match=r"cat_train\.txt, entry 2: .*expected an image id"):
        read_class_list(tmp_path / "cat_train.txt")


def test_an_image_listed_twice_is_refused(tmp_path):
    (tmp_path / "cat_train.txt").write_text("000001 1\n000001 -1\n")
    with pytest.raises(DataError, match="listed twice"):
        read_class_list(tmp_path / "cat_train.txt")


def test_an_empty_list_is_refused(voc_tree):
    only_ids(voc_tree)
    (voc_tree / "ImageSets" / "Main" / "test.txt").write_text("\n")
    with pytest.raises(DataError, match="no image in the test"):
        VocImages(voc_tree, "test")


def test_images_without_any_object_have_no_class(voc_tree):
    only_ids(voc_tree)
    (voc_tree / "ImageSets" / "Main" / "test.txt").write_text("000005")
    with pytest.raises(DataError, match="no class in the test"):
        VocImages(voc_tree, "test")


def test_a_missing_image_is_named_when_it_is_read(voc_tree):
    (voc_tree / "JPEGImages" / "000002.jpg").unlink()
    images = VocImages(voc_tree, "train")
    assert len(images) == 3
    with pytest.raises(ImageError, match=r"JPEGImages/000002\.jpg: No such file"):
        images.load(1)


def test_images_may_have_another_suffix(voc_tree, photos):
    (voc_tree / "JPEGImages" / "000002.jpg").unlink()
    photos["person"].save(voc_tree / "JPEGImages" / "000002.PNG")
    images = VocImages(voc_tree, "train")
    assert images.names[1] == "JPEGImages/000002.PNG"
    assert images.load(1).tobytes() == photos["person"].tobytes()


def test_labels_of_a_class_that_has_no_list_are_not_made_up(voc_tree):
    test = VocImages(voc_tree, "test")
    assert test.with_class_names(["rocket", "person", "cat"]).targets.tolist() == [
        row[::-1] for row in TEST
    ]
    with pytest.raises(DataError, match="no labels for class 'dog'"):
        test.with_class_names([*CLASSES, "dog"])


def test_an_object_that_is_not_difficult_makes_a_class_present(tmp_path, annotation):
    path = tmp_path / "a.xml"
    for objects in (["cat", "cat?"], ["cat?", "cat"]):
        path.write_text(annotation("a", [*objects, "dog?"]))
        assert read_annotation(path) == {"cat": 1, "dog": -1}
    path.write_text("<annotation/>")
    assert read_annotation(path) == {}


def test_difficult_may_be_left_out_and_text_may_have_space(tmp_path):
    text = "<annotation>\n<object>\n<name>\n cat </name></object></annotation>"
    (tmp_path / "a.xml").write_text(text)
    assert read_annotation(tmp_path / "a.xml") == {"cat": 1}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_annotations_may_declare_their_encoding(tmp_path, encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>'
    text += "<annotation><object><name>é</name></object></annotation>"
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    assert read_annotation(tmp_path / "a.xml") == {"é": 1}


@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY leak SYSTEM "secret.txt">', '<!ENTITY leak "lol">', '<!ENTITY % p SYSTEM "x"> %p;'],
)
def test_entities_are_refused(tmp_path, declaration):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "a.xml").write_text(
        f"<!DOCTYPE annotation [{declaration}]>"
        "<annotation><object><name>&leak;</name></object></annotation>"
    )
    with pytest.raises(DataError, match=r"a\.xml: .*declares an entity"):
        read_annotation(tmp_path / "a.xml")


@pytest.mark.parametrize(
    "text",
    ["", "<annotation>", "no xml", "<a>&nbsp;</a>", '<?xml version="1.0" encoding="x"?><a/>'],
)
def test_a_broken_annotation_is_named(tmp_path, text):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(DataError, match=r"a\.xml: not a readable annotation"):
        read_annotation(tmp_path / "a.xml")


def test_a_missing_annotation_and_a_nameless_object_are_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.xml: cannot read the annotation: No such file"):
        read_annotation(tmp_path / "a.xml")
    (tmp_path / "a.xml").write_text("<annotation><object><name/></object></annotation>")
    with pytest.raises(DataError, match="an object without a name"):
        read_annotation(tmp_path / "a.xml")


def test_lists_and_annotations_that_are_no_regular_files_are_errors(tmp_path):
    for name in ("list.txt", "a.xml"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="Not a regular file"):
        read_class_list(tmp_path / "list.txt")
    with pytest.raises(DataError, match="Not a regular file"):
        read_annotation(tmp_path / "a.xml")

from __future__ import annotations

import csv
import io
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError
from assay.features.file_list import FileList, parse_file_list

# Any text that stands on one line and is no comment.
names = st.text(
    st.characters(exclude_characters='\0\n\r\t"', exclude_categories=["Cs"]), min_size=1
)
paths = names.filter(lambda name: name.strip() and not name.startswith("#"))
labels = st.text("abcXYZ019_-é", min_size=1, max_size=8)
endings = st.sampled_from(["\n", "\r\n"])


def pairs(text: str, suffix: str = ".txt") -> list[tuple[str, tuple[str, ...]]]:
    return [(entry.path, entry.labels) for entry in parse_file_list(text, suffix)]


@pytest.mark.parametrize(
    ("line", "path", "label"),
    [
        ("a.jpg 3", "a.jpg", "3"),
        ("a.jpg cat", "a.jpg", "cat"),
        ("a.jpg\tcat", "a.jpg", "cat"),
        ("my cat.jpg cat", "my cat.jpg", "cat"),
        ("  my cat.jpg   cat  ", "my cat.jpg", "cat"),
        ("a.jpg\ttabby cat", "a.jpg", "tabby cat"),
        (" a b \tcat", " a b ", "cat"),
        ('"my cat.jpg" tabby cat', "my cat.jpg", "tabby cat"),
        ('"a, b.jpg", cat', "a, b.jpg", "cat"),
        ('"say ""hi"".jpg"\tcat', 'say "hi".jpg', "cat"),
        ('"#1.jpg" 1', "#1.jpg", "1"),
        ("./#1.jpg 1", "./#1.jpg", "1"),
        ('"half quoted.jpg 1', '"half quoted.jpg', "1"),
        ("a.jpg,3", "a.jpg", "3"),
        ("日本.jpg 3", "日本.jpg", "3"),
    ],
)
def test_a_line_is_a_path_and_a_label(line, path, label):
    assert pairs(line) == [(path, (label,))]


@pytest.mark.parametrize(
    ("line", "path", "label"),
    [
        ("a.jpg,3", "a.jpg", "3"),
        ("my cat.jpg, tabby cat", "my cat.jpg", "tabby cat"),
        ('"a, b.jpg",3', "a, b.jpg", "3"),
        ('"say ""hi"".jpg",3', 'say "hi".jpg', "3"),
    ],
)
def test_a_row_of_csv_is_a_path_and_a_label(line, path, label):
    assert pairs(line, ".csv") == [(path, (label,))]


def test_blank_lines_and_comments_are_left_out_and_the_last_line_counts():
    text = "# path label\n\na.jpg 1\r\n   \n#b.jpg 2\nc.jpg 3"
    assert pairs(text) == [("a.jpg", ("1",)), ("c.jpg", ("3",))]
    assert pairs(text.replace(" ", ","), ".csv") == [("a.jpg", ("1",)), ("c.jpg", ("3",))]


def test_a_heading_is_left_out_and_chooses_the_columns_of_csv():
    assert pairs("Path\tLabel\na.jpg\t1") == [("a.jpg", ("1",))]
    assert pairs("id,Image,split,Class\n7,a.jpg,train,cat", ".csv") == [("a.jpg", ("cat",))]
    assert pairs("cat,dog\na.jpg,1", ".csv") == [("cat", ("dog",)), ("a.jpg", ("1",))]


@pytest.mark.parametrize("suffix", [".txt", ".csv"])
def test_several_labels_are_separated_by_commas(suffix):
    quote = '"' if suffix == ".csv" else ""
    separator = "," if suffix == ".csv" else "\t"
    lines = [f"a.jpg{separator}{quote}cat,dog{quote}", f"b.jpg{separator}cat", f"c.jpg{separator}"]
    assert pairs("\n".join(lines), suffix) == [
        ("a.jpg", ("cat", "dog")),
        ("b.jpg", ("cat",)),
        ("c.jpg", ()),
    ]


def test_further_columns_of_csv_are_further_labels():
    assert pairs("a.jpg,cat,dog\nb.jpg,cat", ".csv") == [
        ("a.jpg", ("cat", "dog")),
        ("b.jpg", ("cat",)),
    ]


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("a.jpg 1\n\nb.jpg", ".txt"), ("a.jpg\t1\n\nb.jpg\t", ".tsv"), ("a.jpg,1\n\nb.jpg", ".csv")],
)
def test_an_entry_without_a_label_is_named_by_its_line(text, suffix):
    with pytest.raises(DataError, match=r"here, line 3: .*'b\.jpg'"):
        parse_file_list(text, suffix, "here")


def test_an_entry_without_a_path_is_named_by_its_line():
    with pytest.raises(DataError, match="line 1"):
        parse_file_list("\t3")


def test_broken_csv_is_named():
    with pytest.raises(DataError, match="line 1"):
        parse_file_list("a" * 200_000 + ",1", ".csv")


@given(st.lists(st.tuples(paths, labels)), endings, st.booleans())
def test_a_list_with_tabs_gives_back_what_was_written(entries, ending, final):
    text = ending.join(f"{path}\t{label}" for path, label in entries) + (ending if final else "")
    assert pairs(text) == [(path, (label,)) for path, label in entries]


@given(st.lists(st.tuples(paths.map(str.strip), labels)), endings)
def test_a_list_with_spaces_gives_back_what_was_written(entries, ending):
    entries = [entry for entry in entries if not entry[0].startswith("#")]
    text = ending.join(f"{path} {label}" for path, label in entries)
    assert pairs(text) == [(path, (label,)) for path, label in entries]


@given(st.lists(st.tuples(paths.filter(lambda path: not path[0].isspace()), labels)))
def test_csv_gives_back_what_was_written(entries):
    stream = io.StringIO()
    csv.writer(stream).writerows(entries)
    assert pairs(stream.getvalue(), ".csv") == [(path, (label,)) for path, label in entries]


@given(st.text(max_size=60), st.sampled_from([".txt", ".csv", ".tsv"]))
def test_any_text_is_read_or_refused_with_its_line(text, suffix):
    refusal = "list, line "
    entries = []
    try:
        entries = parse_file_list(text, suffix, "list")
    except DataError as error:
        refusal = str(error)
    assert refusal.startswith("list, line ")
    assert all(entry.path for entry in entries)


def test_paths_are_relative_to_the_list(image_folder, tmp_path, monkeypatch, photos):
    monkeypatch.chdir(tmp_path.parent)
    absolute = image_folder / "rocket" / "saturn V.tif"
    listed = image_folder / "lists" / "train.txt"
    listed.parent.mkdir()
    listed.write_text(f"../cat/B.PNG cat\n{absolute} rocket\n../flower/1.jpg flower")
    images = FileList(listed)
    assert images.class_names == ("cat", "flower", "rocket")
    assert images.targets.tolist() == [[0], [2], [1]]
    assert images.names == ["../cat/B.PNG", str(absolute), "../flower/1.jpg"]
    for index, name in enumerate(("cat", "rocket")):
        np.testing.assert_array_equal(np.asarray(images.load(index)), np.asarray(photos[name]))


def test_numbers_are_class_ids_and_gaps_are_classes_without_an_image(tmp_path):
    (tmp_path / "list.txt").write_text("a 3\nb 0\nc 03\nd 10")
    images = FileList(tmp_path / "list.txt")
    assert images.targets[:, 0].tolist() == [3, 0, 3, 10]
    assert images.class_names == tuple(str(index) for index in range(11))


@pytest.mark.parametrize("label", ["n02085620", "2085620", "-1", "1.5", "9" * 5000, "٣"])
def test_labels_that_cannot_count_classes_are_names(tmp_path, label):
    (tmp_path / "list.txt").write_text(f"a {label}\nb 1", encoding="utf-8")
    images = FileList(tmp_path / "list.txt")
    assert images.class_names == tuple(sorted(["1", label]))


def test_a_multi_label_list_marks_what_is_there(tmp_path):
    (tmp_path / "list.tsv").write_text("a\tdog,cat\nb\tcat\nc\t\nd\tbee")
    images = FileList(tmp_path / "list.tsv")
    assert images.multi_label
    assert images.class_names == ("bee", "cat", "dog")
    assert images.targets.tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]]


def test_a_single_label_with_a_comma_behind_it_makes_a_list_multi_label(tmp_path):
    (tmp_path / "list.txt").write_text("a 1,\nb 0")
    assert FileList(tmp_path / "list.txt").targets.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_list_from_windows_is_read(tmp_path, encoding):
    (tmp_path / "list.txt").write_bytes("é.jpg cat\r\nb.jpg dog\r\n".encode(encoding))
    assert FileList(tmp_path / "list.txt").names == ["é.jpg", "b.jpg"]


def test_names_in_another_encoding_find_their_file(tmp_path, photos):
    data = b"caf\xe9.png"
    photos["cat"].save(tmp_path / os.fsdecode(data))
    (tmp_path / "list.txt").write_bytes(data + b" cat")
    images = FileList(tmp_path / "list.txt")
    assert images.names == ["caf\ufffd.png"]
    assert images.load(0).size == photos["cat"].size


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "a\t,\nb\t,"])
def test_a_list_of_nothing_is_refused(tmp_path, text):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(DataError, match="no image"):
        FileList(tmp_path / "list.txt")


def test_a_missing_list_is_named(tmp_path):
    with pytest.raises(DataError, match=r"gone\.txt: cannot read: No such file"):
        FileList(tmp_path / "gone.txt")


@pytest.mark.parametrize("form", ["txt", "npy"])
def test_paths_alone_take_their_labels_from_an_array(image_folder, form):
    names = ["cat/B.PNG", "rocket/saturn V.tif"]
    if form == "npy":
        np.save(image_folder / "list.npy", np.array(names))
    else:
        (image_folder / "list.txt").write_text("# paths\ncat/B.PNG\n\nrocket/saturn V.tif")
    labels = image_folder / "labels.npy"
    np.save(labels, [[1, -1, 0], [0, 0, 1]])
    images = FileList(image_folder / f"list.{form}", labels)
    assert images.names == names
    assert images.multi_label
    assert images.targets.tolist() == [[1, -1, 0], [0, 0, 1]]
    assert images.load(1).mode == "RGB"
    np.save(labels, [0, 1, 1])
    with pytest.raises(DataError, match="2 paths, but 3"):
        FileList(image_folder / f"list.{form}", labels)


def test_an_array_of_paths_must_hold_text(tmp_path):
    np.save(tmp_path / "list.npy", np.zeros(3))
    np.save(tmp_path / "labels.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"expected .* paths as text"):
        FileList(tmp_path / "list.npy", tmp_path / "labels.npy")


def test_a_list_that_is_no_regular_file_is_an_error_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "list.txt")
    os.mkfifo(tmp_path / "labels.npy")
    (tmp_path / "paths.txt").write_text("a.jpg")
    with pytest.raises(DataError, match=r"list\.txt: cannot read: Not a regular file"):
        FileList(tmp_path / "list.txt")
    with pytest.raises(DataError, match=r"labels\.npy: cannot read: Not a regular file"):
        FileList(tmp_path / "paths.txt", tmp_path / "labels.npy")


def test_a_list_of_paths_alone_is_told_of_the_flag_for_labels(tmp_path):
    (tmp_path / "list.txt").write_text("a.jpg\n")
    with pytest.raises(DataError, match="--train-labels or --test-labels"):
        FileList(tmp_path / "list.txt")

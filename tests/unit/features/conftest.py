"""Real photographs, and the folders and sets that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_images

from assay.features.image_set import ImageSet

VOC_ROWS = {  # image id -> classes; a trailing ? marks a difficult object
    "000001": ["cat"],
    "000002": ["person", "rocket"],
    "000003": ["rocket", "rocket?"],
    "000004": ["cat?"],
    "000005": [],
    "000006": ["person?", "cat"],
}
VOC_LISTS = {
    "train": ["000001", "000002"],
    "val": ["000003"],
    "trainval": ["000001", "000002", "000003"],
    "test": ["000004", "000005", "000006"],
}


class BlankImages(ImageSet):
    """Labels without photographs: every image is black."""

    def __init__(self, targets: np.ndarray, class_names: list[str] | None = None) -> None:
        rows = np.asarray(targets, np.int64)
        multi_label = rows.ndim == 2
        if class_names is None:
            count = rows.shape[1] if multi_label else int(rows.max(initial=-1)) + 1
            class_names = [str(index) for index in range(count)]
        super().__init__(
            source="blank",
            class_names=class_names,
            targets=rows if multi_label else rows[:, None],
            names=[f"blank/{index}" for index in range(len(rows))],
            multi_label=multi_label,
        )

    def load(self, index: int) -> Image.Image:
        range(len(self))[index]
        return Image.new("RGB", (2, 2))

    def _content(self) -> Iterator[bytes]:
        yield b""


@pytest.fixture(scope="session")
def blank_images() -> type[BlankImages]:
    return BlankImages


@pytest.fixture(scope="session")
def photos() -> dict[str, Image.Image]:
    """Photographs in RGB, the longer side 96 pixels."""
    china, flower = load_sample_images().images
    arrays = {
        "cat": skimage.data.chelsea(),
        "person": skimage.data.astronaut(),
        "coffee": skimage.data.coffee(),
        "rocket": skimage.data.rocket(),
        "china": china,
        "flower": flower,
    }
    small = {name: Image.fromarray(pixels) for name, pixels in arrays.items()}
    for photo in small.values():
        photo.thumbnail((96, 96))
    return small


@pytest.fixture
def image_folder(tmp_path: Path, photos: dict[str, Image.Image]) -> Path:
    """Three classes of 3, 2 and 1 images: cat (one of them nested), flower, rocket."""
    root = tmp_path / "photos"
    for name in ("cat/a.jpg", "cat/B.PNG", "cat/more/c.webp", "flower/1.jpg", "flower/2.bmp"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        photos[name.split("/")[0]].save(path)
    (root / "rocket").mkdir()
    photos["rocket"].save(root / "rocket" / "saturn V.tif")
    return root


@pytest.fixture
def voc_tree(tmp_path: Path, photos: dict[str, Image.Image]) -> Path:
    """VOCdevkit/VOC2007 with class lists, annotations and images, as VOC_ROWS says."""
    tree = tmp_path / "VOCdevkit" / "VOC2007"
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (tree / folder).mkdir(parents=True)
    pictures = list(photos.values())
    for number, (image_id, objects) in enumerate(VOC_ROWS.items()):
        pictures[number].save(tree / "JPEGImages" / f"{image_id}.jpg")
        (tree / "Annotations" / f"{image_id}.xml").write_text(_annotation(image_id, objects))
    main = tree / "ImageSets" / "Main"
    for name, ids in VOC_LISTS.items():
        (main / f"{name}.txt").write_text("".join(f"{image_id}\n" for image_id in ids))
        for class_name in ("rocket", "cat", "person"):
            lines = [f"{i} {_flag(VOC_ROWS[i], class_name):>2}\n" for i in ids]
            (main / f"{class_name}_{name}.txt").write_text("".join(lines))
    return tree


@pytest.fixture(scope="session")
def annotation() -> Callable[[str, list[str]], str]:
    """The text of a VOC annotation: image id, objects (a trailing ? marks a difficult one)."""
    return _annotation


def _flag(objects: list[str], class_name: str) -> int:
    if class_name in objects:
        return 1
    return 0 if f"{class_name}?" in objects else -1


def _annotation(image_id: str, objects: list[str]) -> str:
    boxes = "".join(
        f"<object><name>{name.rstrip('?')}</name><difficult>{int(name.endswith('?'))}</difficult>"
        "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
        "<part><name>head</name></part></object>"
        for name in objects
    )
    return f"<annotation><filename>{image_id}.jpg</filename>{boxes}</annotation>\n"

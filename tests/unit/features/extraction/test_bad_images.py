"""Images that cannot be read are named, all of them, or left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import (
    DataError,
    ImageError,
    ModelError,
)
from assay.features.extract import ExtractOptions, LayerSpec
from assay.features.transforms import ImageTransform

LAYERS = [LayerSpec("conv"), LayerSpec("head")]
QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


def test_all_bad_images_of_the_share_are_named_in_one_error(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    images = Pictures(bad=(1, 2, 9))

    with pytest.raises(ImageError, match=r"3 images of pictures") as raised:
        extract(tmp_path, images=images)

    for name in ("picture/1: torn", "picture/2: torn", "picture/9: torn"):
        assert name in str(raised.value)
    assert not list(tmp_path.glob("*.npy"))


def test_bad_images_are_named_from_worker_processes_too(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    with pytest.raises(ImageError, match=r"picture/1: torn\n.*picture/9: torn"):
        extract(tmp_path, images=Pictures(bad=(1, 9)), options=replace(QUICK, num_workers=2))


@pytest.mark.parametrize("bad", [(0,), (10,), (4, 5, 6, 7), (1, 3, 5)])
@pytest.mark.parametrize("world_size", [1, 2])
def test_skipped_images_have_no_row_and_change_no_other(
    tmp_path: Path, bad: tuple[int, ...], world_size: int, Pictures: Any, extract: Any, merged: Any
) -> None:
    extract(tmp_path / "all", images=Pictures())

    results = extract(
        tmp_path / "some",
        images=Pictures(bad=bad),
        world_size=world_size,
        options=replace(QUICK, bad_images="skip"),
    )

    whole, part = merged(tmp_path / "all"), merged(tmp_path / "some")
    assert part.inds.tolist() == [index for index in range(11) if index not in bad]
    assert np.array_equal(part.features, whole.features[part.inds])
    skipped = {(image.name, image.reason) for result in results for image in result.skipped}
    assert skipped == {(f"picture/{index}", "torn") for index in bad}


def test_skipped_images_are_told_again_when_their_shards_are_reused(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    images, options = Pictures(bad=(1,)), replace(QUICK, bad_images="skip")
    extract(tmp_path, images=images, options=options)

    (again,) = extract(tmp_path, images=images, options=options)

    assert again.reused
    assert [image.name for image in again.skipped] == ["picture/1"]


def test_shards_made_by_skipping_do_not_pass_where_bad_images_are_fatal(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    images = Pictures(bad=(1,))
    extract(tmp_path, images=images, options=replace(QUICK, bad_images="skip"))

    with pytest.raises(ImageError, match="picture/1: torn"):
        extract(tmp_path, images=images)


def test_it_is_an_error_if_every_image_is_bad(tmp_path: Path, Pictures: Any, extract: Any) -> None:
    with pytest.raises(DataError, match="none of the 3 images can be read"):
        extract(
            tmp_path,
            images=Pictures(3, bad=(0, 1, 2)),
            options=replace(QUICK, bad_images="skip"),
        )


def test_a_rank_whose_share_is_bad_leaves_the_others_theirs(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any
) -> None:
    options = replace(QUICK, bad_images="skip")

    extract(tmp_path, images=Pictures(4, bad=(1, 3)), world_size=2, options=options)

    assert merged(tmp_path).inds.tolist() == [0, 2]


def test_images_of_different_sizes_in_one_batch_are_an_error_with_the_way_out(
    tmp_path: Path, UnequalPictures: Any, tiny_model: Any, extract: Any
) -> None:
    model = replace(tiny_model(), transform=ImageTransform())

    with pytest.raises(DataError, match=r"different sizes.*set a crop"):
        extract(tmp_path, model, UnequalPictures(), options=replace(QUICK, num_workers=1))


def test_images_of_different_sizes_do_one_at_a_time_if_pooling_makes_them_equal(
    tmp_path: Path, UnequalPictures: Any, tiny_model: Any, extract: Any, merged: Any
) -> None:
    model = replace(tiny_model(), transform=ImageTransform())
    one_by_one = replace(QUICK, batch_size=1)

    extract(tmp_path / "pooled", model, UnequalPictures(), options=one_by_one)

    assert merged(tmp_path / "pooled", "conv").features.shape == (11, 5)
    with pytest.raises(ModelError, match=r"'conv' gives .* features an image after"):
        extract(
            tmp_path / "flat",
            model,
            UnequalPictures(),
            [LayerSpec("conv", "flatten")],
            options=one_by_one,
        )

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import DataError
from assay.recipes.stored_scores import SCORES_NAME, StoredScores, load_scores, save_scores


def stored(num_images: int = 6, num_classes: int = 2) -> StoredScores:
    random = np.random.default_rng(0)
    return StoredScores(
        scores=random.normal(size=(num_images, num_classes)),
        targets=random.integers(-1, 2, size=(num_images, num_classes)),
        inds=np.arange(num_images) * 2,
        class_ids=np.array([3, 8])[:num_classes],
    )


def test_scores_come_back_as_they_were_saved(tmp_path: Path) -> None:
    saved = stored()

    save_scores(tmp_path / "new", saved)

    loaded = load_scores(tmp_path / "new")
    np.testing.assert_array_equal(loaded.scores, saved.scores)
    np.testing.assert_array_equal(loaded.targets, saved.targets)
    np.testing.assert_array_equal(loaded.inds, saved.inds)
    np.testing.assert_array_equal(loaded.class_ids, saved.class_ids)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [SCORES_NAME]


def test_scores_that_are_missing_are_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run the command of that run again"):
        load_scores(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half of one"])
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SCORES_NAME).write_bytes(content)

    with pytest.raises(DataError, match="cannot be read"):
        load_scores(tmp_path)


def test_arrays_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    whole = stored()
    save_scores(
        tmp_path, StoredScores(whole.scores, whole.targets, whole.inds[:-1], whole.class_ids)
    )

    with pytest.raises(DataError, match="do not fit together"):
        load_scores(tmp_path)


def test_what_would_have_to_be_executed_is_not_loaded(tmp_path: Path) -> None:
    with (tmp_path / SCORES_NAME).open("wb") as file:
        np.savez(file, scores=np.array([{"a": 1}], dtype=object))

    with pytest.raises(DataError, match="cannot be read"):
        load_scores(tmp_path)

from __future__ import annotations

import numpy as np

from assay.evaluate.ranked_examples import rank_examples

SCORES = np.array([0.1, 0.9, 0.5, 0.7, 0.3], dtype=np.float32)
TARGETS = np.array([1, 0, 1, -1, 0], dtype=np.int8)


def test_rows_are_ranked_by_score_and_ignored_rows_have_no_rank() -> None:
    first = rank_examples(SCORES, TARGETS, 10).first

    assert [example.row for example in first] == [1, 2, 4, 0]
    assert [example.rank for example in first] == [1, 2, 3, 4]
    assert [example.positive for example in first] == [False, True, False, True]


def test_the_worst_ranked_positives_and_the_best_ranked_negatives_are_told() -> None:
    ranked = rank_examples(SCORES, TARGETS, 1)

    assert [example.row for example in ranked.last_positives] == [0]
    assert [example.row for example in ranked.first_negatives] == [1]


def test_equal_scores_rank_in_the_order_of_their_rows() -> None:
    ranked = rank_examples(np.zeros(4), np.array([1, 0, 1, 0]), 4)

    assert [example.row for example in ranked.first] == [0, 1, 2, 3]


def test_a_class_without_positives_has_none_to_show() -> None:
    assert rank_examples(np.ones(2), np.zeros(2, dtype=int), 3).last_positives == ()


def test_a_count_of_nothing_gives_nothing() -> None:
    ranked = rank_examples(SCORES, TARGETS, 0)

    assert ranked.first == ranked.last_positives == ranked.first_negatives == ()

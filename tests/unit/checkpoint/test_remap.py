"""The change of prefix between a file's names and a model's is inferred."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from assay.checkpoint.remap import PrefixChange, infer_prefix_change

SHAPES = {
    "stem.weight": (3, 3, 3, 3), "stem.bias": (3,), "bn.weight": (3,), "bn.num_batches_tracked": (),
    "layer1.0.weight": (3, 3, 3, 3), "layer1.0.bias": (3,), "layer1.1.weight": (3,),
    "fc.weight": (4, 3), "fc.bias": (4,), "cls_token": (1, 1, 3),
}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["module", "layer1", "fc", "0", "1", "x y"]), max_size=3),
    st.lists(st.sampled_from(["module", "trunk", "bn", "1"]), max_size=2),
)
def test_any_prefix_on_either_side_is_undone(removed: list[str], added: list[str]) -> None:
    theirs = {".".join([*removed, name]): shape for name, shape in SHAPES.items()}
    ours = {".".join([*added, name]): shape for name, shape in SHAPES.items()}
    change = infer_prefix_change(theirs, ours)
    assert {change.apply(name): shape for name, shape in theirs.items()} == ours


def test_nothing_in_common_means_no_change() -> None:
    assert infer_prefix_change({}, {}) == PrefixChange()
    assert infer_prefix_change({"a.b": (1,)}, {"c.d": (2,)}) == PrefixChange()

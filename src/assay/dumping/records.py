"""What a comparison sees of a dump, whether it is on disk or in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

__all__ = ["Kind", "Record", "RecordSet"]

# tensor      numbers of any dtype: a tensor, an array, a numpy scalar
# image       the 8-bit pixels of a PNG, which hold less than the tensor did
# json        text, a number, a bool, None, bytes, or a list or dict of these
# pickle      an object; it is compared by its bytes, and read by who trusts it
# statistics  min, max, mean, norm, count of the non-finite and digest, in place of the values
# note        a gradient that does not exist: a text that says why, or None off the graph
Kind = Literal["tensor", "image", "json", "pickle", "statistics", "note"]


class Record(Protocol):
    """One entry of a dump. Values are read on request, a part at a time."""

    @property
    def path(self) -> str:
        """The dotted path, its names escaped so that no two entries share one."""

    @property
    def kind(self) -> Kind: ...

    @property
    def dtype(self) -> torch.dtype | None:
        """Of a tensor, as it was when added; None where that is unknown (a list of numbers)."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of a tensor or image, after permutation; else None."""

    @property
    def order(self) -> int:
        """The how-manieth entry that was added, from 0."""

    @property
    def digest(self) -> str | None:
        """Of dtype, shape and value: equal digests are equal values. None where none was taken."""

    def flat(self, start: int, stop: int) -> torch.Tensor:
        """(stop - start,) elements in C order, on the host: of ``dtype``, or float64 or int64
        where that is unknown, or uint8 for an image.
        """

    def value(self) -> object:
        """What is no tensor or image: the JSON value, the statistics as a dict, the pickle's bytes,
        the note.
        """


class RecordSet(Protocol):
    """One step of one rank."""

    @property
    def where(self) -> str:
        """What a message calls it: the folder, or ``this run``."""

    @property
    def tensors(self) -> Mapping[str, Record]:
        """What ``add_tensor_data`` added, by path, in the order of adding."""

    @property
    def gradients(self) -> Mapping[str, Record]:
        """What ``add_grad_data`` added, by path, in the order of adding."""

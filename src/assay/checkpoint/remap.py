"""Key prefixes: which change of prefix makes a file's names the model's names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SECOND_CHOICES", "PrefixChange", "infer_prefix_change", "is_second_choice"]

Shapes = Mapping[str, tuple[int, ...]]  # parameter or buffer name -> shape

# Of two networks in one file that fit equally well, the one under such a name is left. DINO's
# evaluations use the teacher, MoCo's the query encoder, and averages are asked for by name.
SECOND_CHOICES = ("student", "encoder_k", "momentum", "target", "ema")

# Names of one shape are compared pair by pair; so many of theirs are enough to find a prefix.
_VOTERS = 16
_CANDIDATES = 24


@dataclass(frozen=True)
class PrefixChange:
    """Cut ``removed`` off the front of a name and put ``added`` there; both end in a dot."""

    removed: str = ""
    added: str = ""

    def apply(self, name: str) -> str | None:
        """The new name, or None where ``name`` does not start with ``removed``.

        >>> PrefixChange("module.", "trunk.").apply("module.fc.bias")
        'trunk.fc.bias'
        """
        return self.added + name[len(self.removed) :] if name.startswith(self.removed) else None


def infer_prefix_change(theirs: Shapes, ours: Shapes) -> PrefixChange:
    """The change of prefix that gives most of ``theirs`` a name and shape of ``ours``.

    Among equals, names that need no change win, then networks that are nobody's copy
    (``SECOND_CHOICES``), then the shortest change. Nothing in common: no change.

    >>> infer_prefix_change({"module.fc.bias": (2,)}, {"fc.bias": (2,)})
    PrefixChange(removed='module.', added='')
    """

    def merit(change: PrefixChange) -> tuple[int, int, bool, bool, int, str, str]:
        renamed = [(change.apply(name), shape) for name, shape in theirs.items()]
        return (
            -sum(name is not None and ours.get(name) == shape for name, shape in renamed),
            -sum(name in ours for name, _ in renamed),
            change != PrefixChange(),
            is_second_choice(change.removed),
            len(change.removed) + len(change.added),
            change.removed,
            change.added,
        )

    return min([PrefixChange(), *_candidates(theirs, ours)], key=merit)


def is_second_choice(path: str) -> bool:
    """Whether a dotted path leads to a copy of the network: a student, an average, a key encoder.

    >>> is_second_choice("module.encoder_k."), is_second_choice("model_ema"), is_second_choice("m")
    (True, True, False)
    """
    return any(
        f"_{choice}_" in f"_{part}_"
        for part in path.lower().split(".")
        for choice in SECOND_CHOICES
    )


def _candidates(theirs: Shapes, ours: Shapes) -> list[PrefixChange]:
    """Changes that turn one name into another of the same shape, the most frequent first.

    What two names share at their end stays; what stands before it is the change. Where names are
    really aligned, every pair proposes the same change, so it gathers the most votes.
    """
    votes: Counter[PrefixChange] = Counter()
    our_groups = _groups(ours)
    for group, names in _groups(theirs).items():
        step = -(-len(names) // _VOTERS)  # spread over the group: it may hold two networks
        for name in names[::step]:
            votes.update(_change_between(name, other) for other in our_groups.get(group, ()))
    return [change for change, _ in votes.most_common(_CANDIDATES)]


def _groups(shapes: Shapes) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """Names by their last part and their shape: only these can be one another's."""
    groups: defaultdict[tuple[str, tuple[int, ...]], list[str]] = defaultdict(list)
    for name, shape in shapes.items():
        groups[name.rpartition(".")[2], shape].append(name)
    return groups


def _change_between(theirs: str, ours: str) -> PrefixChange:
    a, b = theirs.split("."), ours.split(".")
    while a and b and a[-1] == b[-1]:
        del a[-1], b[-1]
    return PrefixChange(_join(a), _join(b))


def _join(parts: list[str]) -> str:
    return "".join(f"{part}." for part in parts)

"""New names for the keys of a state dict. Two keys never become one in silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from assay.errors import ConfigError, ModelError

__all__ = [
    "WRAPPERS",
    "RenameRule",
    "append_module_prefix",
    "rename_by_rules",
    "renamed",
    "replace_module_prefix",
    "strip_wrappers",
]

Value = TypeVar("Value")

# What wrappers put into names: data parallelism, torch.compile, FSDP, activation checkpoints.
# The last three stand before every wrapped part, however deep; "module." only at the front, since
# a model may have a part of that name.
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass(frozen=True)
class RenameRule:
    """A regular expression, and what each place where it matches becomes (``\\1`` is a group)."""

    pattern: str
    replacement: str

    @classmethod
    def parse(cls, text: str) -> RenameRule:
        r"""A rule written PATTERN=REPLACEMENT; in the pattern an equals sign is ``\=``.

        >>> RenameRule.parse(r"^blocks\.(\d+)=layer\1")
        RenameRule(pattern='^blocks\\.(\\d+)', replacement='layer\\1')
        """
        parts = re.split(r"(?<!\\)=", text, maxsplit=1)
        if len(parts) != 2:
            raise ConfigError(f"{text!r} is no rule: write PATTERN=REPLACEMENT.")
        rule = cls(*parts)
        rule.compiled()
        return rule

    def compiled(self) -> re.Pattern[str]:
        """The pattern.

        Raises:
            ConfigError: it is malformed, or the replacement names a group that it lacks.
        """
        try:
            pattern = re.compile(self.pattern)
            pattern.sub(self.replacement, "")  # reads the replacement before it looks for a match
        except (re.error, IndexError) as error:
            raise ConfigError(
                f"The rule {self.pattern!r} = {self.replacement!r} is malformed: {error}."
            ) from error
        return pattern


def replace_module_prefix(
    state_dict: Mapping[str, Value], prefix: str, replace_with: str = ""
) -> dict[str, Value]:
    """A new dict in which keys that start with ``prefix`` start with ``replace_with`` instead.

    Raises:
        ModelError: two keys would become one.

    >>> replace_module_prefix({"module.fc.bias": 1, "epoch": 2}, "module.")
    {'fc.bias': 1, 'epoch': 2}
    """
    return renamed(
        state_dict,
        lambda key: replace_with + key[len(prefix) :] if key.startswith(prefix) else key,
        by=f"replacing the prefix {prefix!r} with {replace_with!r}",
    )


def append_module_prefix(state_dict: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """A new dict in which every key has ``prefix`` in front.

    >>> append_module_prefix({"conv1.weight": 1}, "trunk._feature_blocks.")
    {'trunk._feature_blocks.conv1.weight': 1}
    """
    return renamed(state_dict, lambda key: prefix + key, by=f"putting {prefix!r} in front")


def strip_wrappers(
    state_dict: Mapping[str, Value], wrappers: Sequence[str] = WRAPPERS
) -> dict[str, Value]:
    """A new dict without the parts of names that wrappers of a model add.

    ``module.`` goes from the front, as often as it stands there; what begins with an underscore
    goes from any depth.

    Raises:
        ModelError: two keys would become one.

    >>> strip_wrappers({"module._orig_mod.layer1._fsdp_wrapped_module.module.weight": 1})
    {'layer1.module.weight': 1}
    """
    anywhere = [wrapper for wrapper in wrappers if wrapper.startswith("_")]
    in_front = tuple(wrapper for wrapper in wrappers if not wrapper.startswith("_"))

    def stripped(key: str) -> str:
        for wrapper in anywhere:
            key = re.sub(rf"(?:(?<=^)|(?<=\.)){re.escape(wrapper)}", "", key)
        while start := next((wrapper for wrapper in in_front if key.startswith(wrapper)), ""):
            key = key[len(start) :]
        return key

    return renamed(state_dict, stripped, by=f"stripping {', '.join(wrappers)}")


def rename_by_rules(
    state_dict: Mapping[str, Value], rules: Sequence[RenameRule]
) -> dict[str, Value]:
    """A new dict whose keys went through every rule, in order.

    Raises:
        ConfigError: a rule is malformed, or matches no key.
        ModelError: two keys would become one.

    >>> rename_by_rules({"enc.0.w": 1, "fc.b": 2}, [RenameRule(r"^enc\\.(\\d)", r"layer\\1")])
    {'layer0.w': 1, 'fc.b': 2}
    """
    for rule in rules:
        pattern = rule.compiled()
        if not any(pattern.search(str(key)) for key in state_dict):
            raise ConfigError(
                f"The rule {rule.pattern!r} matches none of the {len(state_dict)} names, such as "
                f"{list(state_dict)[:3]}."
            )
        state_dict = renamed(
            state_dict,
            lambda key, pattern=pattern, rule=rule: pattern.sub(rule.replacement, key),  # type: ignore[misc]
            by=f"the rule {rule.pattern!r}",
        )
    return dict(state_dict)


def renamed(
    state_dict: Mapping[str, Value], new_name: Callable[[str], str], *, by: str
) -> dict[str, Value]:
    """A new dict, in the order of the old, with ``new_name(key)`` for each key that is text.

    Args:
        by: what the change is, for the error.

    Raises:
        ModelError: two keys would become one.
    """
    result: dict[str, Value] = {}
    origin: dict[str, str] = {}
    for key, value in state_dict.items():
        name = new_name(key) if isinstance(key, str) else key
        if name in result:
            raise ModelError(
                f"By {by} {origin[name]!r} and {key!r} would both become {name!r}. Leave one out, "
                f"or name a longer prefix."
            )
        result[name] = value
        origin[name] = key
    return result

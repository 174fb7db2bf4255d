"""Where each setting comes from: a line of a file, or an override."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

__all__ = ["Origins", "origin_of", "origins_of_yaml"]


class Origins(dict[str, str]):
    """Full key -> where its value was set last. List items are keys too: ``config.X[0]``."""

    def set(self, key: str, value: Any, where: str) -> None:
        """Note that ``value`` was merged into ``key``: dicts by key, anything else whole."""
        if isinstance(value, dict):
            self.setdefault(key, where)
            for name, item in value.items():
                self.set(f"{key}.{name}", item, where)
        else:
            self.replace(key, where)

    def replace(self, key: str, where: str) -> None:
        """Note that ``key`` was set as a whole, with everything within it."""
        for known in [known for known in self if known.startswith((f"{key}.", f"{key}["))]:
            del self[known]
        self[key] = where

    def add_layer(self, layer: Origins) -> None:
        """Note the lines of a file that was merged over what there was."""
        sections = {key.rpartition(".")[0] for key in layer}
        for key, where in layer.items():
            if key in sections or key.endswith("]"):
                self[key] = where
            else:
                self.replace(key, where)


def origin_of(key: str, origins: Mapping[str, str]) -> str:
    """`` (FILE:LINE)`` of a key, or of the list that it lies in; empty if unknown."""
    while key not in origins and "[" in key:
        key = key[: max(key.rfind("."), key.rfind("["))]
    return f" ({origins[key]})" if key in origins else ""


def origins_of_yaml(text: str, file: str, package: str = "") -> Origins:
    """Each key of a YAML document -> ``FILE:LINE``.

    Args:
        text: the document, which has been loaded before and so is known to be sound.
        file: its name in what is said about it.
        package: the dotted key under which Hydra puts the document; empty for the top.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    origins = Origins()
    for key, line in _lines(root, package):
        origins[key] = f"{file}:{line}"
    # The defaults list of a file is Hydra's, and no setting.
    defaults = f"{package}.defaults" if package else "defaults"
    return Origins({key: where for key, where in origins.items() if not _is_within(key, defaults)})


def _is_within(key: str, section: str) -> bool:
    return key == section or key.startswith((f"{section}.", f"{section}["))


def _lines(node: Any, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        # What is merged in comes first: the section's own keys win over it.
        for key_node, value_node in sorted(node.value, key=lambda pair: not _is_merge(pair[0])):
            if _is_merge(key_node):
                yield from _merged_lines(value_node, path)
                continue
            if isinstance(value_node, yaml.MappingNode) and not value_node.value:
                continue  # an empty section changes nothing where it is merged
            key = f"{path}.{key_node.value}" if path else str(key_node.value)
            yield key, key_node.start_mark.line + 1
            yield from _lines(value_node, key)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            key = f"{path}[{index}]"
            yield key, item.start_mark.line + 1
            yield from _lines(item, key)


def _is_merge(key_node: Any) -> bool:
    return bool(key_node.tag == "tag:yaml.org,2002:merge")


def _merged_lines(node: Any, path: str) -> Iterator[tuple[str, int]]:
    """The lines of what ``<<`` brings in: a mapping, or several of which the first wins."""
    for mapping in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
        yield from _lines(mapping, path)

"""matplotlib drawings as inline SVG that takes its colours and its font from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from assay._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ACCENT", "INK", "LINE", "MUTED", "PAPER", "QUIET", "Drawing", "draw_svg"]

# Stand-ins that no drawing uses otherwise; each becomes a variable of the page's style sheet, so
# that one drawing is right on light and on dark.
INK, MUTED, LINE = "#f1f1f1", "#f2f2f2", "#f3f3f3"
ACCENT, QUIET, PAPER = "#f4f4f4", "#f5f5f5", "#f6f6f6"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    QUIET: "var(--quiet)",
    PAPER: "var(--paper)",
}
_DPI = 72  # matplotlib's SVG counts points; at 72 a point is one unit, here one CSS pixel
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font:.*?([\d.]+px).*")  # how matplotlib 3.8 says size and family


@dataclass
class Drawing:
    """A figure measured in CSS pixels from its top left corner."""

    figure: Figure
    width_px: int
    height_px: int
    texts: list[tuple[str, str]] = field(default_factory=list)  # shown, tooltip

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes with the given margins to the drawing's edges, without frame or ticks."""
        box = (
            left / self.width_px,
            bottom / self.height_px,
            1 - (left + right) / self.width_px,
            1 - (top + bottom) / self.height_px,
        )
        axes = self.figure.add_axes(box)
        axes.set_frame_on(False)
        axes.xaxis.set_visible(False)
        axes.yaxis.set_visible(False)
        return axes

    def text(
        self, axes: Axes, x: float, y: float, text: str, *, tooltip: str = "", **style: Any
    ) -> None:
        """Text at (x, y), in data coordinates of ``axes``, moved by ``shift`` pixels.

        The browser sets the text in the page's font. matplotlib is given a placeholder: it would
        measure each text in its own font, warn of every glyph that this lacks, and take ``$`` for
        mathematics.
        """
        shift = style.pop("shift", (0, 0))
        style = {"color": MUTED, "fontsize": 13, "ha": "left", "va": "center_baseline", **style}
        placeholder = f"text-{len(self.texts)}"
        self.texts.append((text, tooltip))
        axes.annotate(
            placeholder,
            (x, y),
            xytext=shift,
            textcoords="offset points",
            annotation_clip=False,
            **style,
        )


def draw_svg(
    paint: Callable[[Drawing], None], *, key: str, label: str, width_px: int, height_px: int
) -> str:
    """The ``<svg>`` element that ``paint`` draws; the same bytes for the same drawing.

    Args:
        paint: draws on the empty drawing that it is given.
        key: begins every id in the element; different for each drawing of a page.
        label: what the drawing says, for people who do not see it.
        width_px: width in CSS pixels.
        height_px: height in CSS pixels.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    purpose = "draw the figures of the report"
    matplotlib = require("matplotlib", extra="evaluate", purpose=purpose)
    figures = require("matplotlib.figure", extra="evaluate", purpose=purpose)
    # The user's matplotlibrc has no say: the page would look otherwise on each machine.
    defaults = {
        name: matplotlib.rcParamsDefault[name]
        for name in matplotlib.rcParamsDefault
        if not name.startswith("backend")
    }
    buffer = io.StringIO()
    with matplotlib.rc_context({**defaults, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        figure = figures.Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI)
        figure.patch.set_visible(False)
        drawing = Drawing(figure, width_px, height_px)
        paint(drawing)
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return _inline(buffer.getvalue(), drawing, key=key, label=label)


def _inline(svg: str, drawing: Drawing, *, key: str, label: str) -> str:
    root = ElementTree.fromstring(svg)  # our own drawing, made just now
    parents = {child: parent for parent in root.iter() for child in parent}
    for element in list(root.iter()):
        # HTML knows SVG by its tags alone; without namespaces the page names no URL at all.
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = dict(sorted(_attributes(element, key).items()))
        if element.tag in ("style", "metadata"):
            parents[element].remove(element)
        if element.tag == "text":
            _set_text(element, drawing)
        elif not (element.text or "").strip():
            element.text = None
        element.tail = None
    root.attrib = {
        "class": "figure",
        "viewBox": f"0 0 {drawing.width_px} {drawing.height_px}",
        "width": str(drawing.width_px),
        "height": str(drawing.height_px),
        "role": "img",
        "aria-label": label,
    }
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _attributes(element: ElementTree.Element, key: str) -> dict[str, str]:
    """The element's attributes: ids unique on the page, numbers short, colours the page's."""
    attributes = {}
    for name, value in element.attrib.items():
        name = name.rpartition("}")[2]
        if name == "id":
            if element.tag == "g":
                continue  # nothing refers to a group
            value = f"{key}-{value}"
        elif name == "href":
            value = f"#{key}-{value.lstrip('#')}"
        elif name == "clip-path":
            value = value.replace("#", f"#{key}-")
        elif name == "style":
            value = _style(value)
        elif name in ("d", "x", "y", "transform", "points"):
            value = _LONG_NUMBER.sub(_short, value).replace("\n", "")
        if name == "transform" and value.startswith(("rotate(0 ", "rotate(-0 ")):
            continue
        attributes[name] = value
    return attributes


def _style(style: str) -> str:
    for colour, variable in _VARIABLES.items():
        style = style.replace(colour, variable)
    rules = (rule.strip().replace(": ", ":", 1) for rule in style.split(";"))
    kept = (rule for rule in rules if rule and not rule.startswith("font-family"))
    return ";".join(_FONT.sub(r"font-size:\1", rule) for rule in kept)


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _set_text(element: ElementTree.Element, drawing: Drawing) -> None:
    text, tooltip = drawing.texts[int((element.text or "").removeprefix("text-"))]
    element.text = text
    if tooltip:
        title = ElementTree.SubElement(element, "title")
        title.text = tooltip

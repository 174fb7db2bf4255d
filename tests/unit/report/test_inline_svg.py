from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib

from assay.report.inline_svg import ACCENT, Drawing, draw_svg


def paint(drawing: Drawing) -> None:
    axes = drawing.axes(10, 10, 10, 10)
    axes.plot([0.123456789, 1], [0, 1], color=ACCENT, marker="o")
    drawing.text(axes, 0, 0, "a $x^2$ <b> 数字", tooltip='all of "it"')


def draw(key: str = "k", label: str = "A line.") -> str:
    return draw_svg(paint, key=key, label=label, width_px=200, height_px=100)


def test_a_drawing_is_one_well_formed_svg_element_of_the_asked_size() -> None:
    root = ElementTree.fromstring(draw(label='5 < 6 & "7"'))

    assert root.tag == "svg"
    assert root.get("viewBox") == "0 0 200 100"
    assert root.get("role") == "img"
    assert root.get("aria-label") == '5 < 6 & "7"'


def test_texts_are_shown_as_given_and_not_taken_for_mathematics() -> None:
    text = next(ElementTree.fromstring(draw()).iter("text"))

    assert text.text == "a $x^2$ <b> 数字"
    assert text.findtext("title") == 'all of "it"'


def test_colours_and_fonts_are_the_pages() -> None:
    svg = draw()

    assert "var(--accent)" in svg
    assert not re.search(r"#[0-9a-f]{6}|font-family|DejaVu|<style", svg)


def test_no_url_stands_in_a_drawing() -> None:
    assert "http" not in draw()
    assert "xmlns" not in draw()


def test_ids_begin_with_the_key_and_every_reference_has_one() -> None:
    svg = draw(key="first")

    ids = set(re.findall(r' id="([^"]+)"', svg))
    wanted = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
    assert wanted
    assert wanted == ids
    assert all(name.startswith("first-") for name in ids)


def test_the_same_drawing_has_the_same_bytes_whatever_the_users_settings() -> None:
    plain = draw()
    with matplotlib.rc_context({"axes.grid": True, "font.size": 40, "svg.fonttype": "path"}):
        assert draw() == plain


def test_drawing_leaves_the_users_settings_as_they_are() -> None:
    with matplotlib.rc_context({"lines.linewidth": 7.5}):
        draw()
        assert matplotlib.rcParams["lines.linewidth"] == 7.5


def test_long_numbers_are_cut_to_what_a_screen_can_show() -> None:
    numbers = re.findall(r'd="([^"]+)"', draw())

    assert not re.search(r"\.\d{3}", " ".join(numbers))

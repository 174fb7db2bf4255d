from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from assay.errors import ImageError
from assay.report.html import PAGE_BYTES, render_report

MakeResults = Callable[..., dict[str, Any]]
LoadImage = Callable[[int], Image.Image]

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Outline(HTMLParser):
    """The elements of a page; notes each tag that is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.headings: list[int] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


KINDS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "three layers": {"layers": ["layer2", "layer3", "layer4"]},
    "five layers": {"layers": [f"blocks.{place}" for place in range(5)]},
    "two classes": {"class_names": ["cat", "dog"]},
    "sixty classes": {"class_names": [f"class {place}" for place in range(60)], "absent": [3]},
    "an absent class": {"absent": [1]},
    "nothing defined": {"absent": [0, 1, 2]},
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS.keys())
def results(request: pytest.FixtureRequest, make_results: MakeResults) -> dict[str, Any]:
    return make_results(**request.param)


@pytest.fixture(scope="module")
def text(results: dict[str, Any], load_image: LoadImage) -> str:
    return render_report(results, load_image)


@pytest.fixture(scope="module")
def page(text: str) -> Outline:
    return Outline(text)


def test_the_page_is_well_formed(page: Outline) -> None:
    assert page.faults == []


def test_headings_begin_with_one_h1_and_skip_no_level(page: Outline) -> None:
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(page.headings))


def test_ids_are_unique_and_every_reference_has_one(page: Outline) -> None:
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]

    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        href = attrs.get("href") or "#"
        assert href.startswith("data:image/") or href[1:] in {*ids, ""}
        assert attrs.get("aria-labelledby", ids[0]) in ids


def test_nothing_on_the_page_comes_from_elsewhere(text: str, page: Outline) -> None:
    assert not re.search(r"https?:|['\"(=]//|@import", text)
    assert not page.all("script") + page.all("link") + page.all("iframe") + page.all("object")
    assert not [a for _, a in page.elements if any(name.startswith("on") for name in a)]
    policy = next(a for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in (policy["content"] or "")


def test_images_and_figures_have_texts_and_tables_have_captions(page: Outline) -> None:
    for attrs in page.all("svg"):
        assert attrs.get("aria-hidden") == "true" or attrs.get("aria-label")
    assert len(page.all("table")) == len(page.all("caption"))


def test_the_same_results_give_the_same_page(
    results: dict[str, Any], load_image: LoadImage, text: str
) -> None:
    assert render_report(results, load_image) == text


def test_the_headline_names_the_mean_its_layer_and_the_classes_left_out(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    results = make_results(absent=[1], layers=["layer3", "layer4"])
    results["headline"]["layer"] = "layer4"
    results["layers"][1]["mean_ap"] = 0.87654

    text = " ".join(Outline(render_report(results, load_image)).text)

    assert "0.877" in text
    assert "1 of 3 classes left out: no positive test image" in re.sub(r"\s+", " ", text)


def test_a_page_with_no_class_defined_says_undefined(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    page = render_report(make_results(absent=[0, 1, 2]), load_image)

    assert '<p class="big words">undefined</p>' in page
    assert "nan" not in re.sub(r"data:[^\"]*", "", page).lower()


HOSTILE = "</style></svg><script>alert(\"1\")</script><img src=x onerror='alert(2)'>"


def test_names_and_texts_from_outside_cannot_become_markup(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    results = make_results(class_names=[HOSTILE, "b"], layers=[HOSTILE, "layer4"])
    results.update(title=HOSTILE, command=HOSTILE, created=HOSTILE, assay_version=HOSTILE)
    results["model"].update(name=HOSTILE, weights=HOSTILE, weights_digest=HOSTILE)
    for key in ("transform", "settings", "versions", "machine"):
        results[key] = {HOSTILE: {HOSTILE: [HOSTILE]}}
    for split in results["data"].values():
        split.update(source=HOSTILE, digest=HOSTILE)
        split["skipped"] = [{"name": HOSTILE, "reason": HOSTILE}]
    for entry in results["layers"][0]["ranked"]:
        for image in entry["first"]:
            image["name"] = HOSTILE
    results["timings"][0]["stage"] = HOSTILE

    page = Outline(render_report(results, load_image))

    assert page.faults == []
    assert page.all("script") == []
    assert page.all("img") == []
    assert HOSTILE in page.text


def test_names_that_no_file_can_hold_are_made_printable(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    results = make_results(class_names=["\udc80\x00", "数字 🦊", "z" * 1000])

    page = render_report(results, load_image)

    page.encode("utf-8")
    assert "数字 🦊" in page
    assert "\x00" not in page


def test_the_command_is_shown_to_the_letter(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    results = make_results()
    results["command"] = "assay evaluate svm --train 'a  b' \\\n  \"config.SVM.costs=[1,2]\""

    assert results["command"] in Outline(render_report(results, load_image)).text


def test_skipped_images_are_named_with_their_reasons(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    text = Outline(render_report(make_results(), load_image)).text

    assert "photos/train/broken.jpg" in text
    assert "cannot be decoded: truncated" in text


def test_an_image_that_is_gone_leaves_the_page_whole_and_is_said_to_be_gone(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    results = make_results()
    gone = results["layers"][0]["ranked"][0]["first"][0]["row"]

    def load(row: int) -> Image.Image:
        if row == gone:
            raise ImageError("photos/1.jpg: no longer there")
        return load_image(row)

    page = render_report(results, load)

    assert Outline(page).faults == []
    assert "photos/1.jpg: no longer there" in page
    assert f'id="image-{gone}"' not in page
    assert "1 image could not be read again" in page


def test_an_image_of_several_classes_and_layers_is_stored_once(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    page = Outline(render_report(make_results(layers=["a", "b", "c"]), load_image))

    shown = [a["href"] for a in page.all("use") if (a["href"] or "").startswith("#image-")]
    assert len(page.all("image")) == len(set(shown)) < len(shown)


@pytest.mark.slow
def test_many_classes_layers_and_noisy_photographs_stay_below_the_stated_size(
    make_results: MakeResults,
) -> None:
    random = np.random.default_rng(0)
    photographs = [
        Image.fromarray(random.integers(0, 256, size=(200, 200, 3), dtype=np.uint8))
        for _ in range(7)
    ]
    results = make_results(
        class_names=[f"{'a very long name ' * 20}{place}" for place in range(2_500)],
        images_per_class=1,
    )
    layer = results["layers"][0]
    for place in range(11):
        results["layers"].append({**layer, "layer": f"{'encoder.' * 20}{place}"})

    page = render_report(results, lambda row: photographs[row % 7])

    assert len(page.encode()) < PAGE_BYTES
    assert "of 2,500 classes, to keep the page small" in page
    assert "the 2,000 weakest of 2,500" in page
    assert "The first 8 of 11" in page


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted([luminance(first), luminance(second)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_reach_the_contrast_of_aa_in_light_and_dark(
    make_results: MakeResults, load_image: LoadImage
) -> None:
    page = render_report(make_results(), load_image)
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{([^}]*--paper: #[0-9a-f]{6};[^}]*)\}", page)
    ]

    assert len(schemes) == 2
    for scheme in schemes:
        for ground in ("paper", "raised"):
            for ink in ("ink", "muted", "accent", "wrong"):
                assert contrast(scheme[ink], scheme[ground]) >= 4.5
        assert contrast(scheme["quiet"], scheme["paper"]) >= 3

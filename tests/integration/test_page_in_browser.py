"""The page in a real Chromium: what it asks of the network, how wide it is, what is seen on it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from assay.report.html import render_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(NAMES)} is on PATH"),
]

COSTS = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
NUM_IMAGES = 12
RED, GREEN = (250, 10, 20), (10, 240, 30)

# Loads the page into frames of several widths, closed and with every part opened.
MEASURE = """<!doctype html><title>measure</title><pre id="out"></pre>
<script>
function measure(frame, width, opened) {
  const page = frame.contentDocument;
  if (opened) page.querySelectorAll("details").forEach(part => part.open = true);
  const thumbs = [...page.querySelectorAll("svg.thumb use")];
  return {
    width, opened,
    scrollWidth: page.documentElement.scrollWidth,
    shownThumbs: thumbs.filter(use => use.getBoundingClientRect().width > 0).length,
    thumbs: thumbs.length,
    resources: frame.contentWindow.performance.getEntriesByType("resource").map(e => e.name),
  };
}
const found = [];
for (const width of [320, 360, 390, 700, 1280]) {
  for (const opened of [false, true]) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width: ${width}px; height: 800px; border: 0`;
    frame.onload = () => {
      found.push(measure(frame, width, opened));
      document.getElementById("out").textContent = JSON.stringify(found);
    };
    frame.src = "report.html";
    document.body.append(frame);
  }
}
</script>
"""


def _layer(name: str, class_names: list[str]) -> dict[str, Any]:
    def example(row: int, rank: int, *, positive: bool) -> dict[str, Any]:
        name = "a/folder/with a long name/" + "0123456789" * 8 + f"/{row}.jpg"
        return {"row": row, "name": name, "score": 2.0 - rank, "positive": positive, "rank": rank}

    return {
        "layer": name,
        "feature_dim": 1280,
        "costs": COSTS,
        "mean_ap": 0.75,
        "num_undefined_classes": 1,
        "classes": [
            {
                "id": place,
                "name": class_name,
                "ap": None if place == 0 else 0.75,
                "chosen_cost": COSTS[place % len(COSTS)],
                "crossval_ap": [0.5, 0.6, 0.7, 0.8, 0.75, 0.7],
                "num_train_positives": 123_456,
                "num_test_positives": 0 if place == 0 else 3,
            }
            for place, class_name in enumerate(class_names)
        ],
        "ranked": [
            {
                "class_id": place,
                "first": [example(0, 1, positive=True), example(1, 2, positive=False)],
                "last_positives": [example(2, 3, positive=True), example(3, 4, positive=True)],
                "first_negatives": [example(1, 2, positive=False)],
            }
            for place in range(len(class_names))
        ],
    }


def _results() -> dict[str, Any]:
    """Names as long as they come, so that what could be too wide for a phone is."""
    class_names = ["absent", "cat", "W" * 200, "a long name of many words " * 6]
    layers = [_layer(f"{'encoder.layers.' * 8}{place}", class_names) for place in range(5)]
    split = {
        "source": "disk_folder /data/" + "deep/" * 40,
        "digest": "sha256:" + "ab12" * 16,
        "num_images": NUM_IMAGES,
        "num_classes": len(class_names),
        "multi_label": False,
        "skipped": [{"name": "x" * 200 + ".jpg", "reason": "truncated"}],
    }
    return {
        "schema": 1,
        "kind": "svm",
        "assay_version": "0.1.0",
        "created": "2026-01-01T12:00:00+00:00",
        "command": "assay evaluate svm --train /data/" + "deep/" * 40,
        "title": "torchvision:" + "a_very_long_model_name_" * 8,
        "headline": {"layer": layers[0]["layer"], "mean_ap": 0.75},
        "model": {
            "name": "torchvision:resnet50",
            "weights": "/weights/" + "deep/" * 40,
            "weights_digest": "sha256:" + "9f8e" * 16,
            "num_parameters": 25_557_032,
        },
        "transform": {"resize": 256, "mean": [0.485, 0.456, 0.406]},
        "data": {"train": split, "test": split},
        "settings": {"config": {"DATA": {"PATHS": ["/data/" + "deep/" * 60]}}},
        "versions": {"torch": "2.9.0"},
        "machine": {"cpu": "a processor " * 12},
        "layers": layers,
        "timings": [{"stage": "extract the features of train " * 3, "elapsed_s": 12.5}],
    }


def _image(row: int) -> Image.Image:
    return Image.new("RGB", (8, 8), RED if row % 2 else GREEN)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page and the page that measures it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "report.html").write_text(render_report(_results(), _image), encoding="utf-8")
    (folder / "measure.html").write_text(MEASURE, encoding="utf-8")
    return folder


class _Recorder(SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked of it."""

    def log_message(self, format: str, *args: Any) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]


@pytest.fixture
def server(site: Path) -> Iterator[ThreadingHTTPServer]:
    """The folder on a free port of this machine; its ``asked`` lists the paths asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Recorder, directory=str(site))) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _run_chromium(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )


def test_the_page_fits_every_width_and_asks_nothing_of_the_network(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    done = _run_chromium(
        tmp_path,
        "--dump-dom",
        "--virtual-time-budget=20000",
        "--window-size=1400,1000",
        f"http://127.0.0.1:{server.server_port}/measure.html",
    )

    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert out is not None
    found = json.loads(html.unescape(out[1]))
    assert len(found) == 10
    for measured in found:
        assert measured["scrollWidth"] <= measured["width"], measured
        assert measured["resources"] == []
        assert measured["shownThumbs"] == measured["thumbs"] or not measured["opened"]
        assert measured["shownThumbs"] > 0
    assert set(server.asked) <= {"/measure.html", "/report.html", "/favicon.ico"}  # type: ignore[attr-defined]
    assert "Content Security Policy" not in done.stderr


@pytest.mark.parametrize(
    ("scheme", "paper"), [("1", (252, 251, 249)), ("0", (20, 21, 22))], ids=["light", "dark"]
)
def test_images_are_seen_on_the_ground_that_the_reader_prefers(
    site: Path, tmp_path: Path, scheme: str, paper: tuple[int, int, int]
) -> None:
    shot = tmp_path / "shot.png"

    _run_chromium(
        tmp_path,
        f"--screenshot={shot}",
        "--window-size=1280,4000",
        f"--blink-settings=preferredColorScheme={scheme}",
        (site / "report.html").as_uri(),
    )

    with Image.open(shot) as image:
        pixels = image.convert("RGB")
    colours = {colour: count for count, colour in pixels.getcolors(maxcolors=1 << 24)}
    assert pixels.getpixel((2, 2)) == paper
    assert colours[RED] > 5_000
    assert colours[GREEN] > 5_000

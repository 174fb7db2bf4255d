"""A kill, Ctrl-C, a second process: nothing that counts is lost, nothing half is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.errors import (
    OutputError,
    ShardError,
)
from assay.features.datasets import open_images
from assay.features.extract import ExtractOptions, LayerSpec
from assay.features.models import load_model

LAYERS = [LayerSpec("conv"), LayerSpec("head")]
QUICK = ExtractOptions(batch_size=4, num_workers=0, device="cpu", num_threads=1)


KILLED_IN_MID_EXTRACTION = """
import os, signal, sys
from pathlib import Path
from assay.features.datasets import open_images
from assay.features.extract import ExtractOptions, LayerSpec, extract_features
from assay.features.models import load_model

def die_after_three_batches(count, done=[]):
    done.append(count)
    if len(done) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

extract_features(
    load_model("torchvision:resnet18", weights="random", resize=(32, 32)),
    open_images("digits", [], split="train", limit=50),
    [LayerSpec("layer1"), LayerSpec("fc")],
    Path(sys.argv[1]),
    split="train",
    options=ExtractOptions(batch_size=8, num_workers=1, device="cpu", record_every_s=0),
    progress=die_after_three_batches,
)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_process_leaves_nothing_whole_and_the_rerun_ends_in_the_same_bits(
    tmp_path: Path, extract: Any, merged: Any, same_bits: Any
) -> None:
    model = load_model("torchvision:resnet18", weights="random", resize=(32, 32))
    images = open_images("digits", [], split="train", limit=50)
    layers = [LayerSpec("layer1"), LayerSpec("fc")]
    options = ExtractOptions(batch_size=8, num_workers=0, device="cpu")

    child = subprocess.run(
        [sys.executable, "-c", KILLED_IN_MID_EXTRACTION, str(tmp_path / "killed")],
        capture_output=True,
        text=True,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not list((tmp_path / "killed").glob("*.npy"))
    with pytest.raises(ShardError, match="not finished"):
        merged(tmp_path / "killed", "fc")

    (resumed,) = extract(tmp_path / "killed", model, images, layers, options=options)
    extract(tmp_path / "whole", model, images, layers, options=options)

    assert resumed.resumed_rows == 24
    assert resumed.num_rows == 50
    for layer in ("layer1", "fc"):
        assert same_bits(merged(tmp_path / "killed", layer), merged(tmp_path / "whole", layer))


def interrupt_after(batches: int) -> Callable[[int], None]:
    left = [batches]

    def progress(_count: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    return progress


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any, same_bits: Any
) -> None:
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path / "stopped", progress=interrupt_after(2))
    images = Pictures()

    (resumed,) = extract(tmp_path / "stopped", images=images)

    extract(tmp_path / "whole")
    assert resumed.resumed_rows == 8
    assert images.loaded == [8, 9, 10]
    assert same_bits(merged(tmp_path / "stopped"), merged(tmp_path / "whole"))


def test_images_skipped_before_an_interruption_are_remembered_after_it(
    tmp_path: Path, Pictures: Any, extract: Any, merged: Any
) -> None:
    images, options = Pictures(bad=(0, 6, 9)), replace(QUICK, bad_images="skip")
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path, images=images, options=options, progress=interrupt_after(2))

    (resumed,) = extract(tmp_path, images=images, options=options)

    assert resumed.resumed_rows == 6
    assert [bad.name for bad in resumed.skipped] == ["picture/0", "picture/6", "picture/9"]
    assert merged(tmp_path).inds.tolist() == [1, 2, 3, 4, 5, 7, 8, 10]


def test_work_that_was_begun_otherwise_is_not_taken_up(
    tmp_path: Path, Pictures: Any, extract: Any
) -> None:
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path, progress=interrupt_after(2))

    (result,) = extract(tmp_path, images=Pictures(seed=1), layers=[LayerSpec("head")])

    assert result.resumed_rows == 0
    assert not list(tmp_path.glob("*.partial"))


def test_rows_that_were_damaged_after_an_interruption_are_computed_again(
    tmp_path: Path, extract: Any, merged: Any, same_bits: Any
) -> None:
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path / "stopped", progress=interrupt_after(2))
    partial = tmp_path / "stopped" / "rank0_train_head_features.npy.partial"
    content = bytearray(partial.read_bytes())
    content[128] ^= 1
    partial.write_bytes(content)

    (result,) = extract(tmp_path / "stopped")

    extract(tmp_path / "whole")
    assert result.resumed_rows == 0
    assert same_bits(merged(tmp_path / "stopped"), merged(tmp_path / "whole"))


class Died(BaseException):
    """Stands in for a kill: nothing but ``finally`` and ``except BaseException`` sees it."""


@pytest.mark.parametrize("bad", [(), (2, 10)], ids=["all good", "some skipped"])
def test_a_death_before_any_change_of_a_name_is_mended_by_the_rerun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: tuple[int, ...],
    Pictures: Any,
    extract: Any,
    merged: Any,
    same_bits: Any,
) -> None:
    images, options = Pictures(bad=bad), replace(QUICK, bad_images="skip", record_every_s=0)
    extract(tmp_path / "whole", images=images, options=options)
    monkeypatch.setattr(os, "fsync", lambda _handle: None)  # a hundred of them take their time
    real = {name: getattr(Path, name) for name in ("replace", "unlink")}
    deaths = 0
    while True:
        folder = tmp_path / f"died at {deaths}"
        # Old shards of other images: their removal is one of the times to die.
        extract(folder, images=Pictures(seed=5))
        left = [deaths]

        def count_down(name: str, left: list[int] = left) -> Callable[..., Any]:
            def call(*arguments: Any, **keywords: Any) -> Any:
                left[0] -= 1
                if left[0] == -1:
                    raise Died
                return real[name](*arguments, **keywords)

            return call

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(Path, name, count_down(name))
            try:
                extract(folder, images=images, options=options)
                break
            except Died:
                deaths += 1
        (result,) = extract(folder, images=images, options=options)
        assert [image.name for image in result.skipped] == [f"picture/{index}" for index in bad]
        for layer in ("conv", "head"):
            assert same_bits(merged(folder, layer), merged(tmp_path / "whole", layer))
        assert len(list(folder.iterdir())) == 7
    assert deaths > 15


def test_a_second_process_in_the_same_folder_is_refused_and_told_of_the_first(
    tmp_path: Path, extract: Any
) -> None:
    code = (
        "import sys; from pathlib import Path; from assay.features.folder_lock import hold_lock\n"
        "with hold_lock(Path(sys.argv[1]), 'works'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "rank0_train.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(OutputError, match=rf"another process .* process {other.pid} on "):
            extract(tmp_path)
        other.kill()

    assert extract(tmp_path)[0].num_rows == 11

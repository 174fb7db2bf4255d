from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from assay.timing.accelerator_in_use import AcceleratorInUse


class FakeEvent:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed_time(self, other: FakeEvent) -> float:
        return 2.5


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch whose ``cuda`` is not in use until its ``opened`` is set."""
    waits: list[int] = []
    module = SimpleNamespace(
        opened=False,
        waits=waits,
        is_initialized=lambda: module.opened,
        Event=FakeEvent,
        current_device=lambda: 0,
        device_count=lambda: 1,
        synchronize=lambda: waits.append(1),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=module))
    return module


def test_until_the_program_uses_a_device_there_is_nothing_to_wait_for(cuda: Any) -> None:
    clock = AcceleratorInUse()

    clock.synchronize()

    assert (clock.record(), clock.is_in_use, cuda.waits) == (None, False, [])


def test_once_it_does_events_are_those_of_the_device(cuda: Any) -> None:
    clock = AcceleratorInUse()
    clock.synchronize()
    cuda.opened = True

    clock.synchronize()
    start, end = clock.record(), clock.record()

    assert clock.is_in_use
    assert cuda.waits == [1]
    assert clock.is_done(end)
    assert clock.elapsed_ms(start, end) == 2.5


def test_it_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom assay.timing.accelerator_in_use import AcceleratorInUse\n"
        "AcceleratorInUse().synchronize()\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_on_this_machine_it_opens_nothing() -> None:
    torch = pytest.importorskip("torch")
    before = torch.cuda.is_initialized()

    AcceleratorInUse().synchronize()

    assert torch.cuda.is_initialized() == before


@pytest.mark.gpu
def test_a_real_device_in_use_is_found() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no accelerator")
    clock = AcceleratorInUse()
    torch.zeros(1, device="cuda")

    start = clock.record()
    torch.cuda._sleep(1_000_000)
    end = clock.record()

    assert clock.is_in_use
    assert (clock.elapsed_ms(start, end) or 0) > 0

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from assay.runtime.signals import signals_blocked, sigterm_unwinds, unblock_signals

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_sigmask"), reason="this system cannot block signals"
)


def blocked() -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def run(code: str) -> subprocess.CompletedProcess[str]:
    imports = "import signal, sys\nfrom assay.runtime.signals import *\n"
    return subprocess.run(
        [sys.executable, "-c", imports + code], capture_output=True, text=True, check=False
    )


def test_a_signal_within_the_block_comes_at_its_end() -> None:
    reached = []

    def interrupt() -> None:
        with signals_blocked():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert reached
    assert not blocked() & {signal.SIGINT, signal.SIGTERM}


def test_signals_that_were_blocked_before_stay_blocked() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        with signals_blocked():
            assert {signal.SIGINT, signal.SIGTERM} <= blocked()
        assert signal.SIGTERM in blocked()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_process_started_within_the_block_has_them_blocked_until_it_is_ready() -> None:
    code = (
        "signal.signal(signal.SIGINT, lambda *_: print('came'))\n"
        "signal.raise_signal(signal.SIGINT)\n"
        "print('ready')\n"
        "unblock_signals()\n"
    )
    with signals_blocked():
        done = run(code)
    assert done.stdout.split() == ["ready", "came"]


def test_unblocking_what_is_not_blocked_changes_nothing() -> None:
    before = blocked()
    unblock_signals()
    assert blocked() == before


def test_sigterm_leaves_the_block_by_its_finally_and_then_ends_the_process() -> None:
    code = (
        "try:\n"
        "    with sigterm_unwinds():\n"
        "        try:\n"
        "            signal.raise_signal(signal.SIGTERM)\n"
        "        finally:\n"
        "            print('cleaned up', flush=True)\n"
        "finally:\n"
        "    print('never reached', flush=True)\n"
    )
    done = run(code)
    assert done.returncode == -signal.SIGTERM
    assert done.stdout == "cleaned up\n"
    assert done.stderr == ""


def test_a_handler_that_was_there_stays_in_charge() -> None:
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(99))\n"
        "with sigterm_unwinds():\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
    )
    assert run(code).returncode == 99


def test_afterwards_sigterm_acts_as_before() -> None:
    with sigterm_unwinds():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_in_another_thread_sigterm_is_left_alone() -> None:
    found = []

    def look() -> None:
        with sigterm_unwinds():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]

"""What every test may count on."""

from __future__ import annotations

import signal

# A shell starts a job in the background with Ctrl-C ignored, and a process that is started from one
# inherits that: tests that send SIGINT, to themselves or to a child, would then wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

"""What signals do to a program that runs a cluster."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ignored() -> Iterator[None]:
    """Ignore what would interrupt the block, if this is the main thread."""
    with ExitStack() as restoring:
        if threading.current_thread() is threading.main_thread():
            for number in _INTERRUPTIONS:
                before = signal.signal(number, signal.SIG_IGN)
                restoring.callback(signal.signal, number, before)
        yield


@contextmanager
def sigterm_exits() -> Iterator[None]:
    """Have SIGTERM unwind like Ctrl-C in the block, unless it has a handler."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

"""Several workers, each a process that is started again when it ends.

One thread that waits for signals: to stop, of a child that ended, of a timer. It opens no
connection and has no loop.
"""

import multiprocessing
import os
import select
import signal
import sys
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from time import monotonic

import structlog

from skipmq.processes import certificate, systemd, worker
from skipmq.processes.certificate import Watch
from skipmq.processes.worker import STOP_SIGNALS, Work

log = structlog.get_logger()

TICK = 0.1
# The pause before a worker is started again, which doubles; how often it may end within
# SETTLED_SECONDS of its start, one time after the other, before the node gives up.
PAUSE, MOST_ENDS, SETTLED_SECONDS = 0.1, 6, 10.0
# What a worker gets beyond SKIPMQ_STOP_TIMEOUT before it is killed.
KILLED_AFTER = 5.0
_HEARD = STOP_SIGNALS | {signal.SIGCHLD, signal.SIGALRM}


class CrashLoopError(Exception):
    """A worker ends whenever it is started; the message has the cause."""


class Supervisor:
    """The workers of a node, started by fork: it is to be made in a process of one thread."""

    def __init__(
        self,
        work: Work,
        ready: Callable[[], None],
        watch: Watch | None,
        parent: int | None = None,
    ) -> None:
        """Make the supervisor; `parent` is a descriptor that ends when the node is to stop."""
        self._parent = parent
        self._work, self._ready, self._watch = work, ready, watch
        self._workers = {number: _Place() for number in range(len(work.sockets))}
        # Workers say here that they are ready, or why they end.
        self._said, self._saying = os.pipe()
        os.set_blocking(self._said, False)
        # Only this process has the end that is written: the other can be read when it has died.
        self._alive_reading, self._alive_writing = os.pipe()
        self._is_ready = self._is_stopping = False
        self._kills_at = float("inf")
        self._looks_at = 0.0

    def run(self) -> None:
        """Run the workers until a signal that stops the node, and return when they have ended.

        Raises CrashLoopError.
        """
        # Workers begin with the same, and hear of what is for them when they can.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD | {worker.RENEW, worker.STOP})
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        try:
            self._start_due()
            while not (
                self._is_stopping and all(p.process is None for p in self._workers.values())
            ):
                if signal.sigwait(_HEARD) in STOP_SIGNALS or self._has_lost_parent():
                    self._stop()
                self._hear_workers()
                self._note_ends()
                self._start_due()
                self._look_for_certificate()
                systemd.ping()
        except BaseException:
            self._kill()
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _start_due(self) -> None:
        for number, place in self._workers.items():
            if place.process is None and not self._is_stopping and place.due <= monotonic():
                place.began = monotonic()
                place.process = multiprocessing.get_context("fork").Process(
                    target=self._work_as, args=(number,), name=f"worker {number}"
                )
                place.process.start()

    def _work_as(self, number: int) -> None:
        """Be a worker, in a process of its own."""
        os.close(self._alive_writing)
        try:
            worker.run(
                self._work,
                lambda: self._say(number, "ready"),
                None,
                number=number,
                stops={worker.STOP},
                parent=self._alive_reading,
            )
        except Exception as error:  # noqa: BLE001 - the supervisor tells it.
            self._say(number, f"{type(error).__name__}: {error}")
            sys.exit(1)

    def _say(self, number: int, what: str) -> None:
        os.write(self._saying, f"{number} {' '.join(what.split())}".encode()[:1024] + b"\n")

    def _hear_workers(self) -> None:
        try:
            said = os.read(self._said, 65_536).decode(errors="replace")
        except BlockingIOError:
            return
        for line in said.splitlines():
            number, _, what = line.partition(" ")
            if what != "ready":
                self._workers[int(number)].cause = what
            elif not self._is_ready:
                self._is_ready = True
                self._ready()

    def _note_ends(self) -> None:
        now = monotonic()
        if now > self._kills_at:
            log.error("workers that did not end in time are killed")
            self._kill()
        for number, place in self._workers.items():
            if place.process is None or (code := place.process.exitcode) is None:
                continue
            place.process.join()
            place.process = None
            if self._is_stopping:
                continue
            cause = place.cause or _exit_cause(code)
            place.ends = place.ends + 1 if now - place.began < SETTLED_SECONDS else 1
            if place.ends >= MOST_ENDS:
                raise CrashLoopError(f"a worker ends whenever it is started: {cause}")
            place.cause, place.due = "", now + PAUSE * 2 ** (place.ends - 1)
            log.error("a worker ended, another is started", number=number, cause=cause)

    def _stop(self) -> None:
        settings = self._work.settings
        delay = 0 if self._is_stopping else settings.stop_delay
        self._is_stopping = True
        ends_at = monotonic() + delay + settings.stop_timeout + KILLED_AFTER
        self._kills_at = min(self._kills_at, ends_at)
        self._send(worker.STOP)

    def _look_for_certificate(self) -> None:
        if self._watch is None or monotonic() < self._looks_at:
            return
        self._looks_at = monotonic() + certificate.INTERVAL
        if self._watch.look():
            self._send(worker.RENEW)
            systemd.reloaded()

    def _has_lost_parent(self) -> bool:
        """Report, once, that what started the node has ended."""
        while self._parent is not None and select.select([self._parent], [], [], 0)[0]:
            if not os.read(self._parent, 4096):
                self._parent = None
                return True
        return False

    def _send(self, notice: signal.Signals) -> None:
        for place in self._workers.values():
            if place.process is not None and place.process.pid and place.process.is_alive():
                os.kill(place.process.pid, notice)

    def _kill(self) -> None:
        for place in self._workers.values():
            if place.process is not None:
                place.process.kill()
                place.process.join()


class _Place:
    """A worker that there is, or shall be."""

    def __init__(self) -> None:
        self.process: ForkProcess | None = None
        self.began = self.due = 0.0
        self.ends = 0
        self.cause = ""


def _exit_cause(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

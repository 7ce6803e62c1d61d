"""The supervisor of several worker processes, which restarts those that end.

A single thread waits for stop signals, SIGCHLD and a timer. It opens no connection and has no event
loop.
"""

import multiprocessing
import os
import select
import signal
import sys
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from time import monotonic

from skipmq.server.processes import certificate, systemd, worker
from skipmq.server.processes.certificate import Watch
from skipmq.server.processes.worker import STOP_SIGNALS, Work
from skipmq.telemetry.logs import log

TICK = 0.1
# The delay before a restart, which doubles each time.
RESTART_DELAY = 0.1
# The node stops if a worker ends CRASH_LIMIT times in a row within CRASH_SECONDS of its start.
CRASH_LIMIT, CRASH_SECONDS = 6, 10.0
# Seconds after SKIPMQ_STOP_TIMEOUT until workers are killed.
KILL_DELAY = 5.0
_SIGNALS = STOP_SIGNALS | {signal.SIGCHLD, signal.SIGALRM}


class CrashLoopError(Exception):
    """A worker ends after each start; the message contains the cause."""


class Supervisor:
    """The workers of a node. It forks, so the process must have a single thread."""

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
        self._workers = {number: _Worker() for number in range(len(work.sockets))}
        # Workers report here that they are ready, or the error that ends them.
        self._reports_reader, self._reports_writer = os.pipe()
        os.set_blocking(self._reports_reader, False)
        # Only this process has the writing end, so workers read end-of-file when it dies.
        self._alive_reader, self._alive_writer = os.pipe()
        self._is_ready = self._is_stopping = False
        self._kill_at = float("inf")
        self._poll_certificate_at = 0.0

    def run(self) -> None:
        """Run the workers until a stop signal, and return when all have ended.

        Raises CrashLoopError.
        """
        # Workers inherit the mask and unblock their signals once they have handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS | {worker.RENEW, worker.STOP})
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        try:
            self._start_due()
            while not (
                self._is_stopping and all(w.process is None for w in self._workers.values())
            ):
                if signal.sigwait(_SIGNALS) in STOP_SIGNALS or self._has_lost_parent():
                    self._stop()
                self._read_reports()
                self._reap()
                self._start_due()
                self._poll_certificate()
                systemd.ping()
        except BaseException:
            self._kill()
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _start_due(self) -> None:
        for number, each in self._workers.items():
            if each.process is None and not self._is_stopping and each.start_at <= monotonic():
                each.started_at = monotonic()
                each.process = multiprocessing.get_context("fork").Process(
                    target=self._run_worker, args=(number,), name=f"worker {number}"
                )
                each.process.start()

    def _run_worker(self, number: int) -> None:
        os.close(self._alive_writer)
        try:
            worker.run(
                self._work,
                lambda: self._report(number, "ready"),
                None,
                number=number,
                stops={worker.STOP},
                parent=self._alive_reader,
            )
        except Exception as error:  # noqa: BLE001 - the supervisor logs it.
            self._report(number, f"{type(error).__name__}: {error}")
            sys.exit(1)

    def _report(self, number: int, text: str) -> None:
        os.write(self._reports_writer, f"{number} {' '.join(text.split())}".encode()[:1024] + b"\n")

    def _read_reports(self) -> None:
        try:
            reports = os.read(self._reports_reader, 65_536).decode(errors="replace")
        except BlockingIOError:
            return
        for line in reports.splitlines():
            number, _, text = line.partition(" ")
            if text != "ready":
                self._workers[int(number)].error = text
            elif not self._is_ready:
                self._is_ready = True
                self._ready()

    def _reap(self) -> None:
        now = monotonic()
        if now > self._kill_at:
            log.error("killing the workers that did not stop in time")
            self._kill()
        for number, each in self._workers.items():
            if each.process is None or (code := each.process.exitcode) is None:
                continue
            each.process.join()
            each.process = None
            if self._is_stopping:
                continue
            cause = each.error or _exit_cause(code)
            each.crashes = each.crashes + 1 if now - each.started_at < CRASH_SECONDS else 1
            if each.crashes >= CRASH_LIMIT:
                raise CrashLoopError(f"a worker ends after each start: {cause}")
            each.error, each.start_at = "", now + RESTART_DELAY * 2 ** (each.crashes - 1)
            log.error("restarting a worker that ended", number=number, cause=cause)

    def _stop(self) -> None:
        settings = self._work.settings
        delay = 0 if self._is_stopping else settings.stop_delay
        self._is_stopping = True
        kill_at = monotonic() + delay + settings.stop_timeout + KILL_DELAY
        self._kill_at = min(self._kill_at, kill_at)
        self._signal(worker.STOP)

    def _poll_certificate(self) -> None:
        if self._watch is None or monotonic() < self._poll_certificate_at:
            return
        self._poll_certificate_at = monotonic() + certificate.INTERVAL
        if self._watch.poll():
            self._signal(worker.RENEW)
            systemd.reloaded()

    def _has_lost_parent(self) -> bool:
        """Return whether the process that started the node has ended, once."""
        while self._parent is not None and select.select([self._parent], [], [], 0)[0]:
            if not os.read(self._parent, 4096):
                self._parent = None
                return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        for each in self._workers.values():
            if each.process is not None and each.process.pid and each.process.is_alive():
                os.kill(each.process.pid, number)

    def _kill(self) -> None:
        for each in self._workers.values():
            if each.process is not None:
                each.process.kill()
                each.process.join()


class _Worker:
    """The process of a worker, None until `start_at`, and its recent crashes."""

    def __init__(self) -> None:
        self.process: ForkProcess | None = None
        self.started_at = self.start_at = 0.0
        self.crashes = 0
        self.error = ""


def _exit_cause(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

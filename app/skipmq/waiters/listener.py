"""Hears what other processes say: who is to wake here, who waits elsewhere, what was changed."""

import threading
from collections.abc import Callable

import psycopg
import structlog

from skipmq.store import Session
from skipmq.waiters.notifier import CHANGED, CHANNEL, SENT, WAITING, Notifier
from skipmq.waiters.registry import Waiters

log = structlog.get_logger()

# How many are woken by a notification, which does not say how many messages there are: those who
# find some leave, and pass the wake-up on.
WOKEN = 2


class Listener:
    """A thread with a connection of its own, which it makes again when it is lost."""

    def __init__(
        self,
        connect: Callable[[], Session],
        process: str,
        waiters: Waiters,
        notifier: Notifier,
        forget: Callable[[str | None], None],
    ) -> None:
        self._connect = connect
        self._process = process
        self._waiters = waiters
        self._notifier = notifier
        # What is known of a queue, or of all.
        self._forget = forget
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread within a second."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._connect() as session:
                    session.execute(f"listen {CHANNEL}")
                    # What was said while nobody listened is lost: everybody looks once.
                    self._forget(None)
                    self._waiters.wake_all()
                    while session.is_current and not self._stopped.is_set():
                        for payload in session.notifications(timeout=1):
                            self.hear(payload)
            except psycopg.Error as error:
                log.warning("listener lost its connection", error=" ".join(str(error).split()))
                self._stopped.wait(1)
            except Exception:
                log.exception("listener failed")
                self._stopped.wait(1)

    def hear(self, payload: str) -> None:
        """Act on one notification."""
        process, kind, *queues = payload.split(" ") if payload.count(" ") > 1 else ("", "")
        if process == self._process:
            return
        for queue in queues:
            if kind == SENT:
                self._waiters.wake(queue, WOKEN)
            elif kind == WAITING:
                self._notifier.somebody_waits(queue)
            elif kind == CHANGED:
                self._forget(queue)

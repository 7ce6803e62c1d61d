"""Deadlines of statements: a frozen server acknowledges what it is sent and answers nothing."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any

import psycopg

_MIN_SECONDS = 5.0


class Deadlines:
    """Closes connections whose statements take longer than `seconds`, 5 at least.

    Threads share one that watches them: a timer for each would cost as much as a statement does.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, _MIN_SECONDS)
        # Times and calls, in the order of times: all have the same number of seconds.
        self._calls: dict[object, tuple[float, Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._is_watched = False

    @contextmanager
    def __call__(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
    ) -> Iterator[None]:
        """Close the connection where the block, a statement of the worker's own, takes too long.

        It is not cancelled, which a frozen server would not answer either. Raises
        psycopg.OperationalError then.
        """
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            with (
                suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(connection.fileno())) as s,
            ):
                s.shutdown(socket.SHUT_RDWR)

        if isinstance(connection, psycopg.AsyncConnection):
            cancel = asyncio.get_running_loop().call_later(self._seconds, end).cancel
        else:
            cancel = self._call_later(end)
        try:
            yield
        except psycopg.OperationalError as error:
            if is_over:
                text = f"the server did not answer within {self._seconds:g} s"
                raise psycopg.OperationalError(text) from error
            raise
        finally:
            cancel()

    def _call_later(self, call: Callable[[], None]) -> Callable[[], None]:
        """Schedule a call after the seconds; return a function that cancels it."""
        key = object()
        with self._lock:
            if not self._is_watched:
                threading.Thread(target=self._watch, daemon=True).start()
                self._is_watched = True
            self._calls[key] = (monotonic() + self._seconds, call)

        def cancel() -> None:
            with self._lock:
                self._calls.pop(key, None)

        return cancel

    def _watch(self) -> None:
        """Make the calls that are due, until none is scheduled."""
        left = self._seconds
        while True:
            sleep(left)
            with self._lock:
                while self._calls:
                    key, (due, call) = next(iter(self._calls.items()))
                    if (left := due - monotonic()) > 0:
                        break
                    del self._calls[key]
                    call()
                else:
                    self._is_watched = False
                    return

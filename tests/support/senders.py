"""Clients that send over TLS all the time, and what became of it."""

import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPException, HTTPSConnection
from itertools import count
from typing import Any

from support.http import eventually

# Seconds between two messages of one client: load, on a machine that has other things to do.
PAUSE = 0.05


class Senders:
    """Clients that send all the time and never try again: on kept connections and on new ones."""

    def __init__(self, port: int, context: ssl.SSLContext, queue: str) -> None:
        self._port, self._context, self._path = port, context, queue.partition(str(port))[2]
        self._ended = threading.Event()
        self._numbers = count()
        self.sent: list[str] = []
        self.errors: list[str] = []

    @contextmanager
    def sending(self) -> Iterator[None]:
        roles = [self._on_new_connections] * 4 + [self._on_one_connection] * 4
        roles += [self._on_idle_connections] * 4 + [self._waiting]
        with ThreadPoolExecutor(len(roles)) as pool:
            running: list[Future[None]] = [pool.submit(self._repeat, role) for role in roles]
            try:
                yield
            finally:
                self._ended.set()
        for each in running:
            each.result()

    def _repeat(self, role: Callable[[], None]) -> None:
        while not self._ended.wait(PAUSE):
            try:
                role()
            except (OSError, HTTPException) as error:
                self.errors.append(f"{role.__name__}: {type(error).__name__} {error}")

    def _connection(self) -> HTTPSConnection:
        return HTTPSConnection("localhost", self._port, timeout=30, context=self._context)

    def _on_new_connections(self) -> None:
        with closing(self._connection()) as connection:
            self._send(connection)

    def _on_one_connection(self) -> None:
        with closing(self._connection()) as connection:
            while self._send(connection) and not self._ended.wait(PAUSE):
                pass

    def _on_idle_connections(self) -> None:
        with closing(self._connection()) as connection:
            while self._send(connection) and not self._ended.wait(0.3):
                pass

    def _waiting(self) -> None:
        with closing(self._connection()) as connection:
            body = "Action=ReceiveMessage&WaitTimeSeconds=2&MaxNumberOfMessages=1"
            answer = self._ask(connection, self._path.replace("orders", "empty"), body)
            if answer.status != 200:
                self.errors.append(f"waiting: {answer.status}")

    def _ask(self, connection: HTTPSConnection, path: str, body: str) -> Any:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    def _send(self, connection: HTTPSConnection) -> bool:
        """Send a message; tell whether the server lets the connection be."""
        body = f"message-{next(self._numbers)}"
        answer = self._ask(connection, self._path, f"Action=SendMessage&MessageBody={body}")
        if answer.status == 200:
            self.sent.append(body)
        else:
            self.errors.append(f"send: {answer.status}")
        return not answer.will_close

    def go_on(self) -> None:
        so_far = len(self.sent)
        eventually(lambda: len(self.sent) > so_far + 40, why=str(self.errors[:3]))

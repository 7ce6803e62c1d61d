"""A way to the database that ends at a chosen message of a chosen answer.

It reads the messages that go by (PostgreSQL manual, "Message Formats"): what a client binds names
the statement, so that an answer is found whether its statement was prepared or not.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

import psycopg

from support.proxy import Listener

BIND, PARSE, SYNC = b"B", b"P", b"S"
BACKEND_KEY, COMMAND_COMPLETE, READY_FOR_QUERY = b"K", b"C", b"Z"
FLUSH = b"H\0\0\0\4"
HEAD = 5
# More messages than an answer has.
ALL = 1000


class How(Enum):
    """What happens to the transaction whose answer is cut."""

    # The server has committed it, and the client gets a part of the answer.
    COMMITTED = auto()
    # The server never gets Sync: it gives rows and CommandComplete, and rolls back when it is cut.
    ROLLED_BACK = auto()
    # The same, and the server itself ends the session, with an error after the rows.
    TERMINATED = auto()


# The last message of an answer that the client can get.
LAST = {
    How.COMMITTED: READY_FOR_QUERY,
    How.ROLLED_BACK: COMMAND_COMPLETE,
    How.TERMINATED: COMMAND_COMPLETE,
}


@dataclass
class Cut:
    """A cut after so many messages of the answer to the next statement that calls a function."""

    function: str
    messages: int
    how: How
    # What the client got of the answer, by the types of its messages.
    passed: list[bytes] = field(default_factory=list)
    was_made: threading.Event = field(default_factory=threading.Event)
    # Whether the answer had no more messages than the client was to get.
    had_all: bool = False


class WireCuts(Listener):
    """Passes messages on between clients and a server's socket, until an answer is to be cut."""

    def __init__(self, target: Path, admin: str) -> None:
        self._target, self._admin = str(target), admin
        self._cut: Cut | None = None
        super().__init__()

    @contextlib.contextmanager
    def cutting(self, cut: Cut) -> Iterator[None]:
        """Cut the next answer of a function."""
        self._cut = cut
        yield
        assert cut.was_made.wait(30), f"no client called {cut.function}"

    def take(self, statement: str) -> Cut | None:
        """Return the cut that is for the answer to a statement, once."""
        with self._lock:
            cut = self._cut
            if cut is None or cut.function not in statement:
                return None
            self._cut = None
            return cut

    def terminate(self, pid: int) -> None:
        """End the session of a backend, as a server that shuts down does."""
        with psycopg.connect(self._admin, autocommit=True) as admin:
            admin.execute("select pg_terminate_backend(%s)", (pid,))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
            except OSError:
                return
            with self._lock:
                self._open |= {client, server}
            link = _Link(self, client, server)
            for target in (link.ask, link.answer):
                self._start(target)


class _Link:
    """One client's connection with the server."""

    def __init__(self, cuts: WireCuts, client: socket.socket, server: socket.socket) -> None:
        self._cuts, self._client, self._server = cuts, client, server
        self._statements: dict[bytes, str] = {}
        self._cut: Cut | None = None
        self._pid = 0

    def ask(self) -> None:
        """Pass on what the client sends."""
        with contextlib.suppress(OSError, EOFError), self._client.makefile("rb") as source:
            # The first message has no type.
            self._server.sendall(_message(source, typed=False)[1])
            while True:
                kind, whole = _message(source)
                body = whole[HEAD:]
                if kind == PARSE:
                    name, text, _ = body.split(b"\0", 2)
                    self._statements[name] = text.decode()
                elif kind == BIND:
                    _, name, _ = body.split(b"\0", 2)
                    self._cut = self._cuts.take(self._statements[name])
                elif kind == SYNC and self._cut is not None and self._cut.how is not How.COMMITTED:
                    whole = FLUSH
                self._server.sendall(whole)
        self._close()

    def answer(self) -> None:
        """Pass on what the server sends, up to the cut."""
        with contextlib.suppress(OSError, EOFError), self._server.makefile("rb") as source:
            while True:
                kind, whole = _message(source)
                if kind == BACKEND_KEY:
                    (self._pid,) = struct.unpack(">i", whole[HEAD : HEAD + 4])
                cut = self._cut
                if cut is not None and len(cut.passed) == cut.messages:
                    break
                self._client.sendall(whole)
                if cut is None:
                    continue
                cut.passed.append(kind)
                if kind == LAST[cut.how]:
                    cut.had_all = True
                    if cut.how is not How.TERMINATED:
                        break
                    self._cuts.terminate(self._pid)
        self._close()
        if self._cut is not None:
            self._cut.was_made.set()

    def _close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _message(source: BinaryIO, *, typed: bool = True) -> tuple[bytes, bytes]:
    """Return the type of the next message, and the message whole.

    Raises EOFError.
    """
    kind = source.read(1) if typed else b""
    length = source.read(4)
    if len(length) < 4:
        raise EOFError
    return kind, kind + length + source.read(struct.unpack(">I", length)[0] - 4)

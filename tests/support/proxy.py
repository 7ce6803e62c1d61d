"""A way to the database that loses things, as a network does when a server dies."""

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self


class Listener(ABC):
    """Listens on a port in threads of its own, and ends what they have open."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @abstractmethod
    def _accept(self) -> None:
        """Take connections until the port is closed."""

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
        for each in self._open:
            each.close()


class Proxy(Listener):
    """Passes bytes on between clients and a server's socket, until it is to lose some."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)
        self._marker: bytes | None = None
        self.lost = threading.Event()
        self._refuses = False
        super().__init__()

    @contextlib.contextmanager
    def losing_the_reply_to(self, marker: bytes) -> Iterator[None]:
        """Cut the next connection that sends these bytes, once the server has answered them."""
        self.lost.clear()
        self._marker = marker
        yield
        assert self.lost.is_set(), f"nobody sent {marker!r}"

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Cut every connection, and let nobody in before the end of the block."""
        self._refuses = True
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        yield
        self._refuses = False

    def redirect(self, target: Path) -> None:
        """Pass bytes on to another server's socket from the next connection on."""
        self._target = str(target)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            try:
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
            except OSError:
                client.close()
                server.close()
                continue
            doomed = threading.Event()
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                self._start(self._pass, source, sink, source is client, doomed)

    def _pass(
        self, source: socket.socket, sink: socket.socket, asks: bool, doomed: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asks and self._marker is not None and self._marker in data:
                    self._marker = None
                    doomed.set()
                if not asks and doomed.is_set():
                    self.lost.set()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

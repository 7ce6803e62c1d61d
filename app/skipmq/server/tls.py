"""How a worker serves over TLS, and goes on with another certificate without losing a request.

Granian reads its certificate once, when it begins to listen. Its way to renew one, replacing the
process, breaks off handshakes, resets connections that nobody has accepted yet, and may close idle
ones in the moment when their clients use them. So a worker lets a second server of Granian's begin
in the same process, on the same application and the same listening socket. The one before accepts
nothing more, asks clients to close their connections with its next answer, and ends when they have.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from granian._futures import _future_watcher_wrapper, _new_cbscheduler
from granian._granian import RSGIWorker, SocketHolder, WorkerSignal
from granian.server.mp import WorkerProcess

# What the main process sends when there is another certificate.
RENEW = signal.SIGHUP
# Longer than a handshake or an idle connection lasts: nobody is cut off after that.
_RETIRED_SECONDS = 60.0
_CLOSE = ("connection", "close")

Application: TypeAlias = Callable[[Any, Any], Awaitable[None]]


@WorkerProcess.wrap_target  # type: ignore[untyped-decorator]
def serve(
    number: int,
    application: Any,
    sockets: Any,
    pipe: Any,
    loop: asyncio.AbstractEventLoop,
    *options: Any,
) -> None:
    """Serve until SIGTERM, as Granian's MPServer._spawn_rsgi_worker does, and mind RENEW."""
    ending = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ending.set)
    application.__rsgi_init__(loop)
    own, shared = sockets
    listening, *more = (shared or own.build()).__getstate__()
    runtime, protocol, tls, metrics = options[1:6], options[7:12], options[13], options[15]

    def granian(descriptor: int) -> RSGIWorker:
        holder = SocketHolder(descriptor, *more)  # type: ignore[call-arg]
        of_this = (number, (None, holder), pipe, *runtime, *protocol, *tls, metrics)
        return RSGIWorker(*of_this)

    servers = _Servers(application.__rsgi__, listening, granian)
    loop.run_until_complete(servers.run(ending))
    application.__rsgi_del__(loop)


class _Servers:
    """The server that accepts connections, and those before it that still have some."""

    def __init__(
        self, application: Application, listening: int, granian: Callable[[int], Any]
    ) -> None:
        self._application, self._listening, self._granian = application, listening, granian
        self._running: list[_Server] = []

    async def run(self, ending: asyncio.Event) -> None:
        """Serve until the event, and return when all connections have ended."""
        loop = asyncio.get_running_loop()
        self._begin()
        loop.add_signal_handler(RENEW, self._renew)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {RENEW})
        await ending.wait()
        loop.remove_signal_handler(RENEW)
        os.close(self._listening)
        for server in self._running:
            server.stop()
        for server in self._running:
            await server.ended.wait()

    def _begin(self) -> None:
        self._running.append(_Server(self._application, os.dup(self._listening), self._granian))

    def _renew(self) -> None:
        self._running = [server for server in self._running if not server.ended.is_set()]
        before = self._running[-1]
        self._begin()
        before.retire()


class _Server:
    """A server of Granian's, which has taken `descriptor`, a listening socket, as its own."""

    def __init__(
        self, application: Application, descriptor: int, granian: Callable[[int], Any]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._application, self._descriptor = application, descriptor
        self._is_retired = self._is_stopping = False
        self._stopping = WorkerSignal()
        self.ended = asyncio.Event()
        self._stopping.add_cb(partial(self._loop.call_soon_threadsafe, self.ended.set))
        answer = _future_watcher_wrapper(self._answer)  # type: ignore[no-untyped-call]
        scheduler = _new_cbscheduler(self._loop, answer, impl_asyncio=True)  # type: ignore[no-untyped-call]
        granian(descriptor).serve_str(scheduler, self._loop, self._stopping)

    def retire(self) -> None:
        """Accept no more connections, and end when those that there are have ended."""
        _deafen(self._descriptor)
        self._is_retired = True
        self._loop.call_later(_RETIRED_SECONDS, self.stop)

    def stop(self) -> None:
        """Let requests end, and then all connections."""
        if not self._is_stopping:
            self._is_stopping = True
            self._stopping.set()

    def _answer(self, scope: Any, proto: Any) -> Awaitable[None]:
        return self._application(scope, _Closing(proto) if self._is_retired else proto)


class _Closing:
    """The protocol of a request after whose answer the client shall close the connection."""

    __slots__ = ("_proto",)

    def __init__(self, proto: Any) -> None:
        self._proto = proto

    def __call__(self) -> Any:
        return self._proto()

    def __aiter__(self) -> Any:
        return self._proto.__aiter__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._proto, name)

    def response_str(self, status: int, headers: list[tuple[str, str]], body: str) -> None:
        self._proto.response_str(status, [*headers, _CLOSE], body)

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._proto.response_bytes(status, [*headers, _CLOSE], body)


def _deafen(descriptor: int) -> None:
    """Put a socket in the place of a listening one to which nobody can connect.

    Closing it, or shutting it down, would be an error to whoever accepts on it, again and again.
    """
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as nobody:
        nobody.setblocking(False)  # noqa: FBT003 - the socket module's.
        nobody.bind(str(Path(folder) / "s"))
        nobody.listen()
        os.dup2(nobody.fileno(), descriptor, inheritable=False)

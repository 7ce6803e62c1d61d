"""The door of a worker: who answers which path, and the bounds of all connections together.

Requests of SQS and questions after the node's health and metrics never leave the loop; what Flask
serves (web.py) runs in a thread, and Flask is imported when somebody asks for a page.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import msgspec

from skipmq import errors, protocol
from skipmq.model import new_uuid
from skipmq.protocol import Request, Response
from skipmq.server.answer import Broker, is_page, redirect, refusal
from skipmq.server.connection import Connection
from skipmq.server.http import Arriving, Head, Headers, Route
from skipmq.telemetry import exposition
from skipmq.telemetry.metrics import Published

if TYPE_CHECKING:
    from skipmq.server.web import Mount, Pages

TICK = 0.25
# How many connections that are late are ended at once, and the pause before others are: thousands
# that came together are late together.
ENDED_AT_ONCE, BETWEEN_ENDS = 20, 0.01
BACKLOG = 4096
HANDSHAKE_SECONDS = 30
# Source: RFC 6797. A browser keeps it for a name whatever the port: of localhost it would lock out
# all other programs that listen there.
_HSTS = "strict-transport-security: max-age=31536000\r\n"
_LOCALHOST = re.compile(r"(.*\.)?localhost(:[0-9]*)?", re.IGNORECASE)
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_JSON = [("content-type", "application/json")]
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


class Door:
    """What listens for a broker; made on its loop."""

    def __init__(
        self,
        broker: Broker,
        collect: Callable[[], Sequence[Published]],
        most: int,
        mount: "Mount | None" = None,
    ) -> None:
        """Make the door of a broker.

        `collect` returns the metrics of all processes of the node, `most` is how many connections
        of clients there may be, `mount` adds pages to those of Flask.
        """
        self.loop = asyncio.get_running_loop()
        self.arriving = Arriving()
        self.is_tls = bool(broker.node.settings.tls_certificate)
        self.date = ""
        self._broker, self._collect, self._most, self._mount = broker, collect, most, mount
        self._scheme = "https" if self.is_tls else "http"
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._sockets: list[socket.socket] = []
        self._threads = ThreadPoolExecutor(4, "pages")
        self._pages: asyncio.Future[Pages] | None = None
        self._probes: dict[str, Answer] = {
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/metrics": self._metrics,
        }
        self._ticking = self.loop.call_soon(self._tick, self.loop.time())

    async def listen(self, listening: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Take connections of a socket, which stays the caller's; over TLS in a context."""
        self._sockets.append(listening)
        self._servers.append(await self._serve(listening, self._route, context))

    async def listen_for_probes(self, listening: socket.socket) -> None:
        """Take connections of a socket for health and metrics alone, in plain HTTP."""
        self._sockets.append(listening)
        self._servers.append(await self._serve(listening, self._route_of_probe, None))

    async def renew(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        """Have connections to come shake hands in another context; those that there are stay."""
        before = self._servers[0]
        self._servers[0] = await self._serve(listening, self._route, context)
        before.close()

    async def _serve(
        self,
        listening: socket.socket,
        route: Callable[[Connection, Head], Route],
        context: ssl.SSLContext | None,
    ) -> asyncio.Server:
        return await self.loop.create_server(
            partial(Connection, self, route),
            sock=listening.dup(),
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if context else None,
        )

    def drain(self) -> None:
        """Listen no more, and end each connection after the requests of it that are whole."""
        for server in self._servers:
            server.close()
        for listening in self._sockets:
            # Other processes have it open too: without this it would go on taking clients.
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RD)
        for connection in [*self._connections]:
            connection.drain()

    async def close(self, seconds: float) -> None:
        """Wait until all answers are written, for so long at most, and end the threads."""
        until = self.loop.time() + seconds
        while any(each.is_busy for each in self._connections):
            if self.loop.time() > until:
                break
            await asyncio.sleep(BETWEEN_ENDS)
        self._ticking.cancel()
        self._threads.shutdown(wait=False)

    # What connections ask.

    def add(self, connection: Connection) -> bool:
        """Count a connection; return whether there is room for it."""
        self._connections.add(connection)
        return len(self._connections) <= self._most

    def remove(self, connection: Connection) -> None:
        """Count a connection no more."""
        self._connections.discard(connection)

    def own_headers(self, request: Request) -> str:
        """Return the lines that every answer has."""
        if self.is_tls and not _LOCALHOST.fullmatch(request.headers.get("host") or "localhost"):
            return self.date + _HSTS
        return self.date

    # Who answers what.

    def _route(self, connection: Connection, head: Head) -> Route:
        """Return what answers a request, of which the head has been read."""
        method, _, version, headers = head
        request, path = self._request(connection, head)
        hosts = len(headers.all("host"))
        if is_page(path):
            answer = self._page_at(path, connection, version)
            return Route(request, answer, refusal("GET", version, hosts))
        refused = refusal(method, version, hosts)
        if self._mount is not None and path == "/":
            leads = redirect(method, path, request.query, headers.get("accept"))
            if leads is not None:
                return Route(request, partial(_always, leads), refused)
        return Route(request, self._broker.answer, refused)

    def _route_of_probe(self, connection: Connection, head: Head) -> Route:
        """Return what answers a request on the port of the probes."""
        request, path = self._request(connection, head)
        refused = refusal("GET", head.version, len(head.headers.all("host")))
        return Route(request, self._probes.get(path, _unknown), refused)

    def _page_at(self, path: str, connection: Connection, version: str) -> Answer:
        if path.startswith("/console"):
            return partial(self._page, connection, version)
        if path == "/metrics" and not self._broker.node.settings.shows_metrics:
            return _unknown
        return self._probes.get(path, _unknown)

    def _request(self, connection: Connection, head: Head) -> tuple[Request, str]:
        """Return the request without its body, and its path as the client spelled it."""
        headers, broker = head.headers, self._broker
        path, query, host = _target(head.target, headers)
        origin = broker.origin(
            connection.peer, self._scheme, host, lambda name: ",".join(headers.all(name))
        )
        request = Request(
            head.method,
            unquote(path) if "%" in path else path,
            headers,
            query,
            b"",
            broker.base_url(origin.scheme, origin.host),
            new_uuid(),
            origin.client,
            connection.watch_client,
        )
        return request, path

    async def _live(self, request: Request) -> Response:
        return self._foreign(request) or Response(200, _JSON, b'{"status":"live"}')

    async def _ready(self, request: Request) -> Response:
        if (refused := self._foreign(request)) is not None:
            return refused
        status, found = await self._broker.health()
        return Response(status, _JSON, msgspec.json.encode(found))

    async def _metrics(self, request: Request) -> Response:
        if (refused := self._foreign(request)) is not None:
            return refused
        if request.method not in ("GET", "HEAD"):
            return protocol.encode_error(request, errors.MethodNotAllowed())
        queues, others = await self._broker.statistics()
        accept = request.headers.get("accept") or ""
        body, content_type = await self.loop.run_in_executor(
            self._threads, exposition.text, accept, self._collect(), queues, others
        )
        return Response(200, [("content-type", content_type)], body)

    async def _page(self, connection: Connection, version: str, request: Request) -> Response:
        """Return what Flask answers."""
        if self._pages is None:
            self._pages = self.loop.run_in_executor(self._threads, self._flask)
        pages = await self._pages
        of_wire = (connection.peer, self._scheme, connection.server, version)
        return await self.loop.run_in_executor(self._threads, pages, request, *of_wire)

    def _flask(self) -> "Pages":
        from skipmq.server import web  # noqa: PLC0415 - most nodes are never asked for a page.

        return web.bridge(web.create_app(self._broker, self.loop, self._mount))

    def _foreign(self, request: Request) -> Response | None:
        """Return the refusal of a request that a page of another site made; None of any other."""
        try:
            self._broker.check_browser(request)
        except errors.AccessDenied as error:
            return protocol.encode_error(request, error)
        return None

    def _tick(self, due: float) -> None:
        """End what is late, and show how late the loop itself runs what is due."""
        now = self.loop.time()
        lag = max(0.0, now - due)
        if lag > TICK:  # What came while the process stood still has not been looked at.
            for connection in self._connections:
                connection.until += lag
        self._broker.node.observer.show("loop lag", lag)
        self.date = f"date: {formatdate(usegmt=True)}\r\n"
        late = [connection for connection in self._connections if connection.until < now]
        due = now + (BETWEEN_ENDS if len(late) > ENDED_AT_ONCE else TICK)
        self._ticking = self.loop.call_at(due, self._tick, due)
        for connection in late[:ENDED_AT_ONCE]:
            connection.expire(now)


def _target(url: bytes, headers: Headers) -> tuple[str, str, str | None]:
    """Return path, query and host of a request; a target may have them all.

    Source: RFC 9112, section 3.2.2.
    """
    host = headers.get("host")
    if (absolute := _ABSOLUTE.match(url)) is not None:
        url, host = url[absolute.end() :] or b"/", absolute[1].decode("latin-1")
        headers["host"] = host
    path, _, query = url.decode("latin-1").partition("?")
    return path, query, host


async def _unknown(request: Request) -> Response:
    return protocol.encode_error(request, errors.UnknownOperationException())


async def _always(response: Response, _: Request) -> Response:
    return response

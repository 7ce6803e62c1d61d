"""The door of a worker: its listening sockets, its connections, and the routes of requests.

SQS requests, health and metrics are answered on the loop; pages by Flask (web.py) in a thread, and
Flask is imported at the first request for a page.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import msgspec

from skipmq.protocol import codec, errors, limits
from skipmq.protocol.call import Request, Response
from skipmq.protocol.message import new_uuid
from skipmq.server import exposition
from skipmq.server.admission import Admission
from skipmq.server.answer import METHODS, Broker, is_page, redirect, refusal
from skipmq.server.http.connection import ClientConnection
from skipmq.server.http.head import Head
from skipmq.server.http.listener import PortListener
from skipmq.server.http.parser import Refused
from skipmq.server.http.reader import PendingBodies, Route
from skipmq.telemetry.metrics import Published

if TYPE_CHECKING:
    from skipmq.server.web import Mount, Pages

TICK = 0.25
# The expired connections to end in one tick, and the seconds until the next tick if there are more:
# thousands that opened together expire together.
ENDED_AT_ONCE, BETWEEN_ENDS = 20, 0.01
# The connections to the port of health and metrics.
PROBES = 32
# The requests for pages, and for metrics, at once: beyond them there is a 503.
PAGES, METRICS = 64, 8
# Source: RFC 6797. It holds for all ports of a name, and is not sent for localhost, where it would
# lock out other programs.
_HSTS = "strict-transport-security: max-age=31536000\r\n"
_LOCALHOST = re.compile(r"(.*\.)?localhost(:[0-9]*)?", re.IGNORECASE)
# The longest target that is cached.
_CACHED_BYTES = 256
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_LIVE = "/health/live"
_JSON = [("content-type", "application/json")]
Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


class Door:
    """The HTTP server of a broker; created on its loop."""

    def __init__(
        self,
        broker: Broker,
        collect: Callable[[], Sequence[Published]],
        max_connections: int,
        mount: "Mount | None" = None,
    ) -> None:
        """Create the door of a broker.

        `collect` returns the metrics of all processes of the node; `mount` adds pages to Flask's.
        """
        self.loop = asyncio.get_running_loop()
        self.bodies, self.budget = PendingBodies(), broker.node.budget
        self.is_tls = bool(broker.node.settings.tls_certificate)
        self.date = ""
        self._broker, self._collect, self._mount = broker, collect, mount
        self._max_connections = max_connections
        self._scheme = "https" if self.is_tls else "http"
        self._listeners: list[PortListener] = []
        self._sockets: list[socket.socket] = []
        self._threads, self._metrics_thread = ThreadPoolExecutor(4, "pages"), ThreadPoolExecutor(1)
        observer = broker.node.observer
        self._page_places, self._metrics_places = (
            Admission(PAGES, observer),
            Admission(METRICS, observer),
        )
        self._pages: asyncio.Future[Pages] | None = None
        self._probes: dict[str, Answer] = {
            _LIVE: self._live,
            "/health/ready": self._ready,
            "/metrics": self._metrics,
        }
        self._ticking = self.loop.call_soon(self._tick, self.loop.time())

    async def listen(self, listening: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept connections of a socket, which stays the caller's; over TLS with a context."""
        await self._listen(listening, self._max_connections, self._route, context)

    async def listen_for_probes(self, listening: socket.socket) -> None:
        """Accept connections of a socket for health and metrics only, in plain HTTP."""
        await self._listen(listening, PROBES, self._route_probe, None)

    def renew(self, context: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; open ones stay."""
        self._listeners[0].renew(context)

    async def _listen(
        self,
        listening: socket.socket,
        limit: int,
        route: Callable[[ClientConnection, Head], Route],
        context: ssl.SSLContext | None,
    ) -> None:
        listener = PortListener(self, listening, limit, route, self._route_spare)
        await listener.open(context)
        self._listeners.append(listener)
        self._sockets.append(listening)

    def drain(self) -> None:
        """Stop listening, and end each connection once its complete requests are answered."""
        for listener in self._listeners:
            listener.drain()
        for listening in self._sockets:
            # Other processes have the socket open too, so that close alone does not stop it.
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RD)

    async def close(self, seconds: float) -> None:
        """Wait up to `seconds` until all answers are written, and end the threads."""
        until = self.loop.time() + seconds
        while any(each.is_busy for each in self._connections()):
            if self.loop.time() > until:
                break
            await asyncio.sleep(BETWEEN_ENDS)
        self._ticking.cancel()
        self._threads.shutdown(wait=False)
        self._metrics_thread.shutdown(wait=False)

    @property
    def connections(self) -> int:
        """Return the number of open client connections."""
        return sum(each.count for each in self._listeners)

    def _connections(self) -> Iterator[ClientConnection]:
        return chain.from_iterable(each.connections for each in self._listeners)

    # Called by connections.

    def common_headers(self, request: Request) -> str:
        """Return the header lines of every answer."""
        if self.is_tls and not _LOCALHOST.fullmatch(request.headers.get("host") or "localhost"):
            return self.date + _HSTS
        return self.date

    def _route(self, connection: ClientConnection, head: Head) -> Route:
        request, target = self._request(connection, head)
        method, version = head.method, head.version
        if target.is_page:
            answer, refused = self._page_at(target.sent_path, connection, version), _refusal(head)
            return Route(request, answer, refused, self._limit(request))
        refused, headers = None, head.headers
        if method not in METHODS or headers.repeated or "host" not in headers:
            refused = refusal(method, version, headers.count("host"))
        if self._mount is not None and method == "GET":
            accept = headers.get("accept")
            redirection = redirect(method, target.sent_path, target.query, accept)
            if redirection is not None:
                return Route(request, partial(_always, redirection), refused)
        return Route(request, self._broker.answer, refused)

    def _route_probe(self, connection: ClientConnection, head: Head) -> Route:
        """Return the route of a request on the port of health and metrics."""
        request, target = self._request(connection, head)
        answer = self._probes.get(target.sent_path, _unknown)
        return Route(request, answer, _refusal(head), limits.FORM_BYTES)

    def _route_spare(self, connection: ClientConnection, head: Head) -> Route:
        """Return the route of a request on a connection beyond the limit; raise Refused."""
        request, target = self._request(connection, head)
        if target.sent_path != _LIVE:
            raise Refused(503)
        return Route(request, self._live, _refusal(head))

    def _limit(self, request: Request) -> int:
        """Return the length that the form of a page may have; probes and metrics have none."""
        headers = request.headers
        length = int(headers.get("content-length") or "0")
        is_short = length <= limits.FORM_BYTES and headers.get("transfer-encoding") is None
        if is_short or self._mount is None or not self._mount.has_session(self._broker, request):
            return limits.FORM_BYTES
        return limits.REQUEST_BYTES

    def _page_at(self, path: str, connection: ClientConnection, version: str) -> Answer:
        if path.startswith("/console"):
            return partial(self._page, connection, version)
        if path == "/metrics" and not self._broker.node.settings.shows_metrics:
            return _unknown
        return self._probes.get(path, _unknown)

    def _request(self, connection: ClientConnection, head: Head) -> tuple[Request, "Target"]:
        """Return the request, and its target; the body may be still to come."""
        url, headers = head.target, head.headers
        # Those that are not signed, and thus short, are cached.
        target = (_cached_target if len(url) <= _CACHED_BYTES else _target)(url)
        if target.host is not None:
            headers["host"] = target.host
        origin = self._broker.origin(connection.peer, self._scheme, headers)
        request = Request(
            head.method,
            target.path,
            headers,
            target.query,
            head.body,
            origin.base_url,
            new_uuid(),
            origin.client,
            connection.watch_client,
            origin.refusal,
        )
        return request, target

    async def _live(self, request: Request) -> Response:
        return self._check_browser(request) or Response(200, _JSON, b'{"status":"live"}')

    async def _ready(self, request: Request) -> Response:
        if (refused := self._check_browser(request)) is not None:
            return refused
        status, found = await self._broker.health()
        return Response(status, _JSON, msgspec.json.encode(found))

    async def _metrics(self, request: Request) -> Response:
        if (refused := self._check_browser(request)) is not None:
            return refused
        if request.method not in ("GET", "HEAD"):
            return codec.encode_error(request, errors.MethodNotAllowed())
        accept = request.headers.get("accept") or ""
        try:
            with self._metrics_places:
                queues, others = await self._broker.statistics()
                body, content_type = await self.loop.run_in_executor(
                    self._metrics_thread, exposition.text, accept, self._collect(), queues, others
                )
        except errors.Overloaded as error:
            return codec.encode_error(request, error)
        return Response(200, [("content-type", content_type)], body)

    async def _page(self, connection: ClientConnection, version: str, request: Request) -> Response:
        """Return the answer of Flask, or that too many requests wait for a thread."""
        environment = (connection.peer, self._scheme, connection.server, version)
        try:
            with self._page_places:
                if self._pages is None:
                    self._pages = self.loop.run_in_executor(self._threads, self._flask)
                pages = await self._pages
                return await self.loop.run_in_executor(self._threads, pages, request, *environment)
        except errors.Overloaded as error:
            return codec.encode_error(request, error)

    def _flask(self) -> "Pages":
        from skipmq.server import web  # noqa: PLC0415 - most nodes serve no pages.

        return web.wsgi_adapter(web.create_app(self._broker, self.loop, self._mount))

    def _check_browser(self, request: Request) -> Response | None:
        """Return the refusal of a request from a page of another site, or None."""
        try:
            self._broker.check_browser(request)
        except errors.AccessDenied as error:
            return codec.encode_error(request, error)
        return None

    def _tick(self, due: float) -> None:
        """End expired connections, and export the lag of the loop."""
        now = self.loop.time()
        lag = max(0.0, now - due)
        if lag > TICK:  # Data that arrived during a pause of the process is still unread.
            for connection in self._connections():
                connection.expires_at += lag
        self._broker.node.observer.show("loop lag", lag)
        self.date = f"date: {formatdate(usegmt=True)}\r\n"
        expired = [connection for connection in self._connections() if connection.expires_at < now]
        due = now + (BETWEEN_ENDS if len(expired) > ENDED_AT_ONCE else TICK)
        self._ticking = self.loop.call_at(due, self._tick, due)
        for connection in expired[:ENDED_AT_ONCE]:
            connection.expire(now)


class Target(msgspec.Struct, frozen=True, gc=False):
    """The target of a request: its path, before percent-decoding and after, and its query.

    `host` is that of an absolute target, which replaces the Host header (RFC 9112, section 3.2.2).
    """

    sent_path: str
    path: str
    query: str
    host: str | None
    is_page: bool


def _target(url: bytes) -> Target:
    host = None
    if (absolute := _ABSOLUTE.match(url)) is not None:
        url, host = url[absolute.end() :] or b"/", absolute[1].decode("latin-1")
    path, _, query = url.decode("latin-1").partition("?")
    return Target(path, unquote(path) if "%" in path else path, query, host, is_page(path))


def _refusal(head: Head) -> errors.SqsError | None:
    """Return the error of a request for a page, health or metrics by its head, or None."""
    return refusal("GET", head.version, head.headers.count("host"))


_cached_target = lru_cache(maxsize=1024)(_target)


async def _unknown(request: Request) -> Response:
    return codec.encode_error(request, errors.UnknownOperationException())


async def _always(response: Response, _: Request) -> Response:
    return response

"""The door to HTTP: Granian's RSGI, straight on the event loop of a worker.

What Flask serves (web.py) runs in a thread of its own; requests of SQS and questions after the
node's health never leave the loop. Source: RSGI specification 1.6 in Granian's documentation.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from granian.rsgi import ProtocolClosed  # type: ignore[attr-defined]

from skipmq import errors, ids, limits, protocol
from skipmq.exposition import Exposition
from skipmq.protocol import Request, Response
from skipmq.server import web
from skipmq.server.answer import BODY_BROKEN_OFF, BODY_TOO_LONG, NODE_STOPS, Broker, refusal

# A body that arrives more slowly than this, in bytes a second, or not within BODY_SECONDS, is given
# up; a short one gets BODY_LEAST_SECONDS.
BODY_RATE, BODY_SECONDS, BODY_LEAST_SECONDS = 32_768, 30.0, 10.0
# Bodies larger than a small one together, while they arrive: whoever exceeds it gets 503.
SMALL_BODY, BODIES_BYTES = 65_536, 256 * 1_048_576
# How much of a body that is too long is read, so that its sender listens to the answer.
DISCARDED_BYTES = 64 * 1_048_576
TICK = 0.25
# How many late bodies are ended at once, and the pause before others are: thousands that came
# together are late together.
ENDED_AT_ONCE, BETWEEN_ENDS = 20, 0.01
# What Flask serves under such a path is the console.
_QUEUE_PATH = re.compile("/(?!console/)[^/]+/[^/]+/?")
_JSON = [("content-type", "application/json")]


class Door:
    """The RSGI application of a worker; made on its loop."""

    def __init__(
        self, broker: Broker, metrics: Exposition | None, mount: web.Mount | None = None
    ) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._metrics, self._mount = metrics, mount
        # Tasks that receive a body, with the time of the loop until which they may.
        self._receiving: dict[asyncio.Task[Any], float] = {}
        self._large_bytes = 0
        self._is_draining = False
        self._pages: Callable[[Any, bytes], Response] | None = None
        self._threads = ThreadPoolExecutor(2, "pages")
        self._tick(self._loop.time())

    async def __call__(self, scope: Any, proto: Any) -> None:
        """Answer one request."""
        path = scope.path
        if path == "/health/live":
            proto.response_str(200, _JSON, '{"status":"live"}')
            return
        if path == "/health/ready":
            status, found = await self._broker.health()
            proto.response_bytes(status, _JSON, msgspec.json.encode(found))
            return
        is_sqs = path == "/" or _QUEUE_PATH.fullmatch(path)
        response = await (self._answer if is_sqs else self._page)(scope, proto)
        proto.response_bytes(response.status, response.headers, response.body)

    async def _answer(self, scope: Any, proto: Any) -> Response:
        hosts = scope.headers.get_all("host")
        request = self._request(scope, proto, hosts[0] if hosts else None)
        refused = refusal(scope.method, scope.http_version, len(hosts))
        try:
            request.body = await self._body(scope.headers, proto)
        except errors.SqsError as error:
            return protocol.encode_error(request, refused or error)
        if refused is not None:
            return protocol.encode_error(request, refused)
        return await self._broker.answer(request)

    def _request(self, scope: Any, proto: Any, host: str | None) -> Request:
        """Return the request without its body."""
        peer = scope.client.rpartition(":")[0].strip("[]")

        def sent(name: str) -> str:
            return ",".join(scope.headers.get_all(name))

        origin = self._broker.origin(peer, scope.scheme, host, sent)
        return Request(
            scope.method,
            scope.path,
            scope.headers,
            scope.query_string,
            b"",
            self._broker.base_url(origin.scheme, origin.host),
            ids.new(),
            origin.client,
            lambda left: _watch_client(proto, left),
        )

    async def _body(self, headers: Any, proto: Any) -> bytes:
        """Return the body of a request.

        Raises errors.InvalidParameterValueException when it is longer than any valid one,
        errors.SerializationException when it is incomplete, errors.Overloaded when too much of
        other bodies is on its way, errors.RequestTimeout when it takes too long,
        errors.ServiceUnavailable when the node stops before it is there.
        """
        length = headers.get("content-length")
        # Of a request that has both, the server has dropped the length (RFC 9112, section 6.3).
        chunked = headers.get("transfer-encoding") is not None
        if length is None and not chunked:
            return b""
        size = limits.REQUEST_BYTES if chunked else _number(length)
        # Of one that is too long no more is kept.
        large = min(size, limits.REQUEST_BYTES) if size > SMALL_BODY else 0
        if self._large_bytes + large > BODIES_BYTES:
            raise errors.Overloaded
        self._large_bytes += large
        seconds = min(BODY_SECONDS, BODY_LEAST_SECONDS + size / BODY_RATE)
        task = asyncio.current_task()
        assert task is not None
        self._receiving[task] = self._loop.time() + seconds
        try:
            if chunked or size > limits.REQUEST_BYTES:
                return await _pieces(proto, None if chunked else size)
            body: bytes = await proto()
        except ProtocolClosed:
            raise errors.SerializationException(BODY_BROKEN_OFF) from None
        except asyncio.CancelledError:
            task.uncancel()
            if self._is_draining:
                raise errors.ServiceUnavailable(NODE_STOPS) from None
            raise errors.RequestTimeout from None
        finally:
            del self._receiving[task]
            self._large_bytes -= large
        if len(body) != size:
            raise errors.SerializationException(BODY_BROKEN_OFF)
        return body

    async def _page(self, scope: Any, proto: Any) -> Response:
        """Return what Flask answers."""
        body = b""
        try:
            body = await self._body(scope.headers, proto)
        except errors.SqsError as error:
            if scope.path.startswith(web.PAGES):  # The others need none.
                return protocol.encode_error(self._request(scope, proto, None), error)
        if self._pages is None:
            app = web.create_app(self._broker, self._loop, self._metrics, self._mount)
            self._pages = web.bridge(app)
        return await self._loop.run_in_executor(self._threads, self._pages, scope, body)

    def drain(self) -> None:
        """End all bodies that are on their way: their senders shall try another node."""
        self._is_draining = True
        for task in [*self._receiving]:
            task.cancel()

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)

    def _tick(self, due: float) -> None:
        """End bodies that are late, and show how late the loop itself runs what is due."""
        now = self._loop.time()
        lag = max(0.0, now - due)
        if lag > TICK:  # What came while the process stood still has not been looked at.
            self._receiving = {task: until + lag for task, until in self._receiving.items()}
        self._broker.node.observer.show("loop lag", lag)
        late = [task for task, until in self._receiving.items() if until < now]
        for task in late[:ENDED_AT_ONCE]:
            task.cancel()
        due = now + (BETWEEN_ENDS if len(late) > ENDED_AT_ONCE else TICK)
        self._loop.call_at(due, self._tick, due)


async def _pieces(proto: Any, size: int | None) -> bytes:
    """Return a chunked body, or read to the end one that is too long."""
    pieces, received = [], 0
    ends = 0
    async for piece in proto:
        if not piece:
            # The last chunk is empty; a body that is broken off, or has trailers, shows two.
            ends += 1
            continue
        received += len(piece)
        if received <= limits.REQUEST_BYTES:
            pieces.append(piece)
        elif received > DISCARDED_BYTES:
            break
    if received > limits.REQUEST_BYTES or size is not None:
        raise errors.InvalidParameterValueException(BODY_TOO_LONG)
    if ends != 1:
        raise errors.SerializationException(BODY_BROKEN_OFF)
    return b"".join(pieces)


def _watch_client(proto: Any, left: Callable[[], None]) -> Callable[[], None]:
    gone = proto.client_disconnect()
    gone.add_done_callback(lambda _: left())

    return gone.cancel  # type: ignore[no-any-return]


def _number(length: str) -> int:
    if not (length.isascii() and length.isdecimal()):
        raise errors.SerializationException("The Content-Length is not a number.")
    return int(length)

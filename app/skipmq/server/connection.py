"""A connection of a client on the event loop.

It answers its requests in order, one at a time, and bounds how long it waits: for a head, for a
body, for the client to read an answer. Source: RFC 9112, section 9.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from http import HTTPStatus
from math import inf
from typing import Protocol

import structlog

from skipmq import errors
from skipmq.protocol import Request, Response, encode_error
from skipmq.server.answer import NODE_STOPS
from skipmq.server.http import Arriving, Head, Reader, Route, Whole

log = structlog.get_logger()

# Seconds for a head from its first byte on; without a request; for a client to close a connection
# that the node has closed.
HEAD_SECONDS, IDLE_SECONDS, LINGER_SECONDS = 30.0, 75.0, 2.0
# A body that arrives more slowly than this, in bytes a second, or not within BODY_SECONDS, is given
# up; a short one gets BODY_LEAST_SECONDS.
BODY_RATE, BODY_SECONDS, BODY_LEAST_SECONDS = 32_768, 30.0, 10.0
# A client that does not read so much of an answer in so many seconds, or its end, is cut off.
ANSWER_BYTES, ANSWER_SECONDS = 262_144, 20.0
# What is read behind a request that is being answered.
AHEAD_BYTES = 65_536
# In what pieces an answer is given to TLS.
PIECE_BYTES = 65_536
_BODILESS = (204, 304)
# What an answer says, by its version of HTTP, where the connection goes on.
_KEPT = {"1.0": "connection: keep-alive\r\n"}


class ConnectionDropped(Exception):  # noqa: N818 - nothing is wrong.
    """A request is not answered, and its connection ends at once: a fault that a test injects."""


class Door(Protocol):
    """What a connection is of."""

    loop: asyncio.AbstractEventLoop
    arriving: Arriving
    is_tls: bool
    # The line of an answer that says what time it is.
    date: str

    def add(self, connection: "Connection") -> bool:
        """Count a connection; return whether there is room for it."""

    def remove(self, connection: "Connection") -> None:
        """Count a connection no more."""

    def own_headers(self, request: Request) -> str:
        """Return the lines that every answer has."""


class Connection(asyncio.Protocol):
    """A connection; `until` is how long it may be as it is, as a time of the loop."""

    __slots__ = (
        "_ahead", "_can_write", "_door", "_ends", "_is_ending", "_is_half_closed", "_left",
        "_queue", "_reader", "_task", "_transport", "_unread", "peer", "server", "until",
    )  # fmt: skip

    _transport: asyncio.Transport

    def __init__(self, door: Door, route: "Callable[[Connection, Head], Route]") -> None:
        self._door = door
        self._reader = Reader(partial(route, self), door.arriving)
        # What answers requests now, and those that wait for it; what came behind them.
        self._task: asyncio.Task[None] | None = None
        self._queue: list[Whole] = []
        self._ahead = b""
        # Called when the client closes its side.
        self._left: list[Callable[[], None]] = []
        self._is_ending = self._is_half_closed = self._ends = False
        # Pending while the client does not read.
        self._can_write: asyncio.Future[None] | None = None
        self._unread = 0
        self.until = inf

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read."""
        self._transport = transport  # type: ignore[assignment]
        self.peer: str = (transport.get_extra_info("peername") or ("",))[0]
        self.server: tuple[str, int] = (transport.get_extra_info("sockname") or ("", 0))[:2]
        if self._door.add(self):
            self._expect()
        else:
            self._end_with(Response(503, [("retry-after", "1")], b""))

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests."""
        if self._is_ending:
            return
        if self._task is None:
            self._feed(data)
            return
        self._ahead += data
        if len(self._ahead) > AHEAD_BYTES:
            # From here on nobody would see the client go: no receive of it waits.
            self._call_left()
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Answer what is whole, though the client sends no more; but it waits for no message."""
        self._is_half_closed = True
        if self._is_ending:
            return False
        if self._left:
            self._call_left()
            return False
        if self._task is None and self._reader.state == "body":
            self._answer(self._reader.broken())
        return self._task is not None and not self._door.is_tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; what is being done for it goes on."""
        del exc
        self._is_ending = self._is_half_closed = True
        self._door.remove(self)
        self._call_left()
        self.resume_writing()
        # What refers to one another, with TLS's large buffers, is not left to the collector.
        self._reader.close()
        del self._transport

    def pause_writing(self) -> None:
        """Have the next request wait until the client has read."""
        self._can_write = self._can_write or self._door.loop.create_future()
        self._unread = self._transport.get_write_buffer_size()
        self.until = self._door.loop.time() + ANSWER_SECONDS

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        waiting, self._can_write = self._can_write, None
        is_answering = self._task is not None and not self._is_ending
        self.until = inf if is_answering else self._door.loop.time() + ANSWER_SECONDS
        if waiting is not None:
            waiting.set_result(None)

    # What the door calls.

    def watch_client(self, left: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when the client closes its side; return what ends the watch."""
        if self._is_half_closed:
            return self._door.loop.call_soon(left).cancel
        self._left.append(left)

        def end() -> None:
            if left in self._left:
                self._left.remove(left)

        return end

    def expire(self, now: float) -> None:
        """End what has taken too long, or go on where the client reads an answer."""
        unread = self._transport.get_write_buffer_size()
        if self._is_ending or self._can_write is not None:
            if unread and unread <= max(0, self._unread - ANSWER_BYTES):
                self._unread, self.until = unread, now + ANSWER_SECONDS
            else:
                self._transport.abort()
        elif self._reader.state == "body":
            self._answer(self._reader.broken(errors.RequestTimeout()))
        elif self._reader.state == "head":
            self._end_with(Response(408, [], b""))
        else:
            self._end()

    def drain(self) -> None:
        """Take no request after those that are whole; the senders of others try another node."""
        self._ends = True
        if self._task is not None or self._is_ending:
            return
        if self._reader.state == "body":
            self._answer(self._reader.broken(errors.ServiceUnavailable(NODE_STOPS)))
        else:
            self._end()

    @property
    def is_busy(self) -> bool:
        """Report whether a request is being answered, or its answer is not written yet."""
        return self._task is not None or self._transport.get_write_buffer_size() > 0

    # The rest.

    def _feed(self, data: bytes) -> None:
        before = self._reader.state
        for whole in self._reader.feed(data):
            self._answer(whole)
        if self._task is None and (self._reader.state != before or self.until == inf):
            self._expect()

    def _expect(self) -> None:
        """Bound what comes next, by what has come."""
        seconds = {"idle": IDLE_SECONDS, "head": HEAD_SECONDS}.get(self._reader.state)
        if seconds is None:
            size = self._reader.body_bytes
            seconds = min(BODY_SECONDS, BODY_LEAST_SECONDS + size / BODY_RATE)
            if self._reader.waits_to_be_asked:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self._is_ending:
            self.until = self._door.loop.time() + seconds

    def _answer(self, whole: Whole) -> None:
        if self._task is not None:
            self._queue.append(whole)
        elif whole.route is None or whole.response is not None:
            assert whole.response is not None
            self._end_with(whole.response)
        else:
            self.until = inf
            self._task = self._door.loop.create_task(self._answer_all(whole, *whole.route))

    async def _answer_all(
        self,
        whole: Whole,
        request: Request,
        answer: Callable[[Request], Awaitable[Response]],
        refused: errors.SqsError | None,
    ) -> None:
        """Answer a request; then what has come behind it."""
        try:
            response = encode_error(request, refused) if refused else await answer(request)
        except ConnectionDropped:
            self._transport.abort()
            return
        except Exception:
            log.exception("request failed", request_id=request.request_id)
            response = encode_error(request, errors.InternalFailure())
        if self._is_ending:
            return
        is_last = self._ends or (self._is_half_closed and not self._ahead)
        keeps = whole.keep_alive and (bool(self._queue) or not is_last)
        if not await self._write(self._in_bytes(response, request, whole.version, keeps=keeps)):
            return
        if not keeps:
            self._end(lingers=self._ends or bool(self._ahead))
            return
        self._task = None
        self._go_on()

    async def _write(self, data: bytes) -> bool:
        """Write an answer, and wait where the client does not read; return whether it is there.

        TLS takes all that it is given, and says of what it has not sent yet only when there is
        more: it is given an answer piece by piece.
        """
        size = PIECE_BYTES if self._door.is_tls else len(data)
        for start in range(0, len(data), size):
            self._transport.write(data[start : start + size])
            if self._can_write is not None:
                await self._can_write
            if self._is_ending:
                return False
        return True

    def _go_on(self) -> None:
        """Take what has come behind a request that is answered."""
        if self._queue:
            self._answer(self._queue.pop(0))
            return
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            self._transport.resume_reading()
            self._feed(ahead)
        else:
            self._expect()
        if self._task is not None or self._is_ending or not self._is_half_closed:
            return
        if self._reader.state == "body":
            self._answer(self._reader.broken())
        else:
            self._end()

    def _in_bytes(
        self, response: Response, request: Request, version: str, *, keeps: bool
    ) -> bytes:
        """Return an answer as it is written."""
        status, body = response.status, response.body
        lines = "".join([f"{name}: {value}\r\n" for name, value in response.headers])
        length = "" if status in _BODILESS else f"content-length: {len(body)}\r\n"
        keeping = _KEPT.get(version, "") if keeps else "connection: close\r\n"
        start = _status_line(status) + self._door.own_headers(request)
        head = f"{start}{lines}{length}{keeping}\r\n".encode("latin-1")
        return head if request.method == "HEAD" else head + body

    def _end_with(self, response: Response) -> None:
        """Answer what is no whole request, and end the connection."""
        lines = [_status_line(response.status), self._door.date]
        lines += [f"{name}: {value}\r\n" for name, value in response.headers]
        lines.append(f"content-length: {len(response.body)}\r\nconnection: close\r\n\r\n")
        self._transport.write("".join(lines).encode("latin-1") + response.body)
        self._end(lingers=True)

    def _end(self, *, lingers: bool = False) -> None:
        """Close the connection when its answers are written.

        Where more may be on its way it is read on for a moment: closing at once would take from the
        client an answer that it has not read yet. Source: RFC 9112, section 9.6.
        """
        transport = self._transport
        if self._is_ending:
            return
        self._is_ending = True
        self._task = None
        self._unread = transport.get_write_buffer_size()
        seconds = ANSWER_SECONDS if self._unread or self._door.is_tls else LINGER_SECONDS
        self.until = self._door.loop.time() + seconds
        if lingers and not self._is_half_closed and transport.can_write_eof():
            transport.resume_reading()
            transport.write_eof()
        else:
            transport.close()

    def _call_left(self) -> None:
        left, self._left = self._left, []
        for each in left:
            each()


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"

"""A client connection on the event loop.

It answers its requests in order, one at a time, with timeouts for a request's head and body and for
the client to read an answer. Source: RFC 9112, section 9.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Protocol

from skipmq.broker.messages.budget import LARGE_BYTES, Budget
from skipmq.protocol import errors
from skipmq.protocol.call import Request, Response
from skipmq.protocol.codec import encode_error
from skipmq.server.answer import NODE_STOPS, ConnectionDropped
from skipmq.server.http.head import Head, encoded
from skipmq.server.http.reader import PendingBodies, Reader, Received, Route
from skipmq.telemetry.logs import log

# Timeouts in seconds: of a head, between requests, and until the client closes its side too.
HEAD_SECONDS, IDLE_SECONDS, LINGER_SECONDS = 30.0, 75.0, 2.0
# A body's timeout follows from its length at this rate in bytes a second, within two bounds.
BODY_RATE, BODY_SECONDS, BODY_MINIMUM_SECONDS = 32_768, 30.0, 10.0
# A client has to read this many bytes of an answer, or its rest, in this many seconds.
ANSWER_BYTES, ANSWER_SECONDS = 262_144, 20.0
# Bytes of further requests that are read while one is being answered.
PIPELINED_BYTES = 65_536
# The pieces in which an answer is passed to TLS.
PIECE_BYTES = 65_536


class ConnectionOwner(Protocol):
    """The server that a connection belongs to."""

    loop: asyncio.AbstractEventLoop
    bodies: PendingBodies
    budget: Budget
    is_tls: bool
    # The Date header line.
    date: str

    def common_headers(self, request: Request) -> str:
        """Return the header lines of every answer."""


class Port(Protocol):
    """The listening socket that has accepted a connection."""

    def add(self, connection: "ClientConnection") -> "Callable[[ClientConnection, Head], Route]":
        """Add an established connection; return the function that finds its routes."""

    def is_spare(self, connection: "ClientConnection") -> bool:
        """Return whether a connection is beyond the limit."""

    def remove(self, connection: "ClientConnection") -> None:
        """Remove a connection."""


class ClientConnection(asyncio.Protocol):
    """A connection; its current state times out at `expires_at`, a time of the loop."""

    __slots__ = (
        "_can_write", "_door", "_is_draining", "_is_ending", "_is_half_closed", "_on_disconnect",
        "_pipelined", "_port", "_queue", "_reader", "_task", "_transport", "_unread", "expires_at",
        "peer", "server",
    )  # fmt: skip

    _transport: asyncio.Transport
    _reader: Reader

    def __init__(self, door: ConnectionOwner, port: Port) -> None:
        self._door, self._port = door, port
        # The task that answers or parses next, requests that wait for it, and unparsed bytes.
        self._task: asyncio.Task[None] | asyncio.Handle | None = None
        self._queue: deque[Received] = deque()
        self._pipelined = bytearray()
        # Called when the client closes its side.
        self._on_disconnect: list[Callable[[], None]] = []
        self._is_ending = self._is_half_closed = self._is_draining = False
        # Pending while the client does not read.
        self._can_write: asyncio.Future[None] | None = None
        self._unread = 0
        self.expires_at = inf

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to read; beyond the limit for one request, in a short time."""
        self._transport = transport  # type: ignore[assignment]
        self.peer: str = (transport.get_extra_info("peername") or ("",))[0]
        self.server: tuple[str, int] = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self._reader = Reader(partial(self._port.add(self), self), self._door.bodies, self.peer)
        self._is_draining = self._port.is_spare(self)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests, or keep them while a request is being answered."""
        if self._is_ending:
            return
        if self._task is not None:
            self._keep(data)
        elif (plain := self._reader.read_plain(data)) is not None:
            self._answer(plain)
        else:
            self._feed(data)

    def eof_received(self) -> bool:
        """End waiting receives, and answer the requests that the client has sent completely."""
        self._is_half_closed = True
        if self._is_ending:
            return False
        if self._on_disconnect:
            self._notify_disconnect()
            return False
        if self._task is None and self._reader.state == "body":
            self._answer(self._reader.refuse_body())
        return self._task is not None and not self._door.is_tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection; its running action continues."""
        del exc
        self._is_ending = self._is_half_closed = True
        self._port.remove(self)
        self._notify_disconnect()
        self.resume_writing()
        self._discard_pipelined()
        while self._queue:
            self._release(self._queue.popleft())
        # Break reference cycles: TLS buffers are too large to wait for the garbage collector.
        self._reader.close()
        del self._transport

    def pause_writing(self) -> None:
        """Make the next request wait until the client has read."""
        self._can_write = self._can_write or self._door.loop.create_future()
        self._unread = self._transport.get_write_buffer_size()
        self.expires_at = self._door.loop.time() + ANSWER_SECONDS

    def resume_writing(self) -> None:
        """Resume writing, since the client has read."""
        waiting, self._can_write = self._can_write, None
        is_answering = self._task is not None and not self._is_ending
        self.expires_at = inf if is_answering else self._door.loop.time() + ANSWER_SECONDS
        if waiting is not None:
            waiting.set_result(None)

    # Called by the door.

    def watch_client(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the client closes its side; return a function that cancels this."""
        if self._is_half_closed:
            return self._door.loop.call_soon(callback).cancel
        self._on_disconnect.append(callback)

        def unwatch() -> None:
            if callback in self._on_disconnect:
                self._on_disconnect.remove(callback)

        return unwatch

    def expire(self, now: float) -> None:
        """Handle a timeout of the current state, unless the client is reading an answer."""
        unread = self._transport.get_write_buffer_size()
        if self._is_ending or self._can_write is not None:
            if unread and unread <= max(0, self._unread - ANSWER_BYTES):
                self._unread, self.expires_at = unread, now + ANSWER_SECONDS
            else:
                self._transport.abort()
        elif self._reader.state == "body":
            self._answer(self._reader.refuse_body(errors.RequestTimeout()))
        elif self._reader.state == "head":
            self._end_with(Response(408, [], b""))
        else:
            self._end()

    def drain(self) -> None:
        """Answer complete requests, refuse others, and close the connection."""
        self._is_draining = True
        if self._task is not None or self._is_ending:
            return
        if self._reader.state == "body":
            self._answer(self._reader.refuse_body(errors.ServiceUnavailable(NODE_STOPS)))
        else:
            self._end()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being answered, or its answer being written."""
        return self._task is not None or self._transport.get_write_buffer_size() > 0

    def _feed(self, data: bytes) -> None:
        """Parse what one turn of the loop may take, and keep the rest."""
        size = self._reader.turn(data)
        self._parse(data[:size], data[size:])

    def _parse(self, data: bytes, rest: bytes = b"") -> None:
        before = self._reader.state
        for received in self._reader.feed(data):
            self._answer(received)
        if rest and not self._is_ending:
            self._keep(rest)
        if self._task is not None or self._is_ending:
            return
        if self._reader.state != before or self.expires_at == inf:
            self._await_request()
        if self._pipelined:
            self._task = self._door.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Parse more of what was kept, since it has no complete request so far."""
        self._task = None
        if self._is_draining and not self._queue:
            self.drain()
        elif not self._is_ending:
            self._next()

    def _keep(self, data: bytes) -> None:
        """Keep bytes of further requests; without room for them, end after the ones before."""
        self._pipelined += data
        try:
            self._door.bodies.add(self.peer, len(data))
        except errors.Overloaded:
            self._discard_pipelined()
            self._is_draining = True
            if self._task is None:
                self._end_with(Response(503, [("retry-after", "1")], b""))
                return
        if len(self._pipelined) > PIPELINED_BYTES or self._is_draining:
            # A disconnect cannot be noticed while reading is paused: end waiting receives.
            self._notify_disconnect()
            self._transport.pause_reading()

    def _discard_pipelined(self) -> None:
        if self._pipelined:
            self._door.bodies.remove(self.peer, len(self._pipelined))
            self._pipelined.clear()

    def _release(self, received: Received) -> None:
        """Subtract an answered request from the pending ones."""
        if received.counted:
            assert received.route is not None
            self._door.bodies.remove(received.route.request.client, received.counted)

    def _await_request(self) -> None:
        """Set the timeout of the reader's state, and send 100 Continue if the client expects it."""
        state = self._reader.state
        if state == "idle" and not self._is_draining:
            seconds = IDLE_SECONDS
        elif state == "body":
            size = self._reader.body_bytes
            seconds = min(BODY_SECONDS, BODY_MINIMUM_SECONDS + size / BODY_RATE)
            if self._reader.expects_continue:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            seconds = LINGER_SECONDS if self._is_draining else HEAD_SECONDS
        if not self._is_ending:
            self.expires_at = self._door.loop.time() + seconds

    def _answer(self, received: Received) -> None:
        if self._task is not None:
            self._queue.append(received)
        elif received.response is not None:
            self._end_with(received.response)
        else:
            self.expires_at = inf
            self._task = self._door.loop.create_task(self._answer_route(received))

    async def _answer_route(self, received: Received) -> None:
        """Answer a request, then the next one."""
        route = received.route
        assert route is not None
        request = route.request
        try:
            if route.refused is None:
                response = await route.answer(request)
            else:
                response = encode_error(request, route.refused)
        except ConnectionDropped:
            if not self._is_ending:
                self._transport.abort()
            return
        except Exception:
            log.exception("request failed", request_id=request.request_id)
            response = encode_error(request, errors.InternalFailure())
        finally:
            if received.counted:
                self._release(received)
        if self._is_ending:
            return
        is_last = self._is_draining or (self._is_half_closed and not self._pipelined)
        keeps = received.keep_alive and (not is_last or bool(self._queue))
        common = self._door.common_headers(request)
        head = encoded(response, common, received.version if keeps else "")
        body = b"" if request.method == "HEAD" else response.body
        if len(body) >= LARGE_BYTES:
            if not await self._write_large(head, body):
                return
        else:
            self._transport.write(head + body)
            if self._can_write is not None and not await self._drained():
                return
        self._proceed(keeps=keeps)

    def _proceed(self, *, keeps: bool) -> None:
        """Answer the next request or wait for it, or end, after an answer that is written."""
        if not keeps:
            self._end(lingers=self._is_draining or bool(self._pipelined))
            return
        self._task = None
        if self._queue or self._pipelined or self._is_half_closed:
            self._next()
        else:
            self._await_request()

    async def _drained(self) -> bool:
        """Wait while the client does not read; return whether the connection is open."""
        if self._can_write is not None:
            await self._can_write
        return not self._is_ending

    async def _write_large(self, head: bytes, body: bytes) -> bool:
        """Write a large answer; return False if the connection has ended.

        It counts as memory until most of it is read. TLS buffers all that it is given and pauses
        the writer only at the next write, so that it gets pieces.
        """
        held = self._door.budget.hold(len(body))
        size = PIECE_BYTES if self._door.is_tls else ANSWER_BYTES
        try:
            self._transport.write(head)
            for start in range(0, len(body), size):
                if not await self._drained():
                    return False
                self._transport.write(body[start : start + size])
            return await self._drained()
        finally:
            if held is not None:
                held.release()

    def _next(self) -> None:
        """Answer the next request, or parse the bytes that have arrived meanwhile."""
        if self._queue:
            self._answer(self._queue.popleft())
            return
        if self._pipelined:
            size = self._reader.turn(self._pipelined)
            data = bytes(self._pipelined[:size])
            del self._pipelined[:size]
            self._door.bodies.remove(self.peer, size)
            if len(self._pipelined) <= PIPELINED_BYTES:
                self._transport.resume_reading()
            self._parse(data)
        else:
            self._await_request()
        if self._task is not None or self._is_ending or not self._is_half_closed:
            return
        if self._reader.state == "body":
            self._answer(self._reader.refuse_body())
        else:
            self._end()

    def _end_with(self, response: Response) -> None:
        """Answer an invalid or incomplete request, and end the connection."""
        self._transport.write(encoded(response, self._door.date) + response.body)
        self._end(lingers=True)

    def _end(self, *, lingers: bool = False) -> None:
        """Close the connection once its answers are written.

        With `lingers` read on for a moment: if the client is still sending, a close at once resets
        the connection before the client has read the answer. Source: RFC 9112, section 9.6.
        """
        transport = self._transport
        if self._is_ending:
            return
        self._is_ending = True
        self._task = None
        self._unread = transport.get_write_buffer_size()
        seconds = ANSWER_SECONDS if self._unread or self._door.is_tls else LINGER_SECONDS
        self.expires_at = self._door.loop.time() + seconds
        if lingers and not self._is_half_closed and transport.can_write_eof():
            transport.resume_reading()
            transport.write_eof()
        else:
            transport.close()

    def _notify_disconnect(self) -> None:
        callbacks, self._on_disconnect = self._on_disconnect, []
        for callback in callbacks:
            callback()

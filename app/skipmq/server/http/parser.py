"""Parse HTTP/1.1 without I/O: the bytes of a connection become requests or refusals.

llhttp (httptools) parses in its strict mode. Requests that it accepts and that another server could
parse differently are refused here. Source: RFC 9112, sections 2 to 7.

Nearly all requests are plain (head.py), and are read without llhttp.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache

import msgspec
from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from msgspec import structs

from skipmq.protocol import errors, limits
from skipmq.protocol.call import Request, Response
from skipmq.protocol.codec import encode_error
from skipmq.server.answer import BODY_INCOMPLETE, BODY_TOO_LONG
from skipmq.server.http.head import HEADERS, Head, ParsedHeaders, plain

# The limit in bytes of the target, and of all headers or trailers; and the bytes that each header
# counts in addition to its own.
HEAD_BYTES, HEADER_BYTES = 65_536, 32
# More bytes than any valid head has, for headers without an end and empty chunks.
FED_BYTES = 3 * HEAD_BYTES
# The memory that a piece of a body takes in addition to its bytes.
PIECE_BYTES = 64
# The bytes of an overlong body that are read and discarded, until which its client does not read
# the answer.
DISCARDED_BYTES = 64 * 1_048_576
# Bodies and incomplete heads up to this size are not counted.
SMALL_BYTES = 8_192
# The memory for all others until they are answered, and for bytes that are not parsed yet: of all
# clients, and of one address.
BODIES_BYTES, CLIENT_BYTES = 256 * 1_048_576, 128 * 1_048_576
# The bytes of heads and chunks that are parsed in one turn of the loop, and the requests that may
# wait behind the one that is being answered; the rest of the bytes wait as they are.
TURN_BYTES, AHEAD = 16_384, 16
_HEAD_END = b"\r\n\r\n"
# Names of headers up to this length are cached in lower case.
_CACHED_BYTES = 64
_VERSIONS = ("1.1", "1.0")


class Route(msgspec.Struct, frozen=True):
    """A request with the function that answers it, or `refused` with the error instead.

    `limit` is the length of its body in bytes.
    """

    request: Request
    answer: Callable[[Request], Awaitable[Response]]
    refused: errors.SqsError | None = None
    limit: int = limits.REQUEST_BYTES

    @property
    def too_long(self) -> errors.SqsError:
        """Return the error of a body beyond the limit."""
        if self.limit < limits.REQUEST_BYTES:
            return errors.FormTooLong()
        return errors.InvalidParameterValueException(BODY_TOO_LONG)


class Received(msgspec.Struct, frozen=True):
    """A complete request, or the response with which the connection ends.

    `counted` is the size of its body among the pending ones, which the connection subtracts.
    """

    route: Route | None
    response: Response | None
    keep_alive: bool = False
    version: str = "1.1"
    counted: int = 0


class PendingBodies:
    """The bytes of requests in a worker's memory that wait, in total and by client address.

    They are bodies until they are answered, incomplete heads, and what is not parsed yet.
    """

    def __init__(self) -> None:
        self.total = 0
        self._by_client: dict[str, int] = {}

    def add(self, client: str, size: int) -> None:
        """Add bytes of a client; raise errors.Overloaded beyond CLIENT_BYTES or BODIES_BYTES."""
        client_total = self._by_client.get(client, 0) + size
        self.total += size
        self._by_client[client] = client_total
        if client_total > CLIENT_BYTES or self.total > BODIES_BYTES:
            raise errors.Overloaded

    def remove(self, client: str, size: int) -> None:
        """Subtract bytes of a client."""
        self.total -= size
        left = self._by_client.pop(client, 0) - size
        if left:
            self._by_client[client] = left


class Refused(Exception):  # noqa: N818 - the end of a request, as Route.refused.
    """A malformed, unsupported or excess request, whose answer is only a status."""

    def __init__(self, status: int) -> None:
        self.status = status


class Reader:
    """The parser of a connection; `state` is `idle`, `head`, `body`, or `ended` after a refusal."""

    __slots__ = (
        "_bodies", "_complete", "_counted", "_fed", "_fed_counted", "_find_route", "_head_bytes",
        "_headers", "_is_repeated", "_parser", "_peer", "_pieces", "_received", "_route", "_size",
        "_target", "state",
    )  # fmt: skip

    def __init__(
        self, find_route: Callable[[Head], Route], bodies: PendingBodies, peer: str = ""
    ) -> None:
        self._find_route, self._bodies = find_route, bodies
        # The client's address until a route is found.
        self._peer = peer
        self._parser = HttpRequestParser(self)
        self._complete: list[Received] = []
        self._begin()

    def _begin(self) -> None:
        self.state = "idle"
        self._target = b""
        self._headers = ParsedHeaders()
        # Bytes of headers or trailers, and of all data since the last piece of a body.
        self._head_bytes = self._fed = self._fed_counted = 0
        self._route: Route | None = None
        self._pieces: list[bytes] = []
        # -1: chunked.
        self._size = self._received = self._counted = 0
        self._is_repeated = False

    def read_plain(self, data: bytes) -> Received | None:
        """Return the request in these bytes if it is a plain one; others are for `feed`."""
        # Bodies of this size are not counted, and all routes take them.
        if self.state != "idle" or (found := plain(data, SMALL_BYTES)) is None:
            return None
        try:
            return Received(self._find_route(found), None, keep_alive=True)
        except Refused as refusal:
            return self._refused(refusal.status)

    def turn(self, data: bytes | bytearray) -> int:
        """Return how many of these bytes to parse in one turn of the loop.

        They complete AHEAD requests and one at most, since a head ends in an empty line. The rest
        of a body of known length is taken as a whole.
        """
        begin = max(0, self._size - self._received) if self.state == "body" else 0
        end = min(len(data), begin + TURN_BYTES)
        # A head has two lines at least: few lines are no more requests than may wait.
        if begin >= end or data.count(b"\n", begin, end) <= 2 * AHEAD:
            return end
        for _ in range(AHEAD):
            found = data.find(_HEAD_END, begin, end)
            if found < 0:
                return end
            begin = found + len(_HEAD_END)
        return begin

    def feed(self, data: bytes) -> list[Received]:
        """Parse bytes; return the requests that they complete, the last perhaps a refusal."""
        self._fed += len(data)
        try:
            self._parse(data)
        except HttpParserInvalidMethodError:
            self._refuse(501)
        except HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, errors.SqsError):
                self._complete.append(self.refuse_body(cause))
            else:
                self._refuse(cause.status if isinstance(cause, Refused) else 400)
        else:
            if self.state == "idle":
                self._fed = 0
            elif self._fed > FED_BYTES:
                self._refuse(431)
            elif self._fed - self._fed_counted > SMALL_BYTES:
                self._count_fed()
        complete, self._complete = self._complete, []
        return complete

    def _parse(self, data: bytes) -> None:
        """Parse bytes; raise HttpParserError."""
        while True:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def refuse_body(self, error: errors.SqsError | None = None) -> Received:
        """Return the refusal of a request with an incomplete body, and end."""
        assert self._route is not None
        request, refused = self._route.request, self._route.refused
        reason = refused or error or errors.SerializationException(BODY_INCOMPLETE)
        self.release()
        self.state = "ended"
        return Received(self._route, encode_error(request, reason))

    def close(self) -> None:
        """Discard an incomplete request; the reader must not be used any more."""
        self.release()
        del self._parser, self._find_route

    def release(self) -> None:
        """Subtract the request from the pending ones."""
        if self._counted:
            self._bodies.remove(self._client, self._counted)
            self._counted = 0

    @property
    def _client(self) -> str:
        return self._peer if self._route is None else self._route.request.client

    def _count_fed(self) -> None:
        """Add a head, a trailer or the like of which more is awaited to the pending bytes."""
        size, self._fed_counted = self._fed - self._fed_counted, self._fed
        self._counted += size
        try:
            self._bodies.add(self._client, size)
        except errors.Overloaded:
            self._refuse(503)

    @property
    def body_bytes(self) -> int:
        """Return the length of the body that is being read, or its maximum if chunked."""
        return self._size if self._size >= 0 else limits.REQUEST_BYTES

    @property
    def expects_continue(self) -> bool:
        """Return whether the client waits for 100 Continue before it sends the body."""
        expects = self._headers.get("expect", "").lower() == "100-continue"
        has_begun = self.state != "body" or self._received or not self._size
        return expects and not has_begun and self._parser.get_http_version() == "1.1"

    def _head_without_upgrade(self) -> bytes:
        """Replace the parser, and return a head with which it parses the body.

        The parser skips the body of a request with an Upgrade header, which is ignored here.
        """
        before, self._parser = self._parser, HttpRequestParser(self)
        self._is_repeated = True
        self._fed = self._fed_counted = 0
        body = "Transfer-Encoding: chunked" if self._size < 0 else f"Content-Length: {self._size}"
        ends = "keep-alive" if before.should_keep_alive() else "close"
        start = f"POST / HTTP/{before.get_http_version()}"
        return f"{start}\r\n{body}\r\nConnection: {ends}\r\n\r\n".encode()

    def _refuse(self, status: int) -> None:
        self._complete.append(self._refused(status))

    def _refused(self, status: int) -> Received:
        """End, and return a refusal."""
        self.release()
        self.state = "ended"
        headers = [("retry-after", "1")] if status == 503 else []  # noqa: PLR2004 - HTTP's.
        return Received(None, Response(status, headers, b""))

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Start a head."""
        if not self._is_repeated:
            self.state = "head"

    def on_url(self, target: bytes) -> None:
        """Append a piece of the request target."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, or ignore a trailer."""
        self._head_bytes += len(name) + len(value) + HEADER_BYTES
        if self._head_bytes > HEAD_BYTES:
            raise Refused(431)
        if self.state != "head":
            return
        text = value.decode("latin-1").rstrip(" \t")
        key = _lower(name) if len(name) <= _CACHED_BYTES else name.decode("ascii").lower()
        headers = self._headers
        if key in headers:
            if not headers.repeated:
                headers.repeated = []
            headers.repeated.append((key, text))
        else:
            headers[key] = text

    def on_headers_complete(self) -> None:
        """Check the head and find the route."""
        if self._is_repeated:
            self._is_repeated = False
            return
        version, headers = self._parser.get_http_version(), self._headers
        if version not in _VERSIONS:
            raise Refused(505)
        if len(self._target) > HEAD_BYTES:
            raise Refused(414)
        if len(headers) + len(headers.repeated) > HEADERS:
            raise Refused(431)
        encoding = headers.get("transfer-encoding")
        if encoding is not None and (version == "1.0" or encoding.lower() != "chunked"):
            raise Refused(501)
        self._size = -1 if encoding is not None else int(headers.get("content-length", "0"))
        method = self._parser.get_method().decode("ascii")
        counted = self._counted
        self.release()
        self._route = self._find_route(Head(method, self._target, version, headers))
        self.state, self._head_bytes = "body", 0
        if counted:
            self._counted = counted
            self._bodies.add(self._client, counted)

    def on_body(self, data: bytes) -> None:
        """Append a piece of the body; discard those of an overlong one."""
        assert self._route is not None
        self._fed = self._fed_counted = 0
        self._received += len(data)
        is_too_long = max(self._received, self._size) > self._route.limit
        if is_too_long or self._route.refused is not None:
            self._pieces.clear()
            self.release()
            if self._received > DISCARDED_BYTES:
                raise self._route.too_long
            return
        if not 0 <= self._size <= SMALL_BYTES:
            size = len(data) + PIECE_BYTES
            self._counted += size
            self._bodies.add(self._route.request.client, size)
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        """Complete the request."""
        if self._parser.should_upgrade():
            return
        route, pieces = self._route, self._pieces
        assert route is not None
        if max(self._received, self._size) > route.limit:
            route = structs.replace(route, refused=route.refused or route.too_long)
        elif pieces:
            route.request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        parser, counted = self._parser, self._counted
        self._complete.append(
            Received(route, None, parser.should_keep_alive(), parser.get_http_version(), counted)
        )
        self._counted = 0
        self._begin()


@lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("ascii").lower()

"""HTTP/1.1 without I/O: bytes of a connection become requests, whole or refused.

llhttp (httptools) parses, with none of its leniencies; what it lets pass, and HTTP/1.1 does not
define well enough for two readers to agree on, is refused here. Source: RFC 9112, sections 2 to 7.
"""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import NamedTuple

from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from skipmq import errors, limits
from skipmq.protocol import Request, Response, encode_error
from skipmq.server.answer import BODY_BROKEN_OFF, BODY_TOO_LONG

# Of the request target, of all headers together, and of trailers, each counted with so much more.
HEAD_BYTES, HEADERS, HEADER_BYTES = 65_536, 128, 32
# More than any head has that is within these: what the parser keeps of a header without an end, or
# reads of chunks that bring nothing.
FED_BYTES = 3 * HEAD_BYTES
# What a piece of a body takes beside its bytes.
PIECE_BYTES = 64
# How much of a body that is too long is read, so that its sender listens to the answer.
DISCARDED_BYTES = 64 * 1_048_576
SMALL_BODY = 65_536
# What may have arrived of unfinished bodies larger than a small one: of all clients, and of one
# address. What is only announced takes no memory, and does not count.
BODIES_BYTES, CLIENT_BYTES = 256 * 1_048_576, 128 * 1_048_576
# Names of headers no longer than this are kept in lower case.
_CACHED_BYTES = 64
_VERSIONS = ("1.1", "1.0")


class Headers(dict[str, str]):
    """The headers of a request by name in lower case: the first of each name."""

    __slots__ = ("repeated",)

    def __init__(self) -> None:
        # Those whose name had come before.
        self.repeated: list[tuple[str, str]] = []

    def all(self, name: str) -> list[str]:
        """Return every value of a name, in the order in which they were sent."""
        first = self.get(name)
        if first is None:
            return []
        return [first, *(value for each, value in self.repeated if each == name)]

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Return all headers; those of one name in the order in which they were sent."""
        return [*super().items(), *self.repeated]


class Head(NamedTuple):
    """What comes before a body."""

    method: str
    target: bytes
    version: str
    headers: Headers


class Route(NamedTuple):
    """A request with what answers it; `refused` is an error that is the answer instead."""

    request: Request
    answer: Callable[[Request], Awaitable[Response]]
    refused: errors.SqsError | None = None


class Whole(NamedTuple):
    """A request that is whole, or the response with which its connection ends."""

    route: Route | None
    response: Response | None
    keep_alive: bool = False
    version: str = "1.1"


class Arriving:
    """How many bytes of unfinished bodies a worker holds, in all and by the client's address."""

    def __init__(self) -> None:
        self._total = 0
        self._by_client: dict[str, int] = {}

    def count(self, client: str, size: int) -> None:
        """Count bytes; raise errors.Overloaded when the client, or all together, have too many."""
        of_client = self._by_client.get(client, 0) + size
        self._total += size
        self._by_client[client] = of_client
        if of_client > CLIENT_BYTES or self._total > BODIES_BYTES:
            raise errors.Overloaded

    def forget(self, client: str, size: int) -> None:
        """Count bytes of a client no more."""
        self._total -= size
        left = self._by_client.pop(client, 0) - size
        if left:
            self._by_client[client] = left


class _RefusedError(Exception):
    """Bytes that cannot be read as a request; a status alone answers them."""

    def __init__(self, status: int) -> None:
        self.status = status


class Reader:
    """The requests of a connection; `state` is `idle`, `head`, `body`, or `ended` when refused."""

    __slots__ = (
        "_arriving", "_counted", "_fed", "_head_bytes", "_headers", "_is_repeated", "_parser",
        "_pieces", "_received", "_route", "_route_of", "_size", "_target", "_whole", "state",
    )  # fmt: skip

    def __init__(self, route: Callable[[Head], Route], arriving: Arriving) -> None:
        self._route_of, self._arriving = route, arriving
        self._parser = HttpRequestParser(self)
        self._whole: list[Whole] = []
        self._begin()

    def _begin(self) -> None:
        self.state = "idle"
        self._target = b""
        self._headers = Headers()
        # Bytes of headers, or trailers; and of all that came since the last piece of a body.
        self._head_bytes = self._fed = 0
        self._route: Route | None = None
        self._pieces: list[bytes] = []
        # -1: chunked.
        self._size = self._received = self._counted = 0
        self._is_repeated = False

    def feed(self, data: bytes) -> list[Whole]:
        """Return the requests that these bytes complete; the last may be a refusal."""
        self._fed += len(data)
        try:
            self._parse(data)
        except HttpParserInvalidMethodError:
            self._refuse(501)
        except HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, errors.SqsError):
                self._whole.append(self.broken(cause))
            else:
                self._refuse(cause.status if isinstance(cause, _RefusedError) else 400)
        else:
            if self.state == "idle":
                self._fed = 0
            elif self._fed > FED_BYTES:
                self._refuse(431)
        whole, self._whole = self._whole, []
        return whole

    def _parse(self, data: bytes) -> None:
        """Parse bytes; raise HttpParserError."""
        while True:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                data = self._same_without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def broken(self, error: errors.SqsError | None = None) -> Whole:
        """Return the refusal of the request whose body is not whole, and take no other."""
        assert self._route is not None
        request, _, refused = self._route
        found = refused or error or errors.SerializationException(BODY_BROKEN_OFF)
        self.release()
        self.state = "ended"
        return Whole(self._route, encode_error(request, found))

    def close(self) -> None:
        """Forget what is not whole; to be fed no more."""
        self.release()
        del self._parser, self._route_of

    def release(self) -> None:
        """Count the bytes of the body no more."""
        if self._counted:
            assert self._route is not None
            self._arriving.forget(self._route.request.client, self._counted)
            self._counted = 0

    @property
    def body_bytes(self) -> int:
        """Return how long the body is that is being read, or may be."""
        return self._size if self._size >= 0 else limits.REQUEST_BYTES

    @property
    def waits_to_be_asked(self) -> bool:
        """Report whether the client waits for a 100 (Continue) before it sends the body."""
        expects = self._headers.get("expect", "").lower() == "100-continue"
        is_whole = self.state != "body" or self._received or not self._size
        return expects and not is_whole and self._parser.get_http_version() == "1.1"

    def _same_without_upgrade(self) -> bytes:
        """Return the head of the request once more, for a parser that reads its body after it.

        The one before has left the body out, for another protocol that the client would change to.
        """
        before, self._parser = self._parser, HttpRequestParser(self)
        self._is_repeated = True
        self._fed = 0
        body = "Transfer-Encoding: chunked" if self._size < 0 else f"Content-Length: {self._size}"
        ends = "keep-alive" if before.should_keep_alive() else "close"
        start = f"POST / HTTP/{before.get_http_version()}"
        return f"{start}\r\n{body}\r\nConnection: {ends}\r\n\r\n".encode()

    def _refuse(self, status: int) -> None:
        self.release()
        self.state = "ended"
        self._whole.append(Whole(None, Response(status, [], b"")))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a head."""
        if not self._is_repeated:
            self.state = "head"

    def on_url(self, target: bytes) -> None:
        """Take a piece of the request target."""
        self._target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, which means nothing here."""
        self._head_bytes += len(name) + len(value) + HEADER_BYTES
        if self._head_bytes > HEAD_BYTES:
            raise _RefusedError(431)
        if self.state != "head":
            return
        text = value.decode("latin-1").rstrip(" \t")
        key = _lower(name) if len(name) <= _CACHED_BYTES else name.decode("ascii").lower()
        headers = self._headers
        if key in headers:
            headers.repeated.append((key, text))
        else:
            headers[key] = text

    def on_headers_complete(self) -> None:
        """Find out what the request is for, and how its body comes."""
        if self._is_repeated:
            self._is_repeated = False
            return
        version, headers = self._parser.get_http_version(), self._headers
        if version not in _VERSIONS:
            raise _RefusedError(505)
        if len(self._target) > HEAD_BYTES:
            raise _RefusedError(414)
        if len(headers) + len(headers.repeated) > HEADERS:
            raise _RefusedError(431)
        encoding = headers.get("transfer-encoding")
        if encoding is not None and (version == "1.0" or encoding.lower() != "chunked"):
            raise _RefusedError(501)
        self._size = -1 if encoding is not None else int(headers.get("content-length", "0"))
        method = self._parser.get_method().decode("ascii")
        self._route = self._route_of(Head(method, self._target, version, headers))
        self.state, self._head_bytes = "body", 0

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body; of one that is too long only its length."""
        assert self._route is not None
        self._fed = 0
        self._received += len(data)
        if max(self._received, self._size) > limits.REQUEST_BYTES:
            self._pieces.clear()
            self.release()
            if self._received > DISCARDED_BYTES:
                raise errors.InvalidParameterValueException(BODY_TOO_LONG)
            return
        if not 0 <= self._size <= SMALL_BODY:
            size = len(data) + PIECE_BYTES
            self._counted += size
            self._arriving.count(self._route.request.client, size)
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        """Give the request out."""
        if self._parser.should_upgrade():
            return
        route, pieces = self._route, self._pieces
        assert route is not None
        if max(self._received, self._size) > limits.REQUEST_BYTES:
            error = errors.InvalidParameterValueException(BODY_TOO_LONG)
            route = route._replace(refused=route.refused or error)
        elif pieces:
            route.request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.release()
        parser = self._parser
        whole = Whole(route, None, parser.should_keep_alive(), parser.get_http_version())
        self._whole.append(whole)
        self._begin()


@lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("ascii").lower()

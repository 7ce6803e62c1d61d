"""Parse HTTP/1.1 without I/O: the bytes of a connection become heads and pieces of bodies.

llhttp (httptools) parses in its strict mode. Requests that it accepts and that another server could
parse differently are refused here. Source: RFC 9112, sections 2 to 7.
"""

from functools import lru_cache
from typing import TypeAlias

import msgspec
from httptools import (
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from skipmq.server.http.head import HEADERS, Head, ParsedHeaders

# The limit in bytes of the target, and of all headers or trailers; and the bytes that each header
# counts in addition to its own.
HEAD_BYTES, HEADER_BYTES = 65_536, 32
# More bytes than any valid head has, for headers without an end and empty chunks.
FED_BYTES = 3 * HEAD_BYTES
# Names of headers up to this length are cached in lower case.
_CACHED_BYTES = 64
_VERSIONS = ("1.1", "1.0")


class End(msgspec.Struct, frozen=True):
    """The end of a request, and whether its connection is kept open."""

    keep_alive: bool


class Refused(Exception):  # noqa: N818 - the end of a request, as Route.refused.
    """A malformed, unsupported or excess request, whose answer is only a status."""

    def __init__(self, status: int) -> None:
        self.status = status


# Of a request: its head, the pieces of its body, and its end, or instead why it is refused.
Event: TypeAlias = Head | bytes | End | Refused


class Parser:
    """The parser of a connection; `state` is `idle`, `head` or `body`."""

    __slots__ = (
        "_events", "_head_bytes", "_headers", "_is_repeated", "_parser", "_received", "_size",
        "_target", "fed", "state",
    )  # fmt: skip

    def __init__(self) -> None:
        self._parser = HttpRequestParser(self)
        self._events: list[Event] = []
        self._begin()

    def _begin(self) -> None:
        self.state = "idle"
        self._target = b""
        self._headers = ParsedHeaders()
        # Bytes of headers or trailers, and of all data since the last piece of a body.
        self._head_bytes = self.fed = 0
        # Of the body; -1: chunked.
        self._size = self._received = 0
        self._is_repeated = False

    def feed(self, data: bytes) -> list[Event]:
        """Parse bytes, and return what they are; none may follow a refusal."""
        self.fed += len(data)
        try:
            self._parse(data)
        except HttpParserInvalidMethodError:
            self._events.append(Refused(501))
        except HttpParserError as error:
            cause = error.__context__
            self._events.append(cause if isinstance(cause, Refused) else Refused(400))
        else:
            if self.state == "idle":
                self.fed = 0
            elif self.fed > FED_BYTES:
                self._events.append(Refused(431))
        events, self._events = self._events, []
        return events

    def _parse(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def close(self) -> None:
        """Break the cycle of references; the parser must not be used any more."""
        del self._parser

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
        self.fed = 0
        body = "Transfer-Encoding: chunked" if self._size < 0 else f"Content-Length: {self._size}"
        ends = "keep-alive" if before.should_keep_alive() else "close"
        start = f"POST / HTTP/{before.get_http_version()}"
        return f"{start}\r\n{body}\r\nConnection: {ends}\r\n\r\n".encode()

    # Called by llhttp.

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
        """Check the head."""
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
        self._events.append(Head(method, self._target, version, headers, size=self._size))
        self.state, self._head_bytes = "body", 0

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        self.fed = 0
        self._received += len(data)
        self._events.append(data)

    def on_message_complete(self) -> None:
        """End the request."""
        if self._parser.should_upgrade():
            return
        self._events.append(End(self._parser.should_keep_alive()))
        self._begin()


@lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("ascii").lower()

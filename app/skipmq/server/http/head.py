"""The heads of requests, of which most are plain, and of answers.

Nearly all requests are *plain*: whole and alone in the bytes that have arrived, with a head that
all servers read alike. Most of its lines are those of earlier requests and cached; all others are
read by llhttp, which calls a function for each header. Source: RFC 9112, sections 2 to 6.
"""

import re
from functools import lru_cache
from http import HTTPStatus

import msgspec

from skipmq.protocol.call import Response

# The limit of headers.
HEADERS = 128
# The end of a head, and the longest of a plain request.
_END, _LONGEST = b"\r\n\r\n", 4_096
# The first line, and names and values of headers, of a plain request.
_START = re.compile(rb"(GET|POST) (/[A-Za-z0-9/._~?&=%+,:@-]*) HTTP/1\.1")
_NAME = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(rb"(?:[!-~]+(?: [!-~]+)*)?")
# No plain request has these, which change how it, or what follows it, is read.
_FRAMING = frozenset({"connection", "expect", "proxy-connection", "transfer-encoding", "upgrade"})
_KEEPS = ("connection", "keep-alive")
# The header that keeps a connection open, or not, by the version of HTTP.
_CONNECTION = {"1.1": "", "1.0": "connection: keep-alive\r\n", "": "connection: close\r\n"}
_BODILESS = (204, 304)


class ParsedHeaders(dict[str, str]):
    """The headers of a request by name in lower case, the first value of each name."""

    # Further values of names.
    repeated: list[tuple[str, str]] | tuple[()] = ()

    def all(self, name: str) -> list[str]:
        """Return all values of a name in order."""
        first = self.get(name)
        if first is None:
            return []
        return [first, *(value for each, value in self.repeated if each == name)]

    def count(self, name: str) -> int:
        """Return the number of values of a name."""
        return len(self.all(name)) if self.repeated else int(name in self)

    def joined(self, name: str) -> str:
        """Return all values of a name, separated by commas."""
        return ",".join(self.all(name))

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        """Return all headers; the values of each name are in order."""
        return [*super().items(), *self.repeated]


class PlainHeaders(ParsedHeaders):
    """The headers of a plain request: each name once, and no spaces that a signature leaves out."""

    is_canonical = True


class Head(msgspec.Struct, frozen=True):
    """The head of a request, and the body of one that is plain.

    `size` is the length of a body that follows, -1 if it is chunked.
    """

    method: str
    target: bytes
    version: str
    headers: ParsedHeaders
    body: bytes = b""
    size: int = 0


class _NotPlainError(Exception):
    """A line that no plain request has."""


def plain(data: bytes, longest: int) -> Head | None:
    """Return the head of a plain request with a body up to `longest` bytes, or else None."""
    head, end, body = data.partition(_END)
    if not end or len(head) > _LONGEST or len(body) > longest:
        return None
    start, *lines = head.split(b"\r\n")
    try:
        method, target = _start(start)
        headers = PlainHeaders(map(_header, lines))
    except _NotPlainError:
        return None
    # Each name is there once, and nothing after the body.
    is_length = headers.get("content-length", "0") == str(len(body))
    if not is_length or not len(headers) == len(lines) <= HEADERS:
        return None
    return Head(method, target, "1.1", headers, body)


@lru_cache(maxsize=1024)
def _start(line: bytes) -> tuple[str, bytes]:
    if (found := _START.fullmatch(line)) is None:
        raise _NotPlainError
    return found[1].decode(), found[2]


@lru_cache(maxsize=1024)
def _header(line: bytes) -> tuple[str, str]:
    """Return name and value of a plain request's header; clients repeat most lines."""
    name, colon, value = line.partition(b":")
    value = value.strip(b" ")
    if not colon or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise _NotPlainError
    header = name.decode().lower(), value.decode()
    if header[0] in _FRAMING and (header[0], header[1].lower()) != _KEEPS:
        raise _NotPlainError
    return header


def encoded(response: Response, common: str, version: str = "") -> bytes:
    """Return the head of an answer, with header lines that all have.

    `version` is that of HTTP if the connection is kept open.
    """
    status = response.status
    lines = "\r\n".join([*map(": ".join, response.headers), ""])
    length = "" if status in _BODILESS else f"content-length: {len(response.body)}\r\n"
    head = f"{_status_line(status)}{common}{lines}{length}{_CONNECTION[version]}\r\n"
    return head.encode("latin-1")


@lru_cache(maxsize=64)
def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"

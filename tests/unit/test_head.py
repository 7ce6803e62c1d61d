"""Plain requests: what llhttp does not get is what it would have read alike."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipmq.auth.sigv4 import canonical_headers
from skipmq.protocol import errors
from skipmq.protocol.call import Request, Response
from skipmq.server.http.head import Head
from skipmq.server.http.parser import Refused
from skipmq.server.http.reader import SMALL_BYTES, PendingBodies, Reader, Received, Route

BODY = b'{"QueueUrl":"http://a/1/b"}'
HEADERS = {
    b"Host": b"localhost:9324",
    b"User-Agent": b"Boto3/1.40 md/Botocore#1.40 lang/python#3.11",
    b"X-Amz-Target": b"AmazonSQS.SendMessage",
    b"Content-Type": b"application/x-amz-json-1.0",
    b"Authorization": b"AWS4-HMAC-SHA256 Credential=a/1/b/sqs/aws4_request, Signature=c",
    b"Connection": b"Keep-Alive",
    b"Content-Length": b"%d" % len(BODY),
}


class Read(NamedTuple):
    """A request as it was read, or the status with which its connection ends."""

    method: str = ""
    target: bytes = b""
    version: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    keeps: bool = False
    counted: int = 0
    state: str = "idle"
    status: int = 0


class Reading:
    """A reader, and the last head for which it asked a route."""

    def __init__(self, refused: errors.SqsError | None = None) -> None:
        self.refused = refused
        self.reader = Reader(self._route, PendingBodies())
        self.head: Head | None = None

    def plain(self, data: bytes) -> Read | None:
        """Return what is read of bytes as a plain request, or None."""
        received = self.reader.read_plain(data)
        return None if received is None else self._read(received)

    def llhttp(self, data: bytes) -> Read | None:
        """Return what llhttp reads of bytes, or None if they are not one request."""
        found = self.reader.feed(data)
        return self._read(found[0]) if len(found) == 1 else None

    def _route(self, head: Head) -> Route:
        self.head = head
        if head.target == b"/refused":
            raise Refused(503)
        path = head.target.decode()
        request = Request(
            head.method, path, head.headers, "", head.body, "http://a", "id", "client"
        )
        return Route(request, _nothing, self.refused)

    def _read(self, received: Received) -> Read:
        head, state = self.head, self.reader.state
        if received.response is not None:
            return Read(state=state, status=received.response.status)
        assert head is not None
        assert received.route is not None
        assert received.version == head.version
        return Read(
            head.method,
            head.target,
            head.version,
            tuple(head.headers.items()),
            received.route.request.body,
            received.keep_alive,
            received.counted,
            state,
            received.route.refused.status if received.route.refused is not None else 0,
        )


async def _nothing(_: Request) -> Response:
    return Response(200, [], b"")


def written(
    headers: dict[bytes, bytes], body: bytes = BODY, start: bytes = b"POST / HTTP/1.1"
) -> bytes:
    lines = [start, *(b"%s: %s" % header for header in headers.items())]
    return b"\r\n".join([*lines, b"", body])


REQUEST = written(HEADERS)
STARTS = (
    *(b"POST / HTTP/1.1", b"GET /1/b?Action=c&d=%20 HTTP/1.1", b"POST //a/../b;c HTTP/1.1"),
    *(b"GET http://a/ HTTP/1.1", b"POST /#a HTTP/1.1", b"HEAD / HTTP/1.1", b"POST * HTTP/1.1"),
    *(b"POST / HTTP/1.0", b"GET  / HTTP/1.1", b"GET /a b HTTP/1.1", b"GET /\xc3\xa4 HTTP/1.1"),
)
# Bytes that mean something in a head, and lines that change how a request is read.
TOKENS = st.sampled_from(
    [
        *(bytes([each]) for each in range(256)),
        *(
            b"\r\n",
            b"\r\n\r\n",
            b": ",
            b"  ",
            b"Host: b\r\n",
            b"host : b\r\n",
            b"X\r\n",
            b"0",
            b"1",
        ),
        *(b"Content-Length: 0\r\n", b"Content-Length: 27\r\n", b"content-length: 27\r\n"),
        *(
            b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: identity\r\n",
            b"TE: trailers\r\n",
        ),
        *(b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Proxy-Connection: close\r\n"),
        *(b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", b"Expect: 100-continue\r\n"),
        *(b"Trailer: a\r\n", b"Keep-Alive: timeout=1\r\n", b" folded\r\n", b"\tfolded\r\n", b"\n"),
        *(b"X:\r\n", b"X:  \t\r\n", b"X: a  b \r\n", b":\r\n", b"X-\xe4: b\r\n", b"X: \xe4\r\n"),
    ]
)
LINES = [0, *(at + 2 for at in range(len(REQUEST)) if REQUEST.startswith(b"\r\n", at))]


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """Return a request with one to three places replaced, most of them at the start of a line."""
    data = written(HEADERS, start=draw(st.sampled_from(STARTS)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(LINES) | st.integers(0, len(data)))
        removed = draw(st.sampled_from([0, 0, 1, 2, 30]))
        data = data[:at] + draw(TOKENS | st.just(b"")) + data[at + removed :]
    return data


@given(mutants())
@settings(max_examples=150, deadline=None)
def test_plain_request_is_what_llhttp_reads(data: bytes) -> None:
    plain = Reading().plain(data)

    if plain is not None:
        assert plain == Reading().llhttp(data)
        # As a signature has them.
        assert canonical_headers(plain.headers) == dict(plain.headers)


@pytest.mark.parametrize("size", [0, 1, 27, SMALL_BYTES])
@pytest.mark.parametrize("start", STARTS[:2])
def test_whole_request_is_plain(start: bytes, size: int) -> None:
    data = written({**HEADERS, b"Content-Length": b"%d" % size}, b"x" * size, start)

    found = Reading().plain(data)

    assert found is not None
    assert found.body == b"x" * size
    assert dict(found.headers)["authorization"] == HEADERS[b"Authorization"].decode()
    assert found == Reading().llhttp(data)


@pytest.mark.parametrize(
    "data",
    [
        *(REQUEST[:-1], REQUEST + b"x", REQUEST * 2, b"\r\n" + REQUEST, REQUEST[:40], b""),
        *(written(HEADERS, start=start) for start in STARTS[3:]),
        *(
            written({**HEADERS, name: value})
            for name, value in (
                (b"Connection", b"close"),
                (b"Connection", b"keep-alive, upgrade"),
                (b"Proxy-Connection", b"keep-alive"),
                (b"Transfer-Encoding", b"chunked"),
                (b"Transfer-Encoding", b"identity"),
                (b"Transfer-Encoding ", b"chunked"),
                (b"Upgrade", b"h2c"),
                (b"Expect", b"100-continue"),
                (b"content-length", b"27"),
                (b"Content-Length", b"027"),
                (b"Content-Length", b"+27"),
                (b"Content-Length", b"2_7"),
                (b"Content-Length", b"27, 27"),
                (b"Content-Length", b""),
                (b"host", b"b"),
                (b"X ", b"a"),
                (b" X", b"a"),
                (b"", b"a"),
                (b"X", b"a\tb"),
                (b"X", b"a\nb"),
                (b"X", b"a\rb"),
                (b"X", b"a\r\n b"),
                (b"X", b"a\0b"),
                (b"X", "ä".encode("latin-1")),
                (b"X", b"a" * 4_096),
            )
        ),
        written({**HEADERS, b"Content-Length": b"8193"}, b"x" * (SMALL_BYTES + 1)),
        written({name: HEADERS[name] for name in (b"Host", b"X-Amz-Target")}),
    ],
)
def test_what_may_be_read_otherwise_is_left_to_llhttp(data: bytes) -> None:
    assert Reading().plain(data) is None


def test_request_after_the_head_of_another_is_left_to_llhttp() -> None:
    reading = Reading()
    reading.reader.feed(REQUEST[:40])

    assert reading.plain(REQUEST) is None


@pytest.mark.parametrize("start", [b"POST / HTTP/1.1", b"POST /refused HTTP/1.1"])
def test_refused_plain_request_is_refused_as_by_llhttp(start: bytes) -> None:
    data = written(HEADERS, start=start)

    found = Reading(errors.MethodNotAllowed()).plain(data)

    expected = Reading(errors.MethodNotAllowed()).llhttp(data)
    assert found is not None
    assert expected is not None
    assert found.status == (405 if start[6:7] == b" " else 503)
    # llhttp does not keep the body of a request that is refused.
    assert found._replace(body=b"") == expected

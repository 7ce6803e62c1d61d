"""HTTP/1.1 without I/O: what is a request, and that it does not matter how its bytes come."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from skipmq.protocol import errors, limits
from skipmq.protocol.call import Request, Response
from skipmq.server.http.head import HEADERS, Head
from skipmq.server.http.parser import HEAD_BYTES
from skipmq.server.http.reader import AHEAD, TURN_BYTES, PendingBodies, Reader, Route

HEADER = b"POST /a HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = HEADER + b"Content-Length: 5\r\n\r\nhello"


@dataclass(frozen=True)
class Read:
    """A request that was read, or the status with which its connection ends."""

    method: str = ""
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    status: int = 0
    keeps: bool = False


async def nothing(_: Request) -> Response:
    return Response(200, [], b"")


def route(head: Head) -> Route:
    method, target, headers = head.method, head.target, head.headers
    path, _, query = target.decode("latin-1").partition("?")
    request = Request(method, path, headers, query, head.body, "http://a", "id", "client")
    return Route(request, nothing)


def read(*pieces: bytes) -> list[Read]:
    """Return what a reader makes of bytes; it takes none after a refusal."""
    reader, found = Reader(route, PendingBodies()), []
    for piece in pieces:
        plain = reader.read_plain(piece)
        for whole in reader.feed(piece) if plain is None else [plain]:
            if whole.response is not None:
                found.append(Read(status=whole.response.status))
                return found
            assert whole.route is not None
            request, refused = whole.route.request, whole.route.refused
            headers = tuple(request.headers.items())
            status = 0 if refused is None else refused.status
            read = (request.method, request.path, headers, request.body, status)
            found.append(Read(*read, keeps=whole.keep_alive))
    return found


def turns(data: bytes) -> Iterator[bytes]:
    """Give bytes in the pieces in which a connection has them parsed."""
    reader = Reader(route, PendingBodies())
    while data and reader.state != "ended":
        size = reader.turn(data)
        assert size > 0
        complete = reader.feed(data[:size])
        assert len(complete) <= AHEAD + 2  # A refusal may come last.
        yield data[:size]
        data = data[size:]


def test_request_is_read_with_its_headers_and_body() -> None:
    lines = b"X-A: 1\r\nx-a:  2 \r\nY:\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhello"
    (found,) = read(HEADER + lines)

    headers = [("host", "a"), ("x-a", "1"), ("y", ""), ("content-length", "5")]
    headers += [("x-a", "2"), ("x-a", "1")]
    assert found == Read("POST", "/a", tuple(headers), b"hello", keeps=True)


def test_requests_that_come_together_are_read_in_order() -> None:
    chunked = HEADER + CHUNKED + b"2\r\nhe\r\n3;ext=1\r\nllo\r\n0\r\nX-Trailer: y\r\n\r\n"
    found = read(HELLO + b"\r\n" + chunked + b"GET /b?c HTTP/1.0\r\n\r\n")

    assert [(each.path, each.body, each.keeps) for each in found] == [
        ("/a", b"hello", True), ("/a", b"hello", True), ("/b", b"", False),
    ]  # fmt: skip
    assert "x-trailer" not in dict(found[1].headers)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: 5\r\n" + CHUNKED, 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400),
        (b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400),
        (b"Content-Length: 5, 5\r\n\r\n", 400),
        (b"Content-Length: +5\r\n\r\n", 400),
        (b"Content-Length: 0x5\r\n\r\n", 400),
        (b"Content-Length: -5\r\n\r\n", 400),
        (b"Content-Length:\r\n\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n\r\n", 400),
        (b"Content-Length : 5\r\n\r\n", 400),
        (b"Content-Length\x0b: 5\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n" + CHUNKED, 400),
        (b"Transfer-Encoding: identity\r\n\r\n", 501),
        (b"Transfer-Encoding: identity, chunked\r\n\r\n", 501),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"Transfer-Encoding: chunked, identity\r\n\r\n", 400),
        (b"Transfer-Encoding: xchunked\r\n\r\n", 501),
        (b"Transfer-Encoding: \x0bchunked\r\n\r\n", 400),
        (b"Transfer-Encoding:\r\n chunked\r\n\r\n", 400),
        (b"X: a\r\n b\r\n\r\n", 400),
        (b"X: a\rb\r\n\r\n", 400),
        (b"X: a\nY: b\r\n\r\n", 400),
        (b"X: a\0b\r\n\r\n", 400),
        (b"X\0: a\r\n\r\n", 400),
        (b"X: a\x7f\r\n\r\n", 400),
        (b": a\r\n\r\n", 400),
        (b"X y: a\r\n\r\n", 400),
    ],
)
def test_head_that_two_readers_may_take_for_different_ones_is_refused(
    head: bytes, status: int
) -> None:
    assert read(HEADER + head + b"5\r\nhello\r\n0\r\n\r\n") == [Read(status=status)]


@pytest.mark.parametrize(
    "body",
    [
        b"5\nhello\n0\n\n",
        b"5;a\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nhello",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
        b"5\r\nhello\r\nzz\r\n",
    ],
)
def test_chunks_that_are_unclear_are_refused(body: bytes) -> None:
    assert read(HEADER + CHUNKED + body) == [Read(status=400)]


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"POST /a HTTP/1.1\nHost: a\r\n\r\n", 400),
        (b"POST /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST\t/a HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (b"BREW /a HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (b"post /a HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (b"POST /a http/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /a HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"POST /a\r\n\r\n", 505),
        (b"POST /a HTTP/1.0\r\n" + CHUNKED + b"0\r\n\r\n", 501),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 501),
    ],
)
def test_what_is_no_request_of_http_1_is_refused(start: bytes, status: int) -> None:
    assert read(start) == [Read(status=status)]


def test_protocols_to_change_to_are_passed_over() -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    request = HEADER + upgrade + b"Content-Length: 5\r\n\r\nhello"
    chunked = HEADER + upgrade + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"
    empty = HEADER + upgrade + b"\r\n"

    found = read(request + chunked + empty + HELLO)

    assert [each.body for each in found] == [b"hello", b"hello", b"", b"hello"]
    assert {each.path for each in found} == {"/a"}


def test_head_has_as_many_headers_as_are_allowed_and_no_more() -> None:
    def head(number: int) -> bytes:
        return HEADER + b"".join(b"X%d: a\r\n" % each for each in range(number - 1)) + b"\r\n"

    assert len(read(head(HEADERS))[0].headers) == HEADERS
    assert read(head(HEADERS + 1)) == [Read(status=431)]


@pytest.mark.parametrize("by", [1000, 10 * HEAD_BYTES])
def test_head_that_is_too_long_is_refused_before_it_ends(by: int) -> None:
    def sent(data: bytes) -> list[bytes]:
        return [data[at : at + by] for at in range(0, len(data), by)]

    for head in (HEADER + b"X: " + b"a" * 40 * HEAD_BYTES, b"GET /" + b"a" * 40 * HEAD_BYTES):
        assert read(*sent(head)) == [Read(status=431)]
    long = b"GET /" + b"a" * (HEAD_BYTES + 1) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    assert read(*sent(long)) == [Read(status=414)]


@pytest.mark.parametrize("by", [1000, 262_144])
@pytest.mark.parametrize("begin", [b"1\r\nx\r\n0\r\nX: ", b"1;a="])
def test_chunks_that_bring_nothing_are_refused(begin: bytes, by: int) -> None:
    data = HEADER + CHUNKED + begin + b"a" * 1_000_000

    assert read(*(data[at : at + by] for at in range(0, len(data), by))) == [Read(status=431)]


def test_requests_that_come_in_one_long_piece_are_read() -> None:
    body = b"Content-Length: 250000\r\n\r\n" + b"x" * 250_000
    data = HEADER + body + HELLO

    assert [len(each.body) for each in read(data[:20], data[20:])] == [250_000, 5]


def test_body_that_is_too_long_is_heard_out_and_refused() -> None:
    size = limits.REQUEST_BYTES + 1
    body = [b"x" * 1_000_000] * (size // 1_000_000) + [b"x" * (size % 1_000_000)]
    chunks = [b"%x\r\n%b\r\n" % (len(each), each) for each in body]
    found = read(HEADER + b"Content-Length: %d\r\n\r\n" % size, *body, HELLO)
    of_chunks = read(HEADER + CHUNKED, *chunks, b"0\r\n\r\n", HELLO)

    for first, second in (found, of_chunks):
        assert (first.status, first.body, first.keeps) == (400, b"", True)
        assert second.body == b"hello"


def test_unfinished_bodies_of_a_client_are_counted_until_they_end() -> None:
    arriving = PendingBodies()
    readers = [Reader(route, arriving) for _ in range(30)]
    part = b"x" * (limits.REQUEST_BYTES - 1)
    answers = []
    for reader in readers:
        reader.feed(HEADER + b"Content-Length: %d\r\n\r\n" % limits.REQUEST_BYTES)
        answers += reader.feed(part)
    refused = [each.response.status for each in answers if each.response is not None]
    assert refused == [503] * len(refused) != []

    for reader in readers:
        reader.release()
    assert not Reader(route, arriving).feed(HEADER + b"Content-Length: 100000\r\n\r\n" + part[:9])


def test_pieces_of_unfinished_bodies_count_with_what_they_take() -> None:
    size = limits.REQUEST_BYTES // 3
    pieces = HEADER + CHUNKED + b"1\r\nx\r\n" * size

    (refused,) = read(*(pieces[at : at + 65_536] for at in range(0, len(pieces), 65_536)))

    assert refused.status == 503


def test_body_that_breaks_off_is_refused() -> None:
    reader = Reader(route, PendingBodies())
    assert reader.feed(HELLO[:-1]) == []

    broken = reader.refuse_body()

    assert broken.response is not None
    assert (broken.response.status, broken.keep_alive) == (400, False)
    assert b"The request body ends too early." in broken.response.body


PIECES = st.sampled_from(
    [
        HELLO, HEADER + b"\r\n", HEADER + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
        HEADER + CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", b"GET /b HTTP/1.0\r\n\r\n",
        b"GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"\r\n",
        HEADER + b"Connection: close\r\n\r\n", HEADER + b"Content-Length: 5\r\n" + CHUNKED,
        HEADER + b"Upgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        HEADER + b"Upgrade: h2c\r\nConnection: upgrade\r\n" + CHUNKED + b"1\r\nx\r\n0\r\n\r\n",
        HEADER + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 5\r\n\r\nGET /",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", HEADER + b"X: a\r\n b\r\n\r\n",
        HEADER + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", HELLO[:-2], b"x", b"\0",
        HEADER + CHUNKED + b"5\nhello\n0\n\n", b"GET /b HTTP/1.1\n\n", HEADER + b"X : y\r\n\r\n",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=6), st.lists(st.integers(0, 400), max_size=12))
@example([HELLO, HELLO], [len(HELLO)])
def test_bytes_mean_the_same_however_they_are_cut(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    cut = [data[begin:end] for begin, end in pairwise(at)]

    expected = read(data)

    assert read(*cut) == expected
    assert read(*(data[n : n + 1] for n in range(len(data)))) == expected
    assert read(*turns(data * 5)) == read(data * 5)


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\n\r", HELLO[:-2]])
def test_turn_completes_few_requests_of_many(begin: bytes) -> None:
    data = (begin + b"GET / HTTP/1.1\r\n\r\n" * 14_600)[:262_144]
    reader = Reader(route, PendingBodies())
    reader.feed(begin)
    rest, found = data[len(begin) :], 0
    if begin.endswith(b"\r"):
        rest = b"\n" + rest

    while rest:
        size = reader.turn(rest)
        complete = reader.feed(rest[:size])
        assert len(complete) <= AHEAD + 1
        found, rest = found + len(complete), rest[size:]

    assert found >= 14_500 or begin == HELLO[:-2]


def test_turn_takes_a_body_as_a_whole_and_few_chunks() -> None:
    size = 200_000
    sized, chunked = (Reader(route, PendingBodies()) for _ in range(2))
    sized.feed(HEADER + b"Content-Length: %d\r\n\r\n" % size)
    chunked.feed(HEADER + CHUNKED)

    assert sized.turn(b"\n" * size + HELLO) == size + len(HELLO)
    assert chunked.turn(b"1\r\nx\r\n" * size) == TURN_BYTES


def test_complete_body_is_counted_until_its_connection_subtracts_it() -> None:
    bodies, size = PendingBodies(), 100_000
    reader = Reader(route, bodies)

    (found,) = reader.feed(HEADER + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
    reader.close()

    assert size <= found.counted == bodies.total
    bodies.remove("client", found.counted)
    assert bodies.total == 0


def test_body_of_a_request_that_is_refused_already_is_not_kept() -> None:
    def refuse(head: Head) -> Route:
        return structs.replace(route(head), refused=errors.MethodNotAllowed())

    bodies = PendingBodies()
    reader = Reader(refuse, bodies)
    reader.feed(HEADER + b"Content-Length: 300000\r\n\r\n")
    assert reader.feed(b"x" * 200_000) == []
    held = bodies.total
    (found,) = reader.feed(b"x" * 100_000)

    assert (held, found.counted) == (0, 0)
    assert found.route is not None
    assert found.route.request.body == b""


@pytest.mark.parametrize("head", [b"Content-Length: 101\r\n\r\n", CHUNKED + b"65\r\n"])
def test_body_beyond_the_limit_of_its_route_is_refused(head: bytes) -> None:
    reader = Reader(lambda head: structs.replace(route(head), limit=100), PendingBodies())

    (found,) = reader.feed(HEADER + head + b"x" * 101 + b"\r\n0\r\n\r\n" * (b"65" in head))

    assert found.route is not None
    assert isinstance(found.route.refused, errors.FormTooLong)

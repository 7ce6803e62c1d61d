"""Connections on a loop: what clients may have a node hold, by counts and refusals."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from local_cluster.certificates import Authority
from skipmq.protocol.call import Request, Response
from skipmq.server.http.connection import PIPELINED_BYTES, ClientConnection
from skipmq.server.http.head import Head
from skipmq.server.http.listener import SPARE, PortListener
from skipmq.server.http.parser import Refused
from skipmq.server.http.reader import AHEAD, CLIENT_BYTES, PendingBodies, Route
from support.certificates import Files
from support.loop import eventually

GET = b"GET /a HTTP/1.1\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\n"
LIMIT = 16
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Shop:
    """A server with one listener, which answers what it is asked while it is open."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.loop, self.is_tls, self.date = asyncio.get_running_loop(), context is not None, ""
        self.bodies = PendingBodies()
        self.opened = asyncio.Event()
        self.clients: list[asyncio.StreamWriter] = []
        self.is_stopped = False
        # The number of requests whose head is parsed.
        self.parsed = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listener = PortListener(self, self.listening, LIMIT, self.route, self.spare_route)

    def common_headers(self, request: Request) -> str:
        return f"x-path: {request.path}\r\n"

    def route(self, _: ClientConnection, head: Head) -> Route:
        self.parsed += 1
        path = head.target.decode()
        return Route(
            Request(head.method, path, head.headers, "", head.body, "http://a", "", "client"),
            self.answer,
        )

    def spare_route(self, connection: ClientConnection, head: Head) -> Route:
        if head.target != b"/live":
            raise Refused(503)
        return self.route(connection, head)

    def stop(self) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            self.listener.drain()

    async def answer(self, request: Request) -> Response:
        await self.opened.wait()
        return Response(200, [], b"<%d>" % len(request.body))

    async def connect(self, context: ssl.SSLContext | None = None) -> Streams:
        streams = await asyncio.open_connection(*self.listening.getsockname(), ssl=context)
        self.clients.append(streams[1])
        return streams

    async def silent(self, number: int) -> list[Streams]:
        """Return connections that send nothing, once the listener has them."""
        found = []
        for _ in range(number):
            found.append(await self.connect())
            expected = min(len(found), LIMIT + SPARE)
            await eventually(lambda expected=expected: self.listener.count >= expected)
        return found

    async def status(self, path: str, context: ssl.SSLContext | None = None) -> bytes:
        """Return the status of a request on a connection of its own."""
        reader, writer = await self.connect(context)
        writer.write(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
        line = await reader.readline()
        writer.close()
        return line[9:12]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(tmp_path, Authority())
    found.ca.write_bytes(found.authority.pem)
    found.put(found.issue())
    return found


@asynccontextmanager
async def shop(context: ssl.SSLContext | None = None) -> AsyncIterator[Shop]:
    made = Shop(context)
    await made.listener.open(context)
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        made.opened.set()
        made.stop()
        made.listening.close()
        for client in made.clients:
            client.transport.abort()
        await eventually(lambda: not made.listener.count)


def disconnect(writer: asyncio.StreamWriter) -> None:
    """Reset a connection: one that is only closed is answered to the end."""
    writer.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    writer.transport.abort()


async def answers(reader: asyncio.StreamReader, number: int) -> bytes:
    found = b""
    while found.count(b">") < number:
        found += await reader.read(65_536)
    return found


async def test_few_requests_are_parsed_ahead_and_all_are_answered_in_order() -> None:
    paths = [b"/%d" % n for n in range(5_000)]
    async with shop() as door:
        reader, writer = await door.connect()
        writer.write(b"".join(b"GET %s HTTP/1.1\r\n\r\n" % path for path in paths))
        await eventually(lambda: door.bodies.total > PIPELINED_BYTES / 2)
        parsed = door.parsed

        door.opened.set()
        found = await answers(reader, len(paths))

        assert 1 < parsed <= AHEAD + 1
        assert [line[8:] for line in found.split(b"\r\n") if line.startswith(b"x-path")] == paths
        assert door.bodies.total == 0


async def test_requests_of_each_form_are_read_across_turns() -> None:
    chunks = b"".join(b"1\r\nx\r\n" for _ in range(20_000))
    each = GET + POST + b"Content-Length: 50000\r\n\r\n" + b"x" * 50_000
    each += POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    async with shop() as door:
        door.opened.set()
        reader, writer = await door.connect()
        writer.write(each * 5)
        writer.write_eof()

        found = (await answers(reader, 15)) + await reader.read()

        bodies = [line.partition(b">")[0] for line in found.split(b"<")[1:]]
        assert bodies == [b"0", b"50000", b"20000"] * 5
        assert door.bodies.total == 0


async def test_bytes_without_room_are_discarded_and_end_the_connection_after_its_answers() -> None:
    async with shop() as door:
        door.bodies.add("127.0.0.1", CLIENT_BYTES - 1_000)
        reader, writer = await door.connect()
        writer.write(GET * 2_000)
        await eventually(lambda: door.parsed)
        parsed = door.parsed

        door.opened.set()
        found = await reader.read()

        assert (found.count(b">"), door.parsed) == (parsed, parsed)
        assert found.count(b"connection: close") == 1
        assert door.bodies.total == CLIENT_BYTES - 1_000


async def test_bodies_count_until_they_are_answered() -> None:
    size = 100_000
    async with shop() as door:
        reader, writer = await door.connect()
        writer.write(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
        _, left = await door.connect()
        left.write(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
        await eventually(lambda: door.parsed == 2 and door.bodies.total >= 2 * size)
        disconnect(left)
        await eventually(lambda: door.listener.count == 1)
        # The action of a client that has disconnected is still running.
        assert door.bodies.total >= 2 * size

        door.opened.set()

        await answers(reader, 1)
        await eventually(lambda: door.bodies.total == 0)


async def test_requests_that_wait_behind_another_count_until_their_connection_ends() -> None:
    async with shop() as door:
        _, writer = await door.connect()
        body = b"Content-Length: 9000\r\n\r\n" + b"x" * 9_000
        writer.write(GET + POST + body + POST + body)
        await eventually(lambda: door.parsed >= 2 and door.bodies.total > 9_000)

        disconnect(writer)

        await eventually(lambda: door.bodies.total == 0)


@pytest.mark.parametrize(
    "begin",
    [b"GET / HTTP/1.1\r\nX: ", b"GET /", POST + b"Transfer-Encoding: chunked\r\n\r\n1;a="],
    ids=["header", "target", "chunk"],
)
async def test_head_of_which_more_is_awaited_counts(begin: bytes) -> None:
    async with shop() as door:
        _, writer = await door.connect()
        writer.write(begin + b"a" * 40_000)

        await eventually(lambda: door.bodies.total > 30_000)

        writer.transport.abort()
        await eventually(lambda: door.bodies.total == 0)


async def test_head_without_room_is_refused() -> None:
    async with shop() as door:
        door.bodies.add("127.0.0.1", CLIENT_BYTES - 1_000)
        reader, writer = await door.connect()
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"a" * 15_000)

        assert (await reader.read()).startswith(b"HTTP/1.1 503")


async def test_silent_connections_leave_a_place_for_the_question_whether_a_node_lives() -> None:
    async with shop() as door:
        door.opened.set()
        await door.silent(LIMIT)

        for _ in range(2 * SPARE):
            assert await door.status("/live") == b"200"
        refused = await door.status("/other")

        assert refused == b"503"
        assert door.listener.count <= LIMIT + SPARE


async def test_spare_places_go_to_the_newest_connections() -> None:
    async with shop() as door:
        door.opened.set()
        held = await door.silent(LIMIT + 2 * SPARE)

        assert door.listener.count == LIMIT + SPARE
        assert await door.status("/live") == b"200"

        # Those within the limit are served as before.
        reader, writer = held[0]
        writer.write(GET)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        ended = [each for each, _ in held[LIMIT : LIMIT + SPARE]]
        assert [await each.read() for each in ended] == [b""] * SPARE


async def test_connections_count_before_their_handshake(files: Files) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own, key = files.settings.values()
    context.load_cert_chain(own, key)
    async with shop(context) as door:
        door.opened.set()
        held = await door.silent(LIMIT + 2 * SPARE)

        assert door.listener.count == LIMIT + SPARE
        assert await door.status("/live", files.context()) == b"200"
        assert await door.status("/other", files.context()) == b"503"

        for _, writer in held:
            writer.transport.abort()
        await eventually(lambda: not door.listener.count)
        assert await door.status("/other", files.context()) == b"200"


async def test_handshakes_are_ended_when_a_node_stops(files: Files) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own, key = files.settings.values()
    context.load_cert_chain(own, key)
    async with shop(context) as door:
        ((reader, _),) = await door.silent(1)

        door.stop()

        assert await reader.read() == b""

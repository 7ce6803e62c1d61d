"""Bodies that break off, stall or are too much for the event loop; clients that hang up."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from skipmq.protocol import limits
from skipmq.server.http.connection import BODY_MINIMUM_SECONDS
from support.hang_ups import WAYS, Leave, files_held, is_held
from support.http import ACCOUNT, NodeProcess, WsgiProcess, client, eventually
from support.postgres import Databases, as_node
from support.wire import FORM, exchange, target

DOORS = {"http": NodeProcess, "wsgi": WsgiProcess}
# A prefix of it names another queue, and is a whole request.
DELETE = f"Action=DeleteQueue&QueueUrl=http://localhost/{ACCOUNT}/prod-orders-old".encode()


@pytest.fixture(scope="module", params=DOORS)
def node(request: pytest.FixtureRequest, embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node behind either door."""
    url = as_node(embedded_databases.migrated())
    with DOORS[request.param](database_url=url, workers=1, name_cooldown=0) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def http_node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as process:
        yield process.ready()


def connected(node: NodeProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), timeout=40)


def head(*lines: str) -> bytes:
    start = ["POST / HTTP/1.1", "Host: localhost", f"Content-Type: {FORM['Content-Type']}"]
    return "\r\n".join([*start, *lines, "", ""]).encode()


@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize(
    "request_",
    [
        head(f"Content-Length: {len(DELETE)}") + DELETE[:-4],
        head("Transfer-Encoding: chunked") + f"{len(DELETE):x}\r\n".encode() + DELETE[:-4],
        head("Transfer-Encoding: chunked") + f"{len(DELETE) - 4:x}\r\n".encode() + DELETE[:-4],
        head("Transfer-Encoding: chunked")
        + f"{len(DELETE) - 4:x}\r\n".encode()
        + DELETE[:-4]
        + b"\r\n",
        head("Transfer-Encoding: chunked")
        + f"{len(DELETE) - 4:x}\r\n".encode()
        + DELETE[:-4]
        + b"\r\nzz\r\n",
    ],
    ids=["length", "within chunk", "after chunk", "between chunks", "broken chunk"],
)
def test_request_that_breaks_off_is_not_executed(
    node: NodeProcess, request_: bytes, leave: Leave
) -> None:
    sqs = client(node.url)
    sqs.create_queue(QueueName="prod-orders")
    connection = connected(node)
    connection.sendall(request_)

    leave(connection)

    # What came before it on the loop has been done when this is answered.
    exchange(node.port, b"Action=ListQueues", FORM)
    assert sqs.get_queue_url(QueueName="prod-orders")["QueueUrl"]


def test_body_that_stalls_is_ended_and_keeps_nobody_else_waiting(http_node: NodeProcess) -> None:
    with ExitStack() as stack:
        stalled = [stack.enter_context(connected(http_node)) for _ in range(200)]
        for connection in stalled:
            connection.sendall(head("Content-Length: 100") + b"A")

        answer = exchange(http_node.port, b"Action=ListQueues", FORM)
        ends = [connection.recv(4096) for connection in stalled]

    assert answer.status == 200
    assert all(end.startswith(b"HTTP/1.1 408") for end in ends)
    assert b"<Code>RequestTimeout</Code>" in ends[0]


def test_stop_ends_bodies_that_stall(embedded_databases: Databases) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as node, connected(node.ready()) as stalled:
        stalled.sendall(head("Content-Length: 100") + b"A")
        exchange(node.port, b"Action=ListQueues", FORM)  # The other one is being read by now.

        assert node.stop() == 0
        assert stalled.recv(4096).startswith(b"HTTP/1.1 503")


def test_time_in_which_the_node_stood_still_is_not_the_client_s(
    embedded_databases: Databases,
) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as node, connected(node.ready()) as slow:
        slow.sendall(head("Content-Length: 17") + b"A")
        exchange(node.port, b"Action=ListQueues", FORM)  # The other one is being read by now.
        worker = node.workers()[0]

        worker.suspend()
        time.sleep(BODY_MINIMUM_SECONDS + 1)
        slow.sendall(b"ction=ListQueues")
        worker.resume()

        assert slow.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("leave", WAYS)
def test_receiver_whose_client_hangs_up_waits_no_longer(
    http_node: NodeProcess, leave: Leave
) -> None:
    client(http_node.url).create_queue(QueueName="waited-on")
    body = f"Action=ReceiveMessage&WaitTimeSeconds=20&QueueUrl=/{ACCOUNT}/waited-on".encode()
    connection = connected(http_node)
    connection.sendall(head(f"Content-Length: {len(body)}") + body)
    eventually(lambda: http_node.metric("skipmq_waiting_receivers") == 1)

    leave(connection)

    eventually(lambda: http_node.metric("skipmq_waiting_receivers") == 0, seconds=10)


@pytest.mark.parametrize(
    "headers", [("Content-Length: 17", "Transfer-Encoding: chunked"), ("Content-Length: x",)]
)
def test_body_of_unclear_length_is_refused(
    http_node: NodeProcess, headers: tuple[str, ...]
) -> None:
    with connected(http_node) as connection:
        connection.sendall(head(*headers) + b"Action=ListQueues")

        answer = connection.recv(4096)

    assert answer.startswith(b"HTTP/1.1 400")


def test_many_texts_are_refused_before_they_are_decoded(http_node: NodeProcess) -> None:
    entries: list[Any] = ['{"Id":"a","MessageBody":""}'] * 100_000
    body = f'{{"QueueUrl":"/{ACCOUNT}/q","Entries":[{",".join(entries)}]}}'.encode()

    answer = exchange(http_node.port, body, target("SendMessageBatch"))

    assert answer.status == 400
    assert "at most 20000 texts" in answer.body


@pytest.mark.parametrize("is_chunked", [False, True])
def test_form_without_a_session_is_short(node: NodeProcess, is_chunked: bool) -> None:
    form = b"key_id=" + b"%41" * 2_000_000
    length, data = f"Content-Length: {len(form)}", form
    if is_chunked:
        length, data = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(form), form)
    request = head(length, "Connection: close").replace(b"POST /", b"POST /console/sign-in")
    with connected(node) as connection:
        connection.sendall(request + data)

        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_body_announced_longer_than_all_bodies_together_is_too_long(http_node: NodeProcess) -> None:
    with connected(http_node) as connection:
        connection.sendall(head("Content-Length: 300000000") + b"A")
        connection.shutdown(socket.SHUT_WR)

        answer = connection.recv(4096)

    assert answer.startswith(b"HTTP/1.1 400")


def large_send(node: NodeProcess, queue: str, address: str) -> int:
    """Send a message of 200 KB from an address; return the status."""
    body = f"Action=SendMessage&QueueUrl={queue}&MessageBody={'x' * 200_000}".encode()
    with from_address(node, address) as connection:
        connection.sendall(head(f"Content-Length: {len(body)}", "Connection: close") + body)
        return int(connection.recv(4096)[9:12])


def from_address(node: NodeProcess, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), 40, (address, 0))


def test_large_bodies_that_are_only_announced_take_no_room_from_others(
    http_node: NodeProcess,
) -> None:
    queue = client(http_node.url).create_queue(QueueName="announced")["QueueUrl"]
    with ExitStack() as stack:
        # The largest that are valid, and some that fill what those leave of 256 MiB.
        for size in [limits.REQUEST_BYTES] * 41 + [100_000] * 80:
            connection = stack.enter_context(from_address(http_node, "127.0.0.2"))
            connection.sendall(head(f"Content-Length: {size}") + b"A")
        exchange(http_node.port, b"Action=ListQueues", FORM)  # All are being read by now.

        statuses = [large_send(http_node, queue, f"127.0.0.{n}") for n in (1, 2)]

    assert statuses == [200, 200]


def test_client_whose_unfinished_bodies_fill_its_share_takes_none_from_others(
    http_node: NodeProcess,
) -> None:
    """Send 156 MiB of bodies from one address, each without its last byte."""
    queue = client(http_node.url).create_queue(QueueName="shared")["QueueUrl"]
    part = b"A" * (6 * 1_048_576 - 1)
    with ExitStack() as stack:
        ready: list[socket.socket] = []
        for _ in range(26):
            connection = stack.enter_context(from_address(http_node, "127.0.0.3"))
            connection.sendall(head(f"Content-Length: {len(part) + 1}"))
            with suppress(ConnectionError):  # One that is refused is read no further.
                connection.sendall(part)
            ready.append(connection)
        answered = eventually(lambda: select.select(ready, [], [], 0)[0])
        refused = answered[0].recv(4096)

        of_others = large_send(http_node, queue, "127.0.0.4")

    assert refused.startswith(b"HTTP/1.1 503")
    assert of_others == 200
    eventually(lambda: large_send(http_node, queue, "127.0.0.3") == 200)


def test_connections_that_do_not_read_their_answers_are_closed(http_node: NodeProcess) -> None:
    """Ask for pages of 6 MiB and read nothing."""
    url = client(http_node.url).create_queue(QueueName="unread")["QueueUrl"]
    for _ in range(6):
        client(http_node.url).send_message(QueueUrl=url, MessageBody="x" * 1_000_000)
    peek = f'{{"QueueUrl": "{url}", "MaxResults": 100}}'.encode()
    request = [
        "POST / HTTP/1.1",
        "Host: localhost",
        "X-Amz-Target: SkipMQ.PeekMessages",
        f"Content-Length: {len(peek)}",
    ]
    with ExitStack() as stack:
        unread = []
        for _ in range(4):
            connection = stack.enter_context(connected(http_node))
            connection.sendall("\r\n".join([*request, "", ""]).encode() + peek)
            unread.append(connection)
        eventually(lambda: len(select.select(unread, [], [], 0)[0]) == len(unread))

        files = files_held(http_node.workers(), unread)
        assert len(files) == len(unread)
        eventually(lambda: not is_held(files), seconds=60)

"""Connections of clients: their order, their ends, and how many there may be."""

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from skipmq.server.http.connection import LINGER_SECONDS
from skipmq.server.http.listener import SPARE
from support.certificates import Files
from support.hang_ups import WAYS, Leave, asked
from support.http import ACCOUNT, NodeProcess, client, eventually
from support.postgres import Databases, as_node

LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1, max_connections=64) as process:
        yield process.ready()


def connected(node: NodeProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", node.port), timeout=40)


def request(action: str, *headers: str, **members: object) -> bytes:
    body = json.dumps(members).encode()
    start = ["POST / HTTP/1.1", "Host: localhost", f"X-Amz-Target: AmazonSQS.{action}"]
    lines = [*start, f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def read_to_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+)", answers)]


def test_requests_that_come_together_are_answered_in_order_one_at_a_time(
    node: NodeProcess,
) -> None:
    url = client(node.url).create_queue(QueueName="in-order")["QueueUrl"]
    sends = [request("SendMessage", QueueUrl=url, MessageBody=f"{n}") for n in range(5)]
    receive = request("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
    missing = request("GetQueueUrl", QueueName="none")
    last = request("ListQueues", "Connection: close")
    with connected(node) as connection:
        connection.sendall(b"".join([*sends, receive, missing, last]))

        answers = read_to_end(connection)

    assert statuses(answers) == [200] * 6 + [400, 200]
    assert sorted(re.findall(rb'"Body":"(\d)"', answers)) == [b"%d" % n for n in range(5)]
    assert b"content-length: 0" not in answers


def test_request_behind_a_receiver_that_waits_is_answered_after_it(node: NodeProcess) -> None:
    url = client(node.url).create_queue(QueueName="waits")["QueueUrl"]
    with asked(node.port, "waits", 20) as connection:
        eventually(lambda: node.metric("skipmq_waiting_receivers") == 1)
        behind = request("SendMessage", "Connection: close", QueueUrl=url, MessageBody="late")
        connection.sendall(behind)
        client(node.url).send_message(QueueUrl=url, MessageBody="first")

        answers = read_to_end(connection)

    assert statuses(answers) == [200, 200]
    assert b"first" in answers
    assert answers.index(b"first") < answers.index(
        b"MD5OfMessageBody", answers.index(b"200 OK", 20)
    )


@pytest.mark.parametrize("leave", WAYS)
def test_receiver_that_leaves_is_known_with_a_request_behind_it(
    node: NodeProcess, leave: Leave
) -> None:
    client(node.url).create_queue(QueueName="leaves")
    connection = asked(node.port, "leaves", 20)
    eventually(lambda: node.metric("skipmq_waiting_receivers") == 1)
    connection.sendall(request("ListQueues"))

    leave(connection)

    eventually(lambda: node.metric("skipmq_waiting_receivers") == 0, seconds=10)


def test_client_that_asks_first_is_told_to_send_its_body(node: NodeProcess) -> None:
    sent = request("ListQueues", "Expect: 100-continue", "Connection: close")
    head, body = sent[:-2], sent[-2:]
    with connected(node) as connection:
        connection.sendall(head)
        told = connection.recv(4096)
        connection.sendall(body)
        answer = read_to_end(connection)

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert statuses(answer) == [200]


def test_what_is_no_http_is_told_and_ends_the_connection(node: NodeProcess) -> None:
    with connected(node) as connection:
        connection.sendall(LIVE + b"GET /health/live HTTP/1.1\nHost: localhost\n\n" + LIVE)

        answers = read_to_end(connection)

    assert statuses(answers) == [200, 400]
    assert answers.endswith(b"content-length: 0\r\nconnection: close\r\n\r\n")


def test_target_may_be_a_whole_url_whose_host_counts(node: NodeProcess) -> None:
    started = [b"GET http://localhost/health/live", b"GET HTTP://evil.example/health/live"]
    with connected(node) as connection:
        for start in started:
            connection.sendall(start + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)

        assert statuses(read_to_end(connection)) == [200, 403]


def test_head_has_no_body_and_old_clients_keep_their_connection(node: NodeProcess) -> None:
    head = LIVE.replace(b"GET", b"HEAD")
    old = b"GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    with connected(node) as connection:
        connection.sendall(head + old + LIVE)
        connection.shutdown(socket.SHUT_WR)
        answers = read_to_end(connection)

    assert statuses(answers) == [200, 200, 200]
    assert answers.count(b'{"status":"live"}') == 2
    assert answers.lower().count(b"connection: keep-alive\r\n") == 1


def test_connections_beyond_the_limit_are_told_and_others_go_on(node: NodeProcess) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(node)) for _ in range(80)]
        for each in connections:
            each.sendall(LIVE.replace(b"live", b"ready"))
        answers = [each.recv(4096) for each in connections]

    served = sum(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
    assert served + len(refused) == 80
    assert 32 <= served <= 64  # Other tests' clients keep some.
    assert all(b"retry-after: 1\r\n" in answer for answer in refused)


def test_connection_beyond_the_limit_may_ask_whether_the_node_lives(node: NodeProcess) -> None:
    with ExitStack() as stack:
        for _ in range(64 + SPARE):
            stack.enter_context(connected(node))

        with connected(node) as connection:
            connection.sendall(LIVE)
            answers = read_to_end(connection)

    assert statuses(answers) == [200]
    assert b"connection: close\r\n" in answers


def test_many_requests_that_come_together_are_all_answered(node: NodeProcess) -> None:
    """Send as much as the node reads at once, before an answer is read."""
    requests = LIVE * 5_000
    with connected(node) as connection:
        connection.sendall(requests)
        connection.shutdown(socket.SHUT_WR)

        assert statuses(read_to_end(connection)) == [200] * 5_000


def test_answers_to_a_node_that_stops_end_their_connections(embedded_databases: Databases) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as node, connected(node.ready()) as idle:
        client(node.url).create_queue(QueueName="stops")
        idle.sendall(LIVE)
        assert statuses(idle.recv(4096)) == [200]
        with asked(node.port, "stops", 20) as waiting:
            eventually(lambda: node.metric("skipmq_waiting_receivers") == 1)

            assert node.stop() == 0

            answer = read_to_end(waiting)
        assert idle.recv(4096) == b""

    assert statuses(answer) == [200]
    assert b"connection: close\r\n" in answer
    assert f"/{ACCOUNT}/".encode() not in answer


def fill(node: NodeProcess) -> str:
    """Return the URL of a queue with 6 MB of messages."""
    sqs = client(node.url, ca=node.ca)
    queue = str(sqs.create_queue(QueueName="long")["QueueUrl"])
    for _ in range(6):
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 1_000_000)
    return queue


def peek(queue: str, *headers: str) -> bytes:
    """Return a request for a page of nearly 6 MiB."""
    body = json.dumps({"QueueUrl": queue, "MaxResults": 100}).encode()
    start = ["POST / HTTP/1.1", "Host: localhost", "X-Amz-Target: SkipMQ.PeekMessages"]
    lines = [*start, f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def test_node_that_stops_refuses_connections_while_answers_are_on_their_way(
    embedded_databases: Databases,
) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=2) as node, connected(node.ready()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.sendall(peek(fill(node)))
        began = slow.recv(4096)

        node.process.send_signal(signal.SIGTERM)

        eventually(lambda: is_refused(node))
        assert node.process.poll() is None
        answer = began + read_to_end(slow)
        assert node.process.wait(60) == 0
    assert len(answer) > 5_000_000


def is_refused(node: NodeProcess) -> bool:
    try:
        connected(node).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize(
    "headers", [pytest.param((), marks=pytest.mark.slow), ("Connection: close",)]
)
def test_client_that_reads_slowly_over_tls_gets_the_whole_answer(
    node_url: str, files: Files, headers: tuple[str, ...]
) -> None:
    with files.node(node_url, workers=1) as node:
        node.ca = files.ca
        request_ = peek(fill(node), *headers)
        plain = connected(node)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        with files.context().wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(request_)
            answer = secure.recv(16_384)
            head, _, _ = answer.partition(b"\r\n\r\n")
            length = int(re.findall(rb"content-length: (\d+)", head)[0])
            time.sleep(LINGER_SECONDS + 1)  # Is slower than a client that has gone.
            while len(answer) < len(head) + 4 + length and (piece := secure.recv(1 << 20)):
                answer += piece

    assert length > 5_000_000
    assert len(answer) == len(head) + 4 + length

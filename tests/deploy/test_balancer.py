"""A node behind HAProxy with the shipped file: requests that one of them might read otherwise."""

import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, product

import psycopg
import pytest

from support.balancer import started
from support.hang_ups import WAYS, Leave, asked
from support.http import ACCOUNT, NodeProcess, client, eventually, raw
from support.postgres import Databases, as_node
from support.wire import FORM, exchange, spoken

SEND = b"Action=SendMessage&MessageBody=hello"
LENGTH = f"Content-Length: {len(SEND)}"
CHUNKED = f"{len(SEND):x}\r\n".encode() + SEND + b"\r\n0\r\n\r\n"

_number = count(1)


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1, name_cooldown=0) as process:
        process.owner_url = url
        yield process.ready()


@pytest.fixture(scope="module")
def balancer(node: NodeProcess) -> Iterator[int]:
    """Give the port of a balancer before the node."""

    def is_ready() -> bool:
        with suppress(OSError):
            return raw(f"http://127.0.0.1:{port}/health/ready").status == 200
        return False

    with started(node.port) as port:
        eventually(is_ready)
        yield port


def written(name: str, *headers: str, body: bytes = SEND) -> bytes:
    """Return a request that sends a message, with these header lines."""
    lines = [f"POST /{ACCOUNT}/{name} HTTP/1.1", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def smuggling(name: str) -> bytes:
    """Return a request that ends with its chunks, or, by its length, with another request."""
    hidden = written(name, "Host: localhost", LENGTH, body=SEND.replace(b"hello", b"smuggled"))
    body = CHUNKED + hidden
    lines = ("Host: localhost", f"Content-Length: {len(body)}", "Transfer-Encoding: chunked")
    return written(name, *lines, body=body)


@pytest.mark.parametrize(
    ("make", "stored"),
    [
        (lambda name: written(name, LENGTH), []),
        (lambda name: written(name, "Host: localhost", "Host: 127.0.0.1", LENGTH), []),
        (lambda name: written(name, "Host: localhost", "Content-Length: 3", LENGTH), []),
        (lambda name: written(name, "Host: localhost", "Transfer-Encoding: identity"), []),
        (smuggling, ["hello"]),
        (lambda name: written(name, "Host: localhost", LENGTH).replace(b"\r\n", b"\n"), ["hello"]),
    ],
    ids=["no host", "two hosts", "two lengths", "identity", "length and chunks", "bare line feeds"],
)
def test_balancer_and_node_agree_on_where_a_request_ends(
    node: NodeProcess, balancer: int, make: Callable[[str], bytes], stored: list[str]
) -> None:
    name = f"queue-{next(_number)}"
    sqs = client(node.url)
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]

    answer = spoken(balancer, make(name), ends=False)
    # Whatever a request left behind would come before the next one.
    after = exchange(balancer, f"Action=GetQueueUrl&QueueName={name}".encode(), FORM)

    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    assert (answer.status, [m["Body"] for m in found]) == (200 if stored else 400, stored)
    assert f"/{ACCOUNT}/{name}</QueueUrl>" in after.body


@pytest.mark.parametrize("leave", WAYS)
def test_node_knows_of_a_receiver_that_hangs_up_on_the_balancer(
    node: NodeProcess, balancer: int, leave: Leave
) -> None:
    name = f"queue-{next(_number)}"
    queue = client(node.url).create_queue(QueueName=name)["QueueUrl"]
    receiver = asked(balancer, name, wait=20)
    eventually(lambda: node.metric("skipmq_waiting_receivers") == 1)

    leave(receiver)

    eventually(lambda: node.metric("skipmq_waiting_receivers") == 0, seconds=18)
    client(node.url).send_message(QueueUrl=queue, MessageBody="a")
    (message,) = client(node.url).receive_message(
        QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"]
    )["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


# Header lines of a request, by which readers may find its end at different places.
ENCODINGS = (
    "", "Transfer-Encoding: chunked", "Transfer-Encoding: CHUNKED", "Transfer-Encoding : chunked",
    "Transfer-Encoding: identity", "Transfer-Encoding: identity, chunked", "X: y\nX: z",
    "Transfer-Encoding: chunked, identity", "Transfer-Encoding:\r\n chunked", "X: a\r\n b",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \x0bchunked", "Transfer_Encoding: chunked", "transfer-encoding:chunked\t",
    "Connection: Upgrade\r\nUpgrade: h2c", "Connection: Transfer-Encoding",
    "Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked",
)  # fmt: skip
LENGTHS = ("", "{outer}", "{body}", "0", "5", "+{outer}", "{outer}, {outer}", "0x5",
           "{outer}\r\nContent-Length: 5")  # fmt: skip


def odd_requests() -> Iterator[tuple[str, bytes]]:
    """Give requests that send a message `outer N`, with another after them, or in them."""
    numbers = count()
    for encoding, length, framing in product(ENCODINGS, LENGTHS, range(5)):
        number = str(next(numbers))
        outer = f"Action=SendMessage&MessageBody=outer+{number}".encode()
        inner = outer.replace(b"outer", b"inner")
        hidden = written("odd", "Host: localhost", f"Content-Length: {len(inner)}", body=inner)
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(outer), outer)
        body = (
            outer + hidden,
            chunk + hidden,
            b"0\r\n\r\n" + hidden,
            chunk.replace(b"\r\n", b";a=b\r\n", 1)[:-2] + b"Content-Length: 9\r\n\r\n" + hidden,
            chunk.replace(b"\r\n", b"\n") + hidden,
        )[framing]
        lines = [f"POST /{ACCOUNT}/odd HTTP/1.1", "Host: localhost"]
        lines += [encoding] if encoding else []
        if length:
            lines.append(f"Content-Length: {length.format(outer=len(outer), body=len(body))}")
        yield number, "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def successes(port: int, request: bytes) -> int:
    """Send bytes, and after them a request that ends the connection; count the answers of 200."""
    last = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answers = b""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        suppress(ConnectionError),
    ):
        connection.sendall(request + last)
        for piece in iter(lambda: connection.recv(65_536), b""):
            answers += piece
    return len(re.findall(rb"HTTP/1\.1 200 [^{]*?x-amzn-requestid", answers, re.IGNORECASE))


@pytest.mark.parametrize("way", ["balancer", "straight"])
def test_odd_request_is_as_many_requests_to_the_node_as_it_has_answers(
    node: NodeProcess, balancer: int, way: str
) -> None:
    """One that the balancer takes for the body of another would be answered to nobody."""
    queue = client(node.url).create_queue(QueueName="odd")["QueueUrl"]
    port = balancer if way == "balancer" else node.port
    odd = dict(odd_requests())
    with ThreadPoolExecutor(32) as pool:
        found = pool.map(lambda data: successes(port, data), odd.values())
        answered = dict(zip(odd, found, strict=True))

    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        bodies = owner.execute(
            "select body from skipmq.message join skipmq.queue using (queue_id) where name = 'odd'"
        ).fetchall()
        client(node.url).delete_queue(QueueUrl=queue)
    sent = Counter(body.split()[1] for (body,) in bodies)
    wrong = {n: (sent[n], answered[n], odd[n]) for n in odd if sent[n] != answered[n]}
    assert wrong == {}
    assert {1, 2} <= set(sent.values())

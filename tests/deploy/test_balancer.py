"""A node behind HAProxy with the shipped file: requests that one of them might read otherwise."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

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
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as process:
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

    eventually(lambda: node.metric("skipmq_waiting_receivers") == 0, seconds=10)
    client(node.url).send_message(QueueUrl=queue, MessageBody="a")
    (message,) = client(node.url).receive_message(
        QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"]
    )["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"

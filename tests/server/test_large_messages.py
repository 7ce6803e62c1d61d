"""Large messages in the memory of a worker, counted in bytes."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skipmq.broker.messages.budget import GROUP_BYTES, WORKER_BYTES
from skipmq.broker.messages.message import Reception
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.config.settings import Settings
from skipmq.protocol.call import Recipient
from skipmq.protocol.identity import QueueName
from skipmq.server.answer import Broker
from skipmq.server.http.door import Door
from support.loop import eventually
from support.postgres import Connection, as_node
from support.sql import number
from support.wire import request

LARGE = 1_048_576
FILL = "select count(skipmq.send_message(%s, repeat('x', %s))) from generate_series(1, %s)"
FILL_FIFO = (
    "select count(skipmq.send_fifo_message(%s, repeat('x', %s), 'g' || n, n::text))"
    " from generate_series(1, %s) n"
)
VISIBLE = (
    "select count(*) from skipmq.message m where m.queue_id = %s"
    " and m.visible_at <= clock_timestamp() and m.receive_count = m.receive_base"
)


@asynccontextmanager
async def open_node(database: str) -> AsyncIterator[Node]:
    node = Node(Settings(), as_node(database))
    try:
        await node.open()
        yield node
    finally:
        await node.close()


async def queue_of(node: Node, name: str) -> Queue:
    found = await node.queues.find(QueueName("000000000000", "us-east-1", name), node.deadline())
    assert found is not None
    return found


async def receive(node: Node, queue: Queue, count: int) -> list[Reception]:
    claims = [
        node.messages(queue).receive(queue, 10, 600, node.deadline(), Recipient())
        for _ in range(count)
    ]
    return list(await asyncio.gather(*claims))


def sizes(receptions: list[Reception]) -> int:
    return sum(len(message.body) for each in receptions for message in each.messages)


@pytest.mark.parametrize(("name", "fill"), [("large", FILL), ("large.fifo", FILL_FIFO)])
async def test_claim_of_large_messages_takes_what_fits_and_gives_the_rest_back(
    database: str, owner: Connection, name: str, fill: str
) -> None:
    owner.execute("select skipmq.create_queue(%s)", (name,))
    number(owner, fill, name, 1, 1)
    async with open_node(database) as node:
        queue = await queue_of(node, name)
        assert sizes(await receive(node, queue, 1)) == 1
        number(owner, fill.replace("n::text)", "'l' || n)"), name, LARGE, 40)

        first = await receive(node, queue, 4)

        assert sizes(first) == GROUP_BYTES
        assert node.budget.free == WORKER_BYTES - GROUP_BYTES
        await eventually(lambda: number(owner, VISIBLE, queue.id) == 40 - GROUP_BYTES // LARGE)
        # From now on their size is known, so that each claim has the messages of one receive.
        taken = sizes(await receive(node, queue, 2))
        assert taken == 20 * LARGE
        assert number(owner, VISIBLE, queue.id) == 4

        del first
        await eventually(lambda: node.budget.free == WORKER_BYTES)


async def test_first_receives_of_a_queue_get_what_they_ask_for(
    database: str, owner: Connection
) -> None:
    owner.execute("select skipmq.create_queue('large')")
    number(owner, FILL, "large", LARGE, 50)
    async with open_node(database) as node:
        received = await receive(node, await queue_of(node, "large"), 5)

        assert [len(each.messages) for each in received] == [10] * 5


async def test_claims_wait_while_what_was_claimed_is_in_memory(
    database: str, owner: Connection
) -> None:
    owner.execute("select skipmq.create_queue('large'), skipmq.create_queue('small')")
    number(owner, FILL, "large", LARGE, 30)
    number(owner, FILL, "small", 1, 5)
    async with open_node(database) as node:
        queue = await queue_of(node, "large")
        (known,) = await receive(node, queue, 1)
        held = node.budget.hold(WORKER_BYTES - 15 * LARGE)
        assert held is not None
        waiting = asyncio.create_task(receive(node, queue, 1))
        # Small ones pass, which shows that it had the time.
        assert sizes(await receive(node, await queue_of(node, "small"), 1)) == 5
        assert not waiting.done()
        assert number(owner, VISIBLE, queue.id) == 20

        known.held.release()

        assert sizes(await waiting) == 10 * LARGE
        held.release()


async def test_answers_that_clients_do_not_read_are_counted_until_they_are_read(
    database: str, owner: Connection
) -> None:
    owner.execute("select skipmq.create_queue('large')")
    number(owner, FILL, "large", LARGE, 10)
    async with open_node(database) as node:
        door = Door(Broker(node), list, 100)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await door.listen(listening)
            with socket.create_connection(listening.getsockname()) as client:
                client.settimeout(0)
                loop = asyncio.get_running_loop()
                body = json.dumps(
                    {
                        "QueueUrl": "http://localhost/000000000000/large",
                        "MaxNumberOfMessages": 10,
                    }
                )
                await loop.sock_sendall(client, written(body))
                await eventually(lambda: node.budget.free <= WORKER_BYTES - 10 * LARGE)

                read = 0
                while read < 10 * LARGE:
                    read += len(await loop.sock_recv(client, LARGE))

                await eventually(lambda: node.budget.free == WORKER_BYTES)
            door.drain()
            await door.close(1)


def written(body: str) -> bytes:
    return (
        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def test_action_s_bytes_are_given_back_with_its_answer(
    database: str, owner: Connection
) -> None:
    owner.execute("select skipmq.create_queue('large')")
    number(owner, FILL, "large", LARGE, 1)
    async with open_node(database) as node:
        parameters: dict[str, Any] = {"QueueUrl": "http://localhost/000000000000/large"}
        response = await Broker(node).answer(request("ReceiveMessage", **parameters))

        assert response.status == 200
        assert len(response.body) > LARGE
        assert node.budget.free == WORKER_BYTES


@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        ("SkipMQ.PeekMessages", {}),
        ("SkipMQ.SearchMessages", {"BodyContains": "x"}),
        ("SendMessage", {"MessageBody": "x" * LARGE}),
        ("ReceiveMessage", {}),
    ],
)
async def test_what_is_large_waits_for_room(
    database: str, owner: Connection, action: str, parameters: dict[str, Any]
) -> None:
    owner.execute("select skipmq.create_queue('large'), skipmq.create_queue('small')")
    number(owner, FILL, "large", LARGE, 2)
    async with open_node(database) as node:
        broker, url = Broker(node), "http://localhost/000000000000/"
        await broker.answer(request("ReceiveMessage", QueueUrl=f"{url}large"))
        held = node.budget.hold(WORKER_BYTES)
        assert held is not None
        waiting = asyncio.create_task(
            broker.answer(request(action, QueueUrl=f"{url}large", **parameters))
        )
        for _ in range(3):
            small = await broker.answer(
                request("SendMessage", QueueUrl=f"{url}small", MessageBody="x")
            )
            assert small.status == 200
        assert not waiting.done()

        held.release()

        assert (await waiting).status == 200
        assert node.budget.free == WORKER_BYTES

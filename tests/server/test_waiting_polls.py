"""Receivers that wait without a poll of their own: what that costs, and that they miss nothing."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic
from typing import Any

import psycopg
import pytest

from skipmq.broker.messages.waiters import POLL_INTERVAL
from support.crowd import LONGEST, ask, bodies, waiting
from support.http import NodeProcess, client, eventually
from support.nodes import Nodes, two_nodes
from support.postgres import Connection, Databases, as_node
from support.sql import number

RESTLESS, ANSWERS, STEADY, ROUNDS = 200, 1_000, 24, 6
# Of the first polls, which those that come meanwhile make too, and of the last.
FEW = 5
_number = count(1)


@pytest.fixture(scope="module")
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture(scope="module")
def nodes(database: str) -> Iterator[Nodes]:
    with two_nodes(database) as found:
        yield found


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


async def restless(node: NodeProcess, queue: str) -> list[str]:
    """Wait for a second, again and again, until there is a message."""
    while True:
        reply = await ask(node, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=1)
        assert reply.status == 200, reply
        if reply.bodies:
            return reply.bodies


def test_receivers_that_ask_again_are_answered_by_one_poll_a_second(
    embedded_databases: Databases,
) -> None:
    """Of an empty queue: what one poll has found is known to all that come."""
    database = embedded_databases.migrated()
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(f"alter database {name} set track_functions = 'all'")
    answers = 0

    async def ask_again(node: NodeProcess, queue: str) -> None:
        nonlocal answers
        while answers < ANSWERS:
            reply = await ask(node, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=1)
            assert reply.status == 200, reply
            answers += 1

    async def run(node: NodeProcess, queue: str) -> None:
        first = asyncio.create_task(
            ask(node, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST)
        )
        await asyncio.to_thread(eventually, lambda: waiting(node) == 1, why="the first one waits")
        await asyncio.gather(*(ask_again(node, queue) for _ in range(RESTLESS)))
        first.cancel()

    with NodeProcess(database_url=as_node(database), workers=1) as node:
        queue = client(node.ready().url).create_queue(QueueName="empty")["QueueUrl"]
        began = monotonic()
        asyncio.run(run(node, queue))
        seconds = monotonic() - began
    calls = (
        "select coalesce(sum(calls), 0) from pg_stat_user_functions"
        " where funcname = 'receive_messages'"
    )
    with psycopg.connect(database, autocommit=True) as owner:
        # Each session has reported its calls when it is gone.
        sessions = "select count(*) from pg_stat_activity where usename = 'skipmq_node'"
        here = f"{sessions} and datname = current_database()"
        eventually(lambda: number(owner, here) == 0, why="the node's sessions have ended")

        assert 1 <= number(owner, calls) <= seconds / POLL_INTERVAL + FEW


class Sender:
    """What makes a message visible, in many ways."""

    def __init__(self, nodes: Nodes, owner: Connection) -> None:
        self.nodes = nodes
        self.owner = owner
        self.name = f"queue-{next(_number)}"
        created = client(nodes[0].url).create_queue(QueueName=self.name)
        self.queue = str(created["QueueUrl"])
        self._received: list[tuple[Any, ...]] = []

    def hide(self, body: str, seconds: int) -> None:
        """Send a message and receive it."""
        self.by_http(1, body)
        claim = "select id, receive_count, message_id from skipmq.receive_message(%s, 1, %s)"
        self._received += self.owner.execute(claim, (self.name, seconds)).fetchall()

    def show(self) -> None:
        """Make the message that was hidden first visible."""
        show = "select skipmq.change_message_visibility(%s, %s, %s, %s, 0)"
        self.owner.execute(show, (self.name, *self._received.pop(0)))

    def by_sql(self, body: str, delay: int = 0, *, then: str = "select") -> None:
        """Send a message in a transaction."""
        with self.owner.transaction():
            send = "select skipmq.send_message(%s, %s, null, %s)"
            self.owner.execute(send, (self.name, body, delay))
            self.owner.execute(then)

    def by_http(self, node: int, body: str, delay: int = 0) -> None:
        """Send a message to a node."""
        client(self.nodes[node].url).send_message(
            QueueUrl=self.queue, MessageBody=body, DelaySeconds=delay
        )


def test_receivers_that_wait_without_a_poll_get_what_comes_from_anywhere(
    nodes: Nodes, owner: Connection
) -> None:
    """Each of those that wait long gets a message: none of their long polls ends without one."""
    sender = Sender(nodes, owner)
    ways: list[Callable[[str], None]] = [
        sender.by_sql,
        lambda body: sender.by_sql(body, 1),
        lambda body: sender.by_sql(body, then="select pg_sleep(0.2)"),
        lambda body: sender.by_http(0, body),
        lambda body: sender.by_http(1, body),
        lambda body: sender.by_http(1, body, 1),
        lambda _: sender.show(),
    ]
    hidden = [f"hidden {n}" for n in range(2 * ROUNDS)]
    for n, body in enumerate(hidden):
        # The half comes back by itself.
        sender.hide(body, 600 if n < ROUNDS else 3)
    number = len(ways) * ROUNDS + ROUNDS

    async def run() -> list[str]:
        here, queue = nodes[0], sender.queue
        receive = {"QueueUrl": queue, "WaitTimeSeconds": LONGEST}
        steady = [
            asyncio.create_task(ask(here, "ReceiveMessage", **receive)) for _ in range(STEADY)
        ]
        others = [asyncio.create_task(restless(here, queue)) for _ in range(number - STEADY)]
        await asyncio.to_thread(eventually, lambda: waiting(here) > STEADY, why="they wait")
        for n in range(ROUNDS):
            for way, send in enumerate(ways):
                await asyncio.to_thread(send, f"{n} {way}")
        found = bodies(await asyncio.gather(*steady))
        return [*found, *(body for each in await asyncio.gather(*others) for body in each)]

    found = asyncio.run(run())

    sent = [f"{n} {way}" for n in range(ROUNDS) for way in range(len(ways) - 1)]
    assert sorted(found) == sorted(sent + hidden)

"""Receivers that wait by the hundred, on two nodes: what wakes them, what must not stop them."""

import asyncio
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from support.crowd import Crowd, ask, bodies
from support.http import client, eventually
from support.nodes import Nodes, two_nodes
from support.postgres import Connection, Databases

CROWD = 500
MESSAGES = 40
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


@pytest.fixture
def queue(nodes: Nodes) -> str:
    attributes = {"VisibilityTimeout": "600"}
    name = f"queue-{next(_number)}"
    created = client(nodes[0].url).create_queue(QueueName=name, Attributes=attributes)
    return str(created["QueueUrl"])


def test_crowd_of_receivers_gets_each_message_once_and_keeps_nobody_out(
    nodes: Nodes, queue: str
) -> None:
    async def run() -> None:
        crowd = Crowd(nodes, queue, CROWD)
        await crowd.parked()

        await ask(nodes[0], "SendMessage", QueueUrl=queue, MessageBody="first")
        first = await crowd.answered(bool)
        for node in nodes:
            assert (await ask(node, "ListQueues")).status == 200
        assert bodies(crowd.replies()) == ["first"], first

        for n in range(MESSAGES):
            sent = await ask(nodes[n % 2], "SendMessage", QueueUrl=queue, MessageBody=str(n))
            assert sent.status == 200
        everything = await crowd.answered(lambda replies: len(bodies(replies)) > MESSAGES)
        await crowd.leave()

        assert sorted(bodies(everything)) == sorted(["first", *map(str, range(MESSAGES))])
        assert {len(reply.bodies) for reply in everything} == {1}

    asyncio.run(run())


def test_messages_sent_while_every_listener_dies_again_and_again_are_received(
    nodes: Nodes, queue: str, owner: Connection
) -> None:
    """Kill the notifiers along with the listeners: what they were about to say is lost."""
    speaking = (
        "from pg_stat_activity where datname = current_database()"
        " and (query ilike 'listen %' or query ilike '%pg_notify%') and pid <> pg_backend_pid()"
    )
    killed = f"select count(pg_terminate_backend(pid)) {speaking}"

    async def run() -> int:
        deaths = 0
        crowd = Crowd(nodes, queue, MESSAGES * 2)
        await crowd.parked()
        for n in range(MESSAGES):
            ((dead,),) = owner.execute(killed).fetchall()
            deaths += dead
            sent = await ask(nodes[n % 2], "SendMessage", QueueUrl=queue, MessageBody=str(n))
            assert sent.status == 200
        replies = await crowd.answered(lambda replies: len(bodies(replies)) >= MESSAGES)
        await crowd.leave()
        assert sorted(bodies(replies), key=int) == [str(n) for n in range(MESSAGES)]
        return deaths

    deaths = asyncio.run(run())

    assert deaths >= 2
    listening = "select count(*) from pg_stat_activity where query = 'listen skipmq'"
    eventually(
        lambda: owner.execute(f"{listening} and datname = current_database()").fetchone() == (2,),
        why="both nodes listen again",
    )


@pytest.mark.parametrize("how", ["delayed", "hidden"])
def test_message_that_becomes_visible_wakes_a_receiver_of_another_node(
    nodes: Nodes, queue: str, how: str
) -> None:
    sqs = client(nodes[0].url)
    if how == "delayed":
        sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)
    else:
        sqs.send_message(QueueUrl=queue, MessageBody="later")
        assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=2)["Messages"]

    async def run() -> list[str]:
        crowd = Crowd([nodes[1]], queue, 3)
        replies = await crowd.answered(bool)
        await crowd.leave()
        return bodies(replies)

    assert asyncio.run(run()) == ["later"]

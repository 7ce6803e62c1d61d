"""What a node knows of queues, and how it learns that others have changed them."""

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from skipmq import errors, node
from skipmq.config import Settings
from skipmq.model import OutgoingMessage, QueueName
from skipmq.node import Node
from support.http import eventually
from support.postgres import Connection, as_node
from support.sql import Queue

ORDERS = QueueName("000000000000", "us-east-1", "orders")


@pytest.fixture
def nodes(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """Give two nodes that never ask again by themselves."""
    monkeypatch.setattr(node, "CACHE_SECONDS", 1e9)
    with ExitStack() as stack:
        found = [Node(Settings(), as_node(database)) for _ in range(2)]
        for each in found:
            stack.callback(each.close)
            with each.waiters.register("anything") as waiter:
                each.start()
                # Who begins to listen forgets what it knew, and then wakes those who wait.
                eventually(lambda woken=waiter: woken.was_woken, why="the node listens")
        yield found


def timeout(at: Node) -> str:
    return at.queue(ORDERS).attributes["VisibilityTimeout"]


def change(at: Node, value: str) -> None:
    at.queues.set_attributes(at.queue(ORDERS).id, {"VisibilityTimeout": value})
    at.changed(ORDERS)


def listening(owner: Connection) -> list[int]:
    rows = owner.execute(
        "select pid from pg_stat_activity"
        " where datname = current_database() and query like 'listen %'"
    ).fetchall()
    return [pid for (pid,) in rows]


def test_queue_is_not_asked_for_again(nodes: list[Node], owner: Connection) -> None:
    Queue(owner)
    before = timeout(nodes[0])
    owner.execute("update skipmq.queue set visibility_timeout = 77")

    assert timeout(nodes[0]) == before


def test_queue_changed_at_another_node_is_asked_for_again(
    nodes: list[Node], owner: Connection
) -> None:
    Queue(owner)
    for each in nodes:
        each.queue(ORDERS)

    change(nodes[0], "77")

    assert timeout(nodes[0]) == "77"
    eventually(lambda: timeout(nodes[1]) == "77", why="the other node was told")


def test_queue_changed_while_a_node_was_deaf_is_asked_for_again(
    nodes: list[Node], owner: Connection
) -> None:
    Queue(owner)
    nodes[1].queue(ORDERS)
    deaf = listening(owner)

    owner.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", (deaf,))
    owner.execute("update skipmq.queue set visibility_timeout = 77")

    eventually(lambda: timeout(nodes[1]) == "77", why="the node listens again")


def test_queue_deleted_in_sql_is_known_to_be_gone_by_its_next_message(
    nodes: list[Node], owner: Connection
) -> None:
    orders = Queue(owner)
    nodes[0].queue(ORDERS)
    owner.execute("select skipmq.delete_queue(%s)", (orders.id,))

    with pytest.raises(errors.QueueDoesNotExist):
        nodes[0].on_queue(ORDERS, lambda queue: nodes[0].messages.receive(queue, 1, None))


def test_queue_changed_while_it_is_looked_up_is_asked_for_again(
    nodes: list[Node], owner: Connection, database: str
) -> None:
    Queue(owner)
    looked = nodes[0].queues.get

    def slowly(name: QueueName) -> object:
        found = looked(name)
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("update skipmq.queue set visibility_timeout = 77")
        nodes[0].forget(name)
        return found

    nodes[0].queues.get = slowly  # type: ignore[assignment]
    nodes[0].queue(ORDERS)
    nodes[0].queues.get = looked  # type: ignore[method-assign]

    assert timeout(nodes[0]) == "77"


@pytest.mark.parametrize(
    "settings", ["client_encoding=latin1", "options=-c%20timezone%3DAsia/Tokyo"]
)
def test_message_sent_over_an_odd_connection_is_what_it_was(
    database: str, owner: Connection, settings: str
) -> None:
    Queue(owner)
    odd = Node(Settings(), f"{as_node(database)}&{settings}")
    message = OutgoingMessage("00000000-0000-4000-8000-000000000000", "naïve 😀")

    try:
        orders = odd.queue(ORDERS)
        odd.messages.send(orders, [message], "tester")
        (received,) = odd.messages.receive(orders, 1, None).messages
    finally:
        odd.close()

    assert received.body == "naïve 😀"
    row = owner.execute("select body from skipmq.message where body = 'naïve 😀'").fetchone()
    assert row is not None

"""What a node knows of queues, and how it learns that others have changed them."""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import Any

import pytest

from skipmq.actions.dispatch import perform
from skipmq.broker import queues
from skipmq.broker.messages.message import OutgoingMessage
from skipmq.broker.node import Node
from skipmq.config.settings import Settings
from skipmq.protocol import errors, requests
from skipmq.protocol.call import Call, Recipient, Request
from skipmq.protocol.identity import Identity, QueueName
from skipmq.telemetry.metrics import Observer
from support import http
from support.loop import eventually
from support.postgres import Connection, as_node
from support.sql import Queue, number

ORDERS = QueueName("000000000000", "us-east-1", "orders")
GETS = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and query like '%%skipmq.get_queue(%%' and state = 'idle' and query_start > %s"
)


@pytest.fixture(autouse=True)
def _no_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nodes never look a queue up again by themselves."""
    monkeypatch.setattr(queues, "CACHE_SECONDS", 1e9)


@asynccontextmanager
async def listening_nodes(database: str, count: int = 2) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        found = [Node(Settings(connections=1), as_node(database)) for _ in range(count)]
        for each in found:
            stack.push_async_callback(each.close)
            with each.waiters.register("anything") as waiter:
                each.start()
                # Who begins to listen forgets what it knew, and then wakes those who wait.
                await eventually(lambda woken=waiter: woken.is_woken, why="the node listens")
        yield found


async def timeout(at: Node) -> int:
    return (await at.queues.find(ORDERS, at.deadline())).attributes.visibility_timeout


async def change(at: Node, value: str) -> None:
    queue = await at.queues.find(ORDERS, at.deadline())
    await at.queues.set_attributes(queue, {"VisibilityTimeout": value}, at.deadline())


def sessions_that_listen(owner: Connection) -> list[int]:
    rows = owner.execute(
        "select pid from pg_stat_activity"
        " where datname = current_database() and query like 'listen %'"
    ).fetchall()
    return [pid for (pid,) in rows]


async def test_queue_is_not_looked_up_again(database: str, owner: Connection) -> None:
    Queue(owner)
    async with listening_nodes(database, 1) as (alone,):
        before = await timeout(alone)
        owner.execute("update skipmq.queue set visibility_timeout = 77")

        assert await timeout(alone) == before


async def test_queue_changed_at_another_node_is_looked_up_again(
    database: str, owner: Connection
) -> None:
    Queue(owner)
    async with listening_nodes(database) as (here, there):
        for each in (here, there):
            await timeout(each)

        await change(here, "77")

        assert await timeout(here) == 77

        async def is_known_there() -> bool:
            return await timeout(there) == 77

        await eventually(is_known_there, why="the other node is notified")


async def test_queue_changed_while_a_node_did_not_listen_is_looked_up_again(
    database: str, owner: Connection
) -> None:
    Queue(owner)
    async with listening_nodes(database, 1) as (alone,):
        await timeout(alone)
        listeners = sessions_that_listen(owner)

        owner.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) pid", (listeners,))
        owner.execute("update skipmq.queue set visibility_timeout = 77")

        async def is_known() -> bool:
            return await timeout(alone) == 77

        assert len(listeners) == 1
        await eventually(is_known, why="the node listens again")


async def test_queue_deleted_in_sql_is_known_to_be_gone_by_its_next_message(
    database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    async with listening_nodes(database, 1) as (alone,):
        await timeout(alone)
        owner.execute("select skipmq.delete_queue(%s)", (orders.id,))
        deadline = alone.deadline()

        with pytest.raises(errors.QueueDoesNotExist):
            await alone.queues.on(
                ORDERS,
                deadline,
                lambda queue: alone.standard.receive(queue, 1, None, deadline, Recipient()),
            )


def answered(owner: Connection, since: object) -> bool:
    """Tell whether the database has answered; meanwhile the loop stands still and reads nothing."""
    with contextlib.suppress(AssertionError):
        return bool(http.eventually(lambda: number(owner, GETS, since), seconds=0.5))
    return False


async def test_queue_changed_while_it_is_looked_up_is_looked_up_again(
    database: str, owner: Connection
) -> None:
    """Have a node read the answer only when the queue has been changed since."""
    Queue(owner)
    async with listening_nodes(database, 1) as (alone,):
        for _ in range(2):
            before = await timeout(alone)
            alone.queues.forget(ORDERS.arn)
        # From the third time on a statement takes one message to the database.
        began = number(owner, "select clock_timestamp()")
        lookup = asyncio.create_task(timeout(alone))
        while not answered(owner, began):  # noqa: ASYNC110 - a turn of the loop is what it needs.
            await asyncio.sleep(0)
        owner.execute("update skipmq.queue set visibility_timeout = 77")
        alone.queues.forget(ORDERS.arn)

        assert await lookup == before
        assert await timeout(alone) == 77


async def test_lookups_of_a_queue_that_is_not_there_fail_alike(database: str) -> None:
    async with listening_nodes(database, 1) as (alone,):
        found = await asyncio.gather(*(timeout(alone) for _ in range(3)), return_exceptions=True)

    assert [type(error) for error in found] == [errors.QueueDoesNotExist] * 3


@pytest.mark.parametrize(
    "settings", ["client_encoding=latin1", "options=-c%20timezone%3DAsia/Tokyo"]
)
async def test_message_sent_over_an_odd_connection_is_what_it_was(
    database: str, owner: Connection, settings: str
) -> None:
    Queue(owner)
    odd = Node(Settings(), f"{as_node(database)}&{settings}")
    message = OutgoingMessage("00000000-0000-4000-8000-000000000000", "naïve 😀", 11)
    before = number(owner, "select (extract(epoch from clock_timestamp()) * 1000000)::bigint")

    try:
        deadline = monotonic() + 60
        orders = await odd.queues.find(ORDERS, deadline)
        await odd.standard.send(orders, [message], "tester", deadline)
        (received,) = (await odd.standard.receive(orders, 1, None, deadline, Recipient())).messages
    finally:
        await odd.close()

    assert received.body == "naïve 😀"
    row = owner.execute("select body from skipmq.message where body = 'naïve 😀'").fetchone()
    assert row is not None
    after = number(owner, "select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
    assert before <= received.sent_at <= received.received_at <= after


class Transactions(Observer):
    """Counts the transactions of a node."""

    def __init__(self) -> None:
        self.number = 0

    def observe(self, name: str, value: float, labels: Any = ()) -> None:
        del value, labels
        self.number += name == "transaction"


async def test_refusal_asks_the_database_as_often_whether_there_is_the_queue_or_not(
    database: str, owner: Connection
) -> None:
    """Otherwise the time that it takes reveals the queues of another account."""
    for name in ("orders", "bills"):
        Queue(owner, name)
    counted = Transactions()
    settings = Settings(auth="on", master_key=b64encode(b"k" * 32).decode(), connections=1)
    alone = Node(settings, as_node(database), counted)
    await alone.queues.find(ORDERS, alone.deadline())  # As its owner does all the time.
    asked: dict[str, list[int]] = {}

    for account in ("111111111111", "222222222222"):
        stranger = Identity(account, "us-east-1", account, f"AKIA{account}", f"user/{account}")
        for name in ("orders", "bills", "none", "orders", "bills", "none"):
            parameters = requests.SendMessage(
                QueueUrl=f"http://localhost/000000000000/{name}", MessageBody="x"
            )
            request = Request("POST", "/", {}, "", b"", "http://localhost", "id")
            call = Call("SendMessage", parameters, request, stranger, alone.deadline())
            before = counted.number
            with pytest.raises(errors.AccessDenied):
                await perform(alone, call)
            asked.setdefault(name, []).append(counted.number - before)

    assert asked == {name: [1, 0, 1, 0] for name in ("orders", "bills", "none")}
    await alone.close()


async def test_absence_of_a_queue_is_known_no_longer_than_until_it_is_created(
    database: str, owner: Connection
) -> None:
    async with listening_nodes(database) as (here, there):

        async def seen(at: Node) -> bool:
            return await at.queues.seen_by("111111111111", ORDERS, at.deadline()) is not None

        assert [await seen(each) for each in (here, there)] == [False, False]
        Queue(owner)
        assert [await seen(each) for each in (here, there)] == [False, False]

        await change(here, "31")

        assert await seen(here)
        await eventually(lambda: seen(there))
        # The owner's own requests never believe that there is none.
        Queue(owner, "bills")
        assert await here.queues.find(
            QueueName("000000000000", "us-east-1", "bills"), here.deadline()
        )


async def test_absent_queues_that_are_asked_for_take_bounded_memory(database: str) -> None:
    alone = Node(Settings(), as_node(database))
    deadline = monotonic() + 60

    async def ask(numbers: range) -> None:
        for each in numbers:
            name = QueueName("000000000000", "us-east-1", f"none-{each}")
            assert await alone.queues.seen_by("111111111111", name, deadline) is None

    most = queues.CACHED_QUEUES
    await asyncio.gather(*(ask(range(n, most + 100, 50)) for n in range(50)))

    assert 0 < len(alone.queues._seen) < most  # noqa: SLF001 - memory shows nowhere else.
    await alone.close()


async def test_node_that_stops_has_written_what_it_counted(
    database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    request = Request("POST", "/", {}, "", b"", "", "", client="10.0.0.1")
    async with listening_nodes(database, 1) as (node,):
        consumer = node.consumers.counters(orders.id, None, request)
        node.activity.note(orders.id, 3)
        consumer.begin()
        consumer.end(3)

    owner.execute("select skipmq.fold_counts(true)")
    received = "select received from skipmq.queue_statistics('000000000000') limit 1"
    assert number(owner, received) == 3
    assert number(owner, "select received from skipmq.consumer") == 3

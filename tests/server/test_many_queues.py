"""Requests for several queues that share a transaction: no queue fails or delays another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from skipmq.broker.messages.message import OutgoingMessage, Reception
from skipmq.broker.messages.receipts import Receipt
from skipmq.broker.messages.statements import receipts_for
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.config.settings import Settings
from skipmq.protocol import errors
from skipmq.protocol.call import Recipient
from skipmq.protocol.identity import QueueName
from skipmq.telemetry.metrics import Metrics
from support.postgres import Connection, as_node, with_long_lock_timeout
from support.sql import number

TYPES = pytest.mark.parametrize("suffix", ["", ".fifo"])


@asynccontextmanager
async def node_of(url: str, **settings: Any) -> AsyncIterator[Node]:
    node = Node(Settings(**settings), url, Metrics())
    try:
        await node.open()
        yield node
    finally:
        await node.close()


async def queues_of(node: Node, owner: Connection, names: Sequence[str]) -> list[Queue]:
    found = []
    for name in names:
        attributes = '{"FifoQueue": "true"}' if name.endswith(".fifo") else "{}"
        owner.execute("select skipmq.create_queue(%s, %s)", (name, attributes))
        name_ = QueueName("000000000000", "us-east-1", name)
        found.append(await node.queues.find(name_, node.deadline()))
    return found


def message(body: str, group: str = "g") -> OutgoingMessage:
    return OutgoingMessage(str(uuid4()), body, len(body), group_id=group, deduplication_id=body)


async def send(
    node: Node, *sent: tuple[Queue, str], senders: Sequence[str] = (), group: str = "g"
) -> list[Any]:
    """Send in one turn of the loop, so that the requests share a transaction."""
    requests = [
        node.messages(queue).send(
            queue,
            [
                message(body, group)
                if queue.fifo
                else OutgoingMessage(str(uuid4()), body, len(body))
            ],
            senders[n] if senders else "me",
            node.deadline(),
        )
        for n, (queue, body) in enumerate(sent)
    ]
    return await asyncio.gather(*requests, return_exceptions=True)


async def receive(
    node: Node, *queues: Queue, limit: int = 10, timeouts: Sequence[int | None] = ()
) -> list[Any]:
    requests = [
        node.messages(queue).receive(
            queue, limit, timeouts[n] if timeouts else 60, node.deadline(), Recipient()
        )
        for n, queue in enumerate(queues)
    ]
    return await asyncio.gather(*requests, return_exceptions=True)


async def delete(node: Node, *deleted: tuple[Queue, list[Receipt]]) -> list[Any]:
    requests = [node.messages(q).delete(q, receipts, node.deadline()) for q, receipts in deleted]
    return await asyncio.gather(*requests, return_exceptions=True)


async def hide(node: Node, seconds: int, *hidden: tuple[Queue, list[Receipt]]) -> list[Any]:
    requests = [
        node.messages(q).change_visibility(q, receipts, [seconds] * len(receipts), node.deadline())
        for q, receipts in hidden
    ]
    return await asyncio.gather(*requests, return_exceptions=True)


def bodies(receptions: Sequence[Reception]) -> list[list[str]]:
    return [[each.body for each in reception.messages] for reception in receptions]


def receipts(receptions: Sequence[Reception]) -> list[list[Receipt]]:
    return [receipts_for(each.messages) for each in receptions]


def calls(node: Node, operation: str) -> int:
    """Return the number of transactions of an operation."""
    assert isinstance(node.observer, Metrics)
    series = dict(node.observer.snapshot().histograms["group"])
    return sum(series[operation,].counts) if (operation,) in series else 0


@TYPES
async def test_queues_share_transactions(database: str, owner: Connection, suffix: str) -> None:
    operation = "-fifo" if suffix else ""
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, [f"q{n}{suffix}" for n in range(5)])
        for turn in range(3):  # From the second on where the last claims ended is known.
            await send(node, *[(queue, f"{queue.name.name}-{turn}") for queue in queues])
            received = await receive(node, *queues, limit=1)
            hidden = await hide(node, 100, *zip(queues, receipts(received), strict=True))
            deleted = await delete(node, *zip(queues, receipts(received), strict=True))

            assert bodies(received) == [[f"q{n}{suffix}-{turn}"] for n in range(5)]
            assert hidden == [["changed"]] * 5
            assert deleted == [["deleted"]] * 5

        assert {
            calls(node, f"{each}{operation}") for each in ("send", "receive", "change", "delete")
        } == {3}


@TYPES
async def test_queue_that_is_gone_fails_its_own_requests(
    database: str, owner: Connection, suffix: str
) -> None:
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, [f"q{n}{suffix}" for n in range(3)])
        await send(node, *[(queue, "a") for queue in queues])
        received = await receive(node, *queues)
        owner.execute("select skipmq.purge_queue(%s, '0 s')", (queues[1].id,))

        sent = await send(node, *[(queue, "b") for queue in queues])
        again = await receive(node, *queues, timeouts=[0, 0, 0])
        deleted = await delete(node, *zip(queues, receipts(received), strict=True))

    moved = [isinstance(each, errors.QueueMoved) for each in (sent[1], again[1], deleted[1])]
    assert moved == [True] * 3
    assert [len(sent[n]) for n in (0, 2)] == [1, 1]
    assert [deleted[n] for n in (0, 2)] == [["deleted"]] * 2
    stored = "select count(*) from skipmq.message where body = 'b' and queue_id = %s"
    assert [number(owner, stored, queue.id) for queue in queues] == [1, 0, 1]


async def test_message_that_another_transaction_has_locked_delays_only_its_own_requests(
    database: str, owner: Connection
) -> None:
    async with node_of(with_long_lock_timeout(as_node(database))) as node:
        queues = await queues_of(node, owner, ["stuck", "free"])
        await send(node, *[(queue, "a") for queue in queues])
        received = receipts(await receive(node, *queues))
        both = list(zip(queues, received, strict=True))
        with owner.transaction():
            owner.execute(
                "select from skipmq.message where queue_id = %s for update", (queues[0].id,)
            )
            stuck = [
                asyncio.ensure_future(hide(node, 100, *both[:1])),
                asyncio.ensure_future(delete(node, *both[:1])),
            ]
            free = [await hide(node, 100, *both[1:]), await delete(node, *both[1:])]
            waits = [each.done() for each in stuck]

        assert free == [[["changed"]], [["deleted"]]]
        assert waits == [False, False]
        assert await stuck[1] == [["deleted"]]
        assert await stuck[0] in ([["changed"]], [["missing"]])


@TYPES
async def test_empty_queues_share_transactions(
    database: str, owner: Connection, suffix: str
) -> None:
    operation = "receive-fifo" if suffix else "receive"
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, [f"q{n}{suffix}" for n in range(10)])
        assert bodies(await receive(node, *queues)) == [[]] * 10
        before = calls(node, operation)

        assert bodies(await receive(node, *queues)) == [[]] * 10
        assert calls(node, operation) == before + 1


async def test_senders_share_a_transaction(database: str, owner: Connection) -> None:
    async with node_of(as_node(database)) as node:
        for name in ("q", "q.fifo"):
            (queue,) = await queues_of(node, owner, [name])
            await send(node, *[(queue, f"{n}") for n in range(4)], senders=["a", "b", "a", "c"])
            stored = owner.execute(
                "select body, sender from skipmq.message where queue_id = %s order by body",
                (queue.id,),
            ).fetchall()

            assert stored == [("0", "a"), ("1", "b"), ("2", "a"), ("3", "c")]
        assert (calls(node, "send"), calls(node, "send-fifo")) == (1, 1)


async def test_timeouts_share_a_transaction(database: str, owner: Connection) -> None:
    async with node_of(as_node(database)) as node:
        (queue,) = await queues_of(node, owner, ["q"])
        await send(node, *[(queue, f"{n}") for n in range(3)])
        received = await receive(node, *[queue] * 3, limit=1, timeouts=[10, 20, None])
        left = owner.execute(
            "select round(extract(epoch from visible_at - clock_timestamp()) / 10)"
            " from skipmq.message where queue_id = %s order by 1",
            (queue.id,),
        ).fetchall()

    assert sorted(bodies(received)) == [["0"], ["1"], ["2"]]
    assert left == [(1,), (2,), (3,)]


async def test_recipient_that_has_disconnected_gets_nothing(
    database: str, owner: Connection
) -> None:
    gone = Recipient()
    gone.disconnect()
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, ["a", "b", "c"])
        await send(node, *[(queue, "x") for queue in queues])
        recipients = [Recipient(), gone, Recipient()]
        claims = [
            node.messages(queue).receive(queue, 1, 60, node.deadline(), recipient)
            for queue, recipient in zip(queues, recipients, strict=True)
        ]
        assert bodies(await asyncio.gather(*claims)) == [["x"], [], ["x"]]
        assert bodies(await receive(node, queues[1])) == [["x"]]


async def test_claim_of_several_queues_gives_back_what_exceeds_a_statement(
    database: str, owner: Connection
) -> None:
    fill = "select count(skipmq.send_message(%s, repeat('x', 1048576))) from generate_series(1, 15)"
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, ["a", "b"])
        await send(node, *[(queue, "small") for queue in queues])
        assert bodies(await receive(node, *queues)) == [["small"]] * 2
        for queue in queues:
            number(owner, fill, queue.name.name)

        first = await receive(node, *queues)
        found = [len(each.messages) for each in first]
        del first
        while sum(found) < 30:
            found += [len(each.messages) for each in await receive(node, *queues)]

    assert sum(found[:2]) == 16
    assert sum(found) == 30


async def test_first_message_with_a_group_waits_for_no_lock_on_its_queue(
    database: str, owner: Connection
) -> None:
    async with node_of(with_long_lock_timeout(as_node(database))) as node:
        queues = await queues_of(node, owner, ["a", "b"])
        grouped = [OutgoingMessage(str(uuid4()), "x", 1, group_id="tenant")]
        with owner.transaction():
            owner.execute(
                "select from skipmq.queue where queue_id = %s for update", (queues[0].id,)
            )
            sends = [node.messages(q).send(q, grouped, "me", node.deadline()) for q in queues]
            await asyncio.gather(*sends)
    tenants = "select tenants from skipmq.queue where queue_id = %s"

    assert [number(owner, tenants, queue.id) for queue in queues] == [False, True]


@TYPES
async def test_queue_whose_claims_take_long_is_served_apart(
    database: str, owner: Connection, suffix: str
) -> None:
    operation = "receive-fifo" if suffix else "receive"
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, [f"{n}{suffix}" for n in "abc"])
        slow = queues[1]
        assert bodies(await receive(node, *queues)) == [[]] * 3
        await send(node, *[(queue, f"{queue.id}") for queue in queues])
        owner.execute(
            "create function take_long() returns trigger language plpgsql as"
            " 'begin perform pg_sleep(0.2); return new; end'"
        )
        owner.execute(
            "create trigger long before update on skipmq.message for each row"
            f" when (old.queue_id = {slow.id}) execute function take_long()"
        )
        counts = [calls(node, operation)]
        for received in (queues, queues, [queues[0], queues[2]]):
            # With a short timeout, the claims of queues run one after another.
            await receive(node, *received, timeouts=[4] * len(received))
            counts.append(calls(node, operation))

    assert [after - before for before, after in pairwise(counts)] == [1, 2, 1]


async def test_locked_group_of_a_fifo_queue_delays_only_its_own_requests(
    database: str, owner: Connection
) -> None:
    async with node_of(as_node(database)) as node:
        stuck, _ = queues = await queues_of(node, owner, ["stuck.fifo", "free.fifo"])
        await send(node, *[(queue, "a") for queue in queues])
        received = receipts(await receive(node, *queues))
        both = list(zip(queues, received, strict=True))
        with owner.transaction():
            owner.execute("select skipmq.send_fifo_message('stuck.fifo', 'b', 'g', 'b')")
            owner.execute(
                "select from skipmq.message_group where queue_id = %s for update", (stuck.id,)
            )
            sent = [
                node.messages(queue).send(queue, [message("c")], "me", node.deadline())
                for queue in queues
            ]
            deleted = [
                node.messages(queue).delete(queue, each, node.deadline()) for queue, each in both
            ]
            tasks = [asyncio.ensure_future(each) for each in (*sent, *deleted)]
            assert len(await tasks[1]) == 1
            assert await tasks[3] == ["deleted"]
            assert [each.done() for each in tasks] == [False, True, False, True]

        assert len(await tasks[0]) == 1
        assert await tasks[2] == ["deleted"]
        assert bodies(await receive(node, *queues)) == [["b", "c"], ["c"]]


async def test_duplicates_of_fifo_queues_have_the_first_answer(
    database: str, owner: Connection
) -> None:
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, [f"q{n}.fifo" for n in range(3)])
        first = await send(node, *[(queue, "a") for queue in queues])

        mixed = await send(
            node, (queues[0], "a"), (queues[1], "b"), (queues[1], "a"), (queues[2], "a")
        )

        assert [mixed[0], mixed[2], mixed[3]] == first
        assert bodies(await receive(node, *queues)) == [["a"], ["a", "b"], ["a"]]


async def test_queue_that_takes_long_after_its_messages_is_served_apart(
    database: str, owner: Connection
) -> None:
    async with node_of(as_node(database)) as node:
        queues = await queues_of(node, owner, ["a.fifo", "b.fifo", "c.fifo"])
        slow = queues[1]
        await receive(node, *queues)
        await send(node, *[(queue, "x") for queue in queues])
        await send(node, (slow, "old"), group="h")
        owner.execute(
            "update skipmq.message set enqueued_at = now() - interval '30 days' where body = 'old'"
        )
        owner.execute(
            "create function take_long() returns trigger language plpgsql as"
            " 'begin perform pg_sleep(0.2); return old; end'"
        )
        owner.execute(
            "create trigger long before delete on skipmq.message for each row"
            " execute function take_long()"
        )
        counts = [calls(node, "receive-fifo")]
        found = await receive(node, *queues)
        for received in ([], queues, [queues[0], queues[2]]):
            await receive(node, *received)
            counts.append(calls(node, "receive-fifo"))

    assert bodies(found) == [["x"]] * 3
    assert [after - before for before, after in pairwise(counts)] == [1, 2, 1]

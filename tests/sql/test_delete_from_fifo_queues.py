from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, advance, effects, number, receipts, redrive_policy

DELETE = (
    "select outcome from skipmq.delete_from_fifo_queues"
    "(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[], 'on') order by place"
)
PLAIN = (
    "select outcome from skipmq.delete_fifo_messages"
    "(%s, %s::bigint[], %s::int[], %s::uuid[], 'on', false)"
)
GROUPS = (
    "select queue_id, group_no, first_number, available_at > skipmq.clock()"
    " from skipmq.message_group where queue_id > 0 order by 1, 2"
)
REST = "select array(select body from skipmq.message where queue_id > 0 order by body)"
Received = tuple[Queue, dict[str, Any]]


def delete(*received: Received) -> list[str]:
    """Delete them in one call; return the outcomes."""
    queues, messages = zip(*received, strict=True)
    parameters = ([q.id for q in queues], *receipts(messages))
    return [row[0] for row in queues[0].connection.execute(DELETE, parameters)]


def received(*queues: FifoQueue) -> list[Received]:
    """Send two messages of two groups to each queue, and receive them."""
    for queue in queues:
        queue.put(f"a:{queue.name} 1", f"b:{queue.name} 2")
    return [(queue, message) for queue in queues for message in queue.receive(timeout=600)]


def test_delete_from_fifo_queues_leaves_what_a_delete_from_each_would(owner: Connection) -> None:
    FifoQueue(owner, "dead.fifo")
    queues = [
        FifoQueue(owner, f"{mode}.fifo", HistoryMode=mode, DelaySeconds=delay)
        for mode, delay in (("off", 0), ("metadata", 60), ("full", 0))
    ]
    redriven = FifoQueue(owner, "redriven.fifo", RedrivePolicy=redrive_policy("dead.fifo", 1))
    redriven.put("a:failed")
    (failed,) = redriven.receive(timeout=0)
    assert redriven.receive() == []
    for queue in queues:
        queue.put("a:third", "c:next")
    advance(owner, "61 s")
    both = [(queue, each) for queue in queues for each in queue.receive(timeout=600)]
    both += received(redriven)
    for queue in queues:
        queue.put("a:last")
    earlier, settled, late = dict(both[2][1]), both[4], both[-1]
    earlier["receive_count"] = 0
    settled[0].delete(settled[1])
    late[0].hide(0, late[1])
    chosen = [
        *both[3:6], both[0], (queues[1], earlier), (redriven, failed),
        (queues[2], both[0][1]), late,
    ]  # fmt: skip

    def left(outcomes: list[str]) -> Any:
        return outcomes, owner.execute(GROUPS).fetchall()

    def apart() -> Any:
        return left(
            [number(owner, PLAIN, queue.id, *receipts([message])) for queue, message in chosen]
        )

    together = effects(owner, lambda: left(delete(*chosen)))

    assert together == effects(owner, apart)
    assert set(together["answer"][0]) == {"deleted", "missing", "expired"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    owner: Connection, orders: Queue, end: str
) -> None:
    fifo, mails = FifoQueue(owner), FifoQueue(owner, "mails.fifo")
    both = received(mails, fifo)
    orders.send("standard")
    (standard,) = orders.receive(timeout=600)
    owner.execute(end, ("mails.fifo",))

    outcomes = delete(both[0], both[2], (orders, standard), both[1], both[3])

    assert outcomes == ["moved", "deleted", "moved", "moved", "deleted"]
    assert number(owner, REST) == ["mails.fifo 1", "mails.fifo 2", "standard"]


def test_messages_of_a_locked_group_are_held_and_not_waited_for(
    database: str, owner: Connection
) -> None:
    fifo, mails = FifoQueue(owner), FifoQueue(owner, "mails.fifo")
    both = received(fifo, mails)
    with psycopg.connect(database) as other:
        fifo.on(other).hide(60, both[0][1])
        mails.on(other).delete(both[3][1])
        owner.execute("set lock_timeout = '20 s'")

        assert delete(*both) == ["held", "deleted", "deleted", "held"]

        other.commit()
    assert delete(both[0], both[3]) == ["deleted", "missing"]
    assert number(owner, REST) == []
    assert fifo.groups() == mails.groups() == 0


def test_node_may_delete_from_fifo_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'delete_from_fifo_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]

from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, effects, history, number, receipts

DELETE = "select skipmq.delete_from_queues(%s::bigint[], %s::bigint[], %s::int[], %s::uuid[], 'on')"
REST = "select array(select body from skipmq.message where queue_id > 0 order by body)"
Received = tuple[Queue, dict[str, Any]]


def delete(*received: Received) -> Any:
    """Delete them in one call; return the places of those left."""
    queues, messages = zip(*received, strict=True)
    return number(queues[0].connection, DELETE, [q.id for q in queues], *receipts(messages))


def received(*queues: Queue) -> list[Received]:
    """Send two messages to each queue, and receive them."""
    for queue in queues:
        queue.send(f"{queue.name} 1", f"{queue.name} 2")
    return [(queue, message) for queue in queues for message in queue.receive(timeout=600)]


def test_delete_from_queues_leaves_what_a_delete_from_each_would(owner: Connection) -> None:
    modes = ["off", "metadata", "full"]
    queues = [Queue(owner, mode, HistoryMode=mode) for mode in modes]
    queues[2].send("third", group="g")
    both = received(*queues)
    other_queues, earlier, twice = (queues[0], both[2][1]), dict(both[4][1]), both[1]
    earlier["receive_count"] = 0
    chosen = [*both[4:], *both[:3], other_queues, (queues[2], earlier), twice]

    def apart() -> list[int]:
        for queue, message in chosen:
            queue.delete(message)
        return []

    together = effects(owner, lambda: delete(*chosen))

    assert together == effects(owner, apart)
    assert len(together["messages"]) == 1
    assert {row["body"] for row in together["history"]} == {None, "third", "full 1", "full 2"}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    owner: Connection, end: str
) -> None:
    orders, mails = Queue(owner), Queue(owner, "mails")
    both = received(mails, orders)
    owner.execute(end, ("mails",))

    left = delete(both[0], both[2], both[1], both[3])

    assert sorted(left) == [-3, -1]
    assert number(owner, REST) == ["mails 1", "mails 2"]
    assert history(owner, "queue_id") == [(orders.id,)] * 2


def test_message_of_a_fifo_queue_is_reported_and_left(orders: Queue, fifo: FifoQueue) -> None:
    (first, second) = received(orders)
    fifo.put("g:fifo")
    (message,) = fifo.receive()

    assert delete(first, (fifo, message), second) == [-2]
    assert number(orders.connection, REST) == ["fifo"]


def test_messages_that_another_transaction_has_locked_are_reported_and_not_waited_for(
    database: str, owner: Connection
) -> None:
    orders, mails = Queue(owner), Queue(owner, "mails")
    both = received(orders, mails)
    with psycopg.connect(database) as other:
        orders.on(other).hide(60, both[0][1])
        mails.on(other).delete(both[3][1])
        owner.execute("set lock_timeout = '20 s'")

        assert sorted(delete(*both)) == [1, 4]

        assert number(owner, REST) == sorted([both[0][1]["body"], both[3][1]["body"]])
        other.commit()
    assert delete(both[0], both[3]) == []
    assert number(owner, REST) == []


def test_message_that_is_received_again_meanwhile_stays(database: str, orders: Queue) -> None:
    orders.send("a")
    (first,) = orders.receive(timeout=0)
    with psycopg.connect(database) as other:
        (again,) = orders.on(other).receive()
        assert delete((orders, first)) == [1]
        other.commit()

    assert delete((orders, first)) == []
    assert orders.counts() == (0, 1, 0)
    assert delete((orders, again)) == []
    assert orders.counts() == (0, 0, 0)


def test_node_may_delete_from_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'delete_from_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]

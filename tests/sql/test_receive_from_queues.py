from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, advance, effects, number, redrive_policy, rows

RECEIVE = (
    "select * from skipmq.receive_from_queues(%s::bigint[], %s::int[], %s::int[], 'on',"
    " %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], '1 hour', %s::bigint[],"
    " %s::bigint[], %s::int[], null)"
)
PLAIN = (
    "select * from skipmq.receive_messages(%s, %s::int, %s::int, 'on',"
    " %s::timestamptz, %s::timestamptz, '1 hour', %s::bigint[], %s::bigint[], null)"
)
HEAD = (
    "select min(visible_at) from skipmq.message where queue_id = %s and shard = 0"
    " and visible_at <= skipmq.clock()"
)
UNTIL = "select visible_at - %s from skipmq.message where id = %s"


class Place(NamedTuple):
    queue: Queue
    limit: int = 10
    timeout: int | None = 600
    low: datetime | None = None
    start: datetime | None = None
    quick: datetime | None = None
    held: Sequence[int] = ()


def quick(queue: Queue, limit: int = 10, timeout: int | None = 600) -> Place:
    """Return a place that starts quickly at the first visible message."""
    head = number(queue.connection, HEAD, queue.id)
    return Place(queue, limit, timeout, None, head, head)


def receive(*places: Place) -> list[list[dict[str, Any]]]:
    """Receive in one call; return the rows of each place."""
    queues, limits, timeouts, lows, starts, quicks, held = zip(*places, strict=True)
    columns = map(list, (limits, timeouts, lows, starts, quicks))
    xids = [xid for each in held for xid in each]
    ends = list(accumulate(map(len, held)))
    found = rows(
        queues[0].connection, RECEIVE, [q.id for q in queues], *columns, xids, [0] * len(xids), ends
    )
    return [
        [{k: v for k, v in row.items() if k != "place"} for row in found if row["place"] == place]
        for place in range(1, len(places) + 1)
    ]


def receive_apart(*places: Place) -> list[list[dict[str, Any]]]:
    """Receive with one call of the plain function for each place."""
    return [
        rows(p.queue.connection, PLAIN, p.queue.id, *p[1:5], list(p.held), [0] * len(p.held))
        for p in places
    ]


def relative(connection: Connection, places: list[list[dict[str, Any]]]) -> Any:
    """Return the rows without the time of the call, and for how long each message is hidden."""
    for row in (row for each in places for row in each):
        now = row.pop("received_at")
        if row["id"] is not None:
            row["hidden"] = number(connection, UNTIL, now, row["id"])
            row["first_received_at"] = row["first_received_at"] != now and row["first_received_at"]
        elif row["next_visible_in"] is not None:
            row["next_visible_in"] += now
    return places


def assert_as_apart(*places: Place) -> dict[str, Any]:
    connection = places[0].queue.connection
    together: dict[str, Any] = effects(connection, lambda: relative(connection, receive(*places)))
    apart = effects(connection, lambda: relative(connection, receive_apart(*places)))
    assert together == apart
    return together


def bodies(places: list[list[dict[str, Any]]]) -> list[list[str | None]]:
    return [[row["body"] for row in each] for each in places]


def queues_of_all_kinds(owner: Connection) -> list[Queue]:
    """Return queues with every reason why a claim passes over a message."""
    Queue(owner, "dead")
    plain = Queue(owner, "plain", VisibilityTimeout=77)
    expiring = Queue(owner, "expiring", MessageRetentionPeriod=60)
    redriven = Queue(owner, "redriven", RedrivePolicy=redrive_policy(most=2))
    fair, paused, empty, late = (Queue(owner, n) for n in ("fair", "paused", "empty", "late"))
    expiring.send("expired 1", "expired 2")
    expiring.receive(timeout=30)
    redriven.send("once", "twice", "failed")
    redriven.receive(1, timeout=20)
    for _ in range(2):
        redriven.receive(1, timeout=0)
    advance(owner, "65 seconds")
    expiring.send("kept 1")
    expiring.send("kept 2")
    redriven.send("new")
    for n in range(4):
        plain.send(f"plain {n}")
        fair.send(f"loud {n}", f"loud {n} again", group="loud")
        fair.send(f"quiet {n}", group="quiet")
    plain.receive(1, timeout=0)
    owner.execute(
        "insert into skipmq.noisy_tenant (queue_id, group_id, until)"
        " values (%s, 'loud', now() + interval '1 hour')",
        (fair.id,),
    )
    paused.send("never")
    owner.execute(
        'select skipmq.set_queue_attributes(%s, \'{"Paused": "true"}\'::jsonb)', (paused.id,)
    )
    late.send("later", delay=600)
    late.send("much later", delay=900)
    return [plain, expiring, redriven, fair, paused, empty, late]


@pytest.mark.parametrize("is_quick", [True, False])
def test_claim_is_what_a_claim_of_each_queue_would_be(owner: Connection, is_quick: bool) -> None:
    queues = queues_of_all_kinds(owner)

    found = assert_as_apart(*(quick(q) if is_quick else Place(q) for q in queues))

    (plain, expiring, redriven, fair, paused, empty, late) = found["answer"]
    assert len(plain) == 4
    assert [row["body"] for row in expiring] == ["kept 1", "kept 2"]
    assert {row["body"] for row in redriven} >= {"new"}
    assert len(fair) == 10
    assert [row["id"] for row in (*paused, *empty, *late)] == [None] * 3
    assert late[0]["next_visible_in"] is not None
    assert ("expired", 2) in [(event, -change) for _, event, change, *_ in found["counts"]]
    assert "dead-lettered" in {row["outcome"] for row in found["history"]}


def test_claims_of_random_mixes_are_those_of_the_plain_function(owner: Connection) -> None:
    queues = queues_of_all_kinds(owner)
    random = Random(39)  # noqa: S311 - not for secrets.
    for _ in range(25):
        assert_as_apart(
            *(
                random.choice([quick, Place])(
                    queue, random.randint(1, 7), random.choice([None, 0, 1, 600])
                )
                for queue in random.sample(queues, random.randint(1, 6))
            )
        )


def test_places_of_one_queue_share_its_messages(orders: Queue) -> None:
    for body in "abcde":
        orders.send(body)
    start = quick(orders, 2)

    found = receive(start, start, Place(orders, 2), start)

    assert [len(each) for each in found] == [2, 2, 1, 1]
    assert sorted(body for each in bodies(found) for body in each if body) == [*"abcde"]
    assert found[3][0]["id"] is None
    assert found[3][0]["received_at"] is not None


def test_message_with_a_timeout_of_zero_is_claimed_once(orders: Queue) -> None:
    orders.send("a")
    orders.send("b")

    assert bodies(receive(quick(orders, timeout=0))) == [["a", "b"]]


def test_second_place_of_a_queue_that_the_first_has_emptied_gets_a_row(orders: Queue) -> None:
    orders.send("a")
    start = quick(orders, 1)

    assert bodies(receive(start, start)) == [["a"], [None]]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    owner: Connection, fifo: FifoQueue, end: str
) -> None:
    orders, mails = Queue(owner), Queue(owner, "mails")
    orders.send("a")
    mails.send("b")
    fifo.put("g:c")
    gone = quick(mails)
    owner.execute(end, ("mails",))
    start = quick(orders)._replace(queue=fifo)

    found = receive(gone, quick(orders), Place(mails), start, Place(fifo))

    assert bodies(found) == [[None], ["a"], [None], [None], [None]]
    assert [each[0]["received_at"] is None for each in found] == [True, False, True, True, True]


def test_rows_that_others_hold_are_passed_over(database: str, owner: Connection) -> None:
    orders, mails = Queue(owner), Queue(owner, "mails")
    for queue in (orders, mails):
        queue.send("first")
        queue.send("second")
    places = quick(orders), Place(mails)
    with psycopg.connect(database) as other:
        for queue in (orders, mails):
            assert queue.on(other).bodies(1) == ["first"]
        owner.execute("set lock_timeout = '20 s'")

        assert bodies(receive(*places)) == [["second"], ["second"]]


def test_transaction_that_a_place_holds_concerns_its_queue_only(
    database: str, owner: Connection
) -> None:
    queues = [Queue(owner, name) for name in ("one", "two", "three", "four")]
    for queue in queues:
        queue.send("below")
    low = number(owner, "select skipmq.clock()")
    with psycopg.connect(database) as running, psycopg.connect(database) as ended:
        xid = "select pg_current_xact_id()::text::bigint"
        open_, closed = number(running, xid), number(ended, xid)
        ended.commit()
        held: list[tuple[int, ...]] = [(), (open_, closed), (open_,), (closed,)]
        places = [Place(q, low=low, held=h) for q, h in zip(queues, held, strict=True)]

        found = assert_as_apart(*places)["answer"]

        assert bodies(found) == [[None], ["below"], [None], ["below"]]


def test_node_may_receive_from_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'receive_from_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]

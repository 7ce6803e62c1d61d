from collections.abc import Sequence
from itertools import accumulate, chain
from random import Random
from typing import Any, NamedTuple

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import ENDS, Queue, advance, effects, number, redrive_policy, rows

RECEIVE = (
    "select * from skipmq.receive_from_fifo_queues"
    "(%s::bigint[], %s::int[], %s::int[], %s::int[], 'on')"
)
PLAIN = "select * from skipmq.claim_fifo_messages(%s, %s::int[], %s::int, 'on')"
UNTIL = "select visible_at - %s from skipmq.message where id = %s"


class Share(NamedTuple):
    queue: Queue
    limits: Sequence[int] = (1,)
    timeout: int | None = 600


def receive(*shares: Share) -> list[list[dict[str, Any]]]:
    """Receive in one call; return the rows of each share."""
    found = rows(
        shares[0].queue.connection,
        RECEIVE,
        [share.queue.id for share in shares],
        list(chain.from_iterable(share.limits for share in shares)),
        list(accumulate(len(share.limits) for share in shares)),
        [share.timeout for share in shares],
    )
    return [
        [{k: v for k, v in row.items() if k != "share"} for row in found if row["share"] == share]
        for share in range(1, len(shares) + 1)
    ]


def receive_apart(*shares: Share) -> list[list[dict[str, Any]]]:
    """Receive with one call of the plain function for each share."""
    return [
        rows(share.queue.connection, PLAIN, share.queue.id, list(share.limits), share.timeout)
        for share in shares
    ]


def bodies(shares: list[list[dict[str, Any]]]) -> list[list[tuple[int, str | None]]]:
    return [[(row["place"], row["body"]) for row in each] for each in shares]


def relative(connection: Connection, shares: list[list[dict[str, Any]]]) -> Any:
    """Return the rows without the times of calls, and for how long each message is hidden."""
    for share in shares:
        for row in share:
            now = row.pop("received_at")
            if row["id"] is not None:
                row["hidden"] = number(connection, UNTIL, now, row["id"])
                first = row["first_received_at"]
                row["first_received_at"] = first != now and first
            elif row["next_visible_in"] is not None:
                # The next group may be one that this call has hidden.
                row["next_visible_in"] = share[0]["id"] is not None or row["next_visible_in"] + now
    return shares


def assert_as_apart(*shares: Share) -> dict[str, Any]:
    connection = shares[0].queue.connection
    together: dict[str, Any] = effects(connection, lambda: relative(connection, receive(*shares)))
    apart = effects(connection, lambda: relative(connection, receive_apart(*shares)))
    assert together["answer"] == apart["answer"]
    assert together["counts"] == apart["counts"]
    return together


def queues_of_all_kinds(owner: Connection) -> list[FifoQueue]:
    """Return queues with every reason why a claim passes over a message."""
    FifoQueue(owner, "dead.fifo")
    FifoQueue(owner, "none.fifo")
    plain = FifoQueue(owner, "plain.fifo", VisibilityTimeout=77)
    expiring = FifoQueue(owner, "expiring.fifo", MessageRetentionPeriod=60)
    redriven = FifoQueue(owner, "redriven.fifo", RedrivePolicy=redrive_policy("dead.fifo", 1))
    orphan = FifoQueue(owner, "orphan.fifo", RedrivePolicy=redrive_policy("none.fifo", 1))
    owner.execute(ENDS["delete"], ("none.fifo",))
    delayed = FifoQueue(owner, "delayed.fifo", DelaySeconds=600)
    paused, empty = FifoQueue(owner, "paused.fifo"), FifoQueue(owner, "empty.fifo")
    expiring.put("a:expired", "b:expired")
    advance(owner, "65 seconds")
    expiring.put("a:kept", "c:kept")
    for queue in (redriven, orphan):
        queue.put("a:failed", "b:new")
        queue.receive(1, timeout=0)
    plain.put("a:1", "a:2", "b:1", "c:1", "d:1", "e:1", "e:2")
    plain.receive(1, timeout=600)
    delayed.put("a:later")
    paused.put("a:never")
    owner.execute(
        'select skipmq.set_queue_attributes(%s, \'{"Paused": "true"}\'::jsonb)', (paused.id,)
    )
    return [plain, expiring, redriven, orphan, delayed, paused, empty]


@pytest.mark.parametrize("timeout", [600, None, 2])
def test_claim_is_what_a_claim_of_each_queue_would_be(
    owner: Connection, timeout: int | None
) -> None:
    shares = [Share(queue, (1, 1), timeout) for queue in queues_of_all_kinds(owner)]

    together = assert_as_apart(*shares)

    found = {row["body"] for each in together["answer"] for row in each}
    assert found == {"1", "kept", "new", "failed", None}


def test_claims_of_random_mixes_are_those_of_the_plain_function(owner: Connection) -> None:
    random = Random(1)  # noqa: S311
    queues = queues_of_all_kinds(owner)
    for _ in range(10):
        chosen = random.sample(queues, 3)
        assert_as_apart(
            *[
                Share(
                    queue, [random.choice([0, 1])] * random.randint(1, 3), random.choice([600, 0])
                )
                for queue in chosen
            ]
        )


def test_each_receive_gets_a_group_of_its_own_and_then_what_it_lacks(owner: Connection) -> None:
    many, few = FifoQueue(owner), FifoQueue(owner, "few.fifo")
    many.put("a:a1", "b:b1", "a:a2", "c:c1", "c:c2", "b:b2", "a:a3")
    few.put("a:a1", "b:b1")

    found = receive(Share(many, (2, 3)), Share(few, (1, 0, 3, 3)))

    assert bodies(found) == [
        [(1, "a1"), (1, "a2"), (2, "b1"), (2, "b2"), (2, "c1")],
        [(1, "a1"), (3, "b1"), (4, None)],
    ]
    assert many.take() == few.take() == []


def test_group_whose_first_message_is_in_flight_yields_nothing(owner: Connection) -> None:
    fifo, mails = FifoQueue(owner), FifoQueue(owner, "mails.fifo")
    fifo.put("a:1", "a:2")
    mails.put("a:1")
    fifo.receive(1, timeout=600)

    assert bodies(receive(Share(fifo), Share(mails))) == [[(1, None)], [(1, "1")]]


def test_shares_of_one_queue_share_its_groups(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "c:1")

    found = receive(Share(fifo, (1,), 600), Share(fifo, (1,), 300), Share(fifo, (1, 1), 30))

    assert [[row["group_id"] for row in each] for each in found] == [["a"], ["b"], ["c", None]]
    assert [
        number(fifo.connection, UNTIL, each[0]["received_at"], each[0]["id"]).total_seconds()
        for each in found
    ] == [600, 300, 30]


def test_message_with_a_timeout_of_zero_is_claimed_once(fifo: FifoQueue) -> None:
    fifo.put("a:1")

    assert bodies(receive(Share(fifo, (2,), 0))) == [[(1, "1")]]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_queue_that_is_gone_is_reported_and_the_others_are_served(
    owner: Connection, orders: Queue, end: str
) -> None:
    fifo, mails = FifoQueue(owner), FifoQueue(owner, "mails.fifo")
    fifo.put("a:1")
    mails.put("a:1")
    orders.send("standard")
    owner.execute(end, ("mails.fifo",))

    gone, served, standard = receive(Share(mails, (1, 1)), Share(fifo), Share(orders))

    assert bodies([served]) == [[(1, "1")]]
    assert [[(row["place"], row["received_at"]) for row in each] for each in (gone, standard)] == [
        [(1, None), (2, None)],
        [(1, None)],
    ]


def test_groups_that_others_hold_are_passed_over(database: str, owner: Connection) -> None:
    fifo, mails = FifoQueue(owner), FifoQueue(owner, "mails.fifo")
    fifo.put("a:1", "b:1")
    mails.put("a:1")
    with psycopg.connect(database) as other:
        assert fifo.on(other).take(1) == ["a:1"]
        owner.execute("set lock_timeout = '20 s'")

        found = receive(Share(fifo, (1, 1)), Share(mails, (1,)))

        assert bodies(found) == [[(1, "1"), (2, None)], [(1, "1")]]
        assert found[0][0]["group_id"] == "b"


def test_node_may_receive_from_fifo_queues_and_others_may_not(owner: Connection) -> None:
    may = (
        "select array(select r.name from unnest('{node,application,reader}'::text[]) r (name)"
        " where has_function_privilege('skipmq_' || r.name,"
        " (select p.oid from pg_proc p where p.proname = 'receive_from_fifo_queues'), 'execute'))"
    )
    assert number(owner, may) == ["node"]

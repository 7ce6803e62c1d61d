from typing import Any

import psycopg
import pytest

from skipmq.database.connection import parameters
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, number, redrive_policy
from support.troubles import advance, kinds, received, troubles


def test_queue_that_works_or_is_empty_is_no_trouble(owner: Connection, orders: Queue) -> None:
    Queue(owner, "empty")
    orders.send("a", "b")
    orders.delete(*orders.receive(1))
    received(owner, orders)

    assert troubles(owner) == []


def test_messages_that_no_client_receives_are_trouble(owner: Connection, orders: Queue) -> None:
    flying = Queue(owner, "flying")
    orders.send("a")
    flying.send("a")
    flying.receive(timeout=3600)
    received(owner, flying)
    advance(owner, "700 seconds")

    (found,) = troubles(owner)

    assert (found["trouble"], found["queue"], found["messages"]) == ("not-received", "orders", 1)
    assert 700 <= found["seconds"] < 760


def test_queue_that_nobody_uses_any_more_is_no_trouble(owner: Connection, orders: Queue) -> None:
    orders.send("a")
    advance(owner, "2 hours")

    assert troubles(owner) == []


def test_queue_is_behind_while_its_clients_delete(owner: Connection, orders: Queue) -> None:
    orders.send("a", "b", "c")
    advance(owner, "700 seconds")
    orders.delete(*orders.receive(1))
    received(owner, orders)

    assert kinds(owner) == {"orders": "behind"}


def test_messages_that_are_received_and_not_deleted_are_trouble(
    owner: Connection, orders: Queue, fifo: FifoQueue
) -> None:
    fifo.put("a:1")
    orders.send("a")
    advance(owner, "1900 seconds")
    received(owner, orders, 3)
    received(owner, fifo, 30)

    assert kinds(owner) == {"orders": "not-deleted", "orders.fifo": "not-deleted"}


def test_messages_that_are_redelivered_are_trouble(owner: Connection, orders: Queue) -> None:
    orders.send("a", "b")
    orders.delete(*orders.receive(1))
    received(owner, orders, 30)
    advance(owner, "90 seconds")

    assert kinds(owner) == {"orders": "redelivered"}


def test_messages_that_are_dead_lettered_are_trouble_for_a_quarter_of_an_hour(
    owner: Connection,
) -> None:
    Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("a", "b")
    source.receive(timeout=0)
    source.receive(timeout=0)

    (found,) = troubles(owner)

    assert (found["trouble"], found["queue"], found["messages"]) == ("dead-lettered", "source", 2)
    assert found["dead_letter_queue"] == "dead"
    advance(owner, "17 minutes")
    assert troubles(owner) == []


@pytest.mark.parametrize("is_target", [False, True])
def test_messages_about_to_expire_are_trouble_and_those_that_did_are_counted(
    owner: Connection, orders: Queue, *, is_target: bool
) -> None:
    if is_target:
        Queue(owner, "source", RedrivePolicy=redrive_policy("orders"))
    owner.execute("update skipmq.queue set message_retention_period = 400")
    orders.send("a", "b")

    def found() -> list[dict[str, Any]]:
        return [each for each in troubles(owner) if each["trouble"] != "sent-dead"]

    advance(owner, "290 seconds")
    assert found() == []
    advance(owner, "320 seconds")

    (expiring,) = found()
    advance(owner, "410 seconds")
    owner.execute("select skipmq.expire_messages()")
    orders.send("c")
    (expired,) = found()

    assert (expiring["trouble"], expiring["queue"], expiring["messages"]) == (
        "expiring",
        "orders",
        2,
    )
    assert 0 < expiring["seconds"] <= 80
    assert (expired["trouble"], expired["queue"], expired["messages"]) == ("expired", "orders", 2)
    assert expired["dead_letter_queue"] is None


def test_task_that_failed_is_trouble_until_another_begins(owner: Connection, orders: Queue) -> None:
    del orders
    arn = "arn:aws:sqs:us-east-1:000000000000:orders"
    task = (
        "insert into skipmq.move_task (task_id, source_arn, status, to_move, failure_reason,"
        " started_at, paid_until) values (gen_random_uuid(), %s, %s, 5, %s,"
        " skipmq.write_time(), skipmq.write_time())"
    )
    owner.execute(task, (arn, "FAILED", "the target is gone"))
    owner.execute(task, (f"{arn}-gone", "FAILED", "the target is gone"))

    (found,) = troubles(owner)

    assert (found["trouble"], found["queue"]) == ("task-failed", "orders")
    assert found["reason"] == "the target is gone"
    advance(owner, "1 minute")
    owner.execute(task, (arn, "COMPLETED", None))
    assert troubles(owner) == []


def test_worst_come_first(owner: Connection, orders: Queue) -> None:
    behind = Queue(owner, "behind")
    for queue in (orders, behind):
        queue.send("a", "b")
    advance(owner, "700 seconds")
    received(owner, behind)

    every, first = troubles(owner), troubles(owner, 1)

    assert [each["trouble"] for each in every] == ["not-received", "behind"]
    assert [each["queue"] for each in first] == ["orders"]


@pytest.mark.parametrize("place", [("000000000001", "us-east-1"), ("000000000000", "eu-west-1")])
def test_queues_of_other_accounts_and_regions_are_left_out(
    owner: Connection, orders: Queue, place: tuple[str, str]
) -> None:
    orders.send("a")
    advance(owner, "700 seconds")
    assert kinds(owner) == {"orders": "not-received"}

    assert owner.execute("select * from skipmq.queue_troubles(%s, %s)", place).fetchall() == []


def test_troubles_of_one_queue_leave_out_those_of_others(owner: Connection, orders: Queue) -> None:
    other = Queue(owner, "other")
    for queue in (orders, other):
        queue.send("a")
    advance(owner, "700 seconds")
    query = (
        "select queue from skipmq.queue_troubles('000000000000', 'us-east-1', p_queue => 'other')"
    )

    assert kinds(owner) == {"orders": "not-received", "other": "not-received"}
    assert owner.execute(query).fetchall() == [("other",)]


def test_dead_letters_have_the_time_since_the_first_after_an_hour_without(
    owner: Connection,
) -> None:
    Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())

    def die() -> None:
        source.send("a")
        source.receive(timeout=0)
        source.receive(timeout=0)

    die()
    advance(owner, "80 minutes")
    die()
    advance(owner, "130 minutes")
    die()

    (found,) = troubles(owner)

    assert (found["trouble"], found["messages"]) == ("dead-lettered", 1)
    assert 50 * 60 <= found["seconds"] <= 53 * 60
    # A purge of the source keeps what died before.
    owner.execute("select skipmq.purge_queue(%s)", (source.id,))
    (found,) = troubles(owner)
    assert (found["trouble"], found["messages"]) == ("dead-lettered", 1)
    assert 50 * 60 <= found["seconds"] <= 53 * 60


def test_polls_that_find_the_groups_in_flight_are_receivers_idle(
    owner: Connection, fifo: FifoQueue
) -> None:
    fifo.put("a:1", "a:2")
    fifo.receive(1, timeout=3600)
    advance(owner, "700 seconds")
    received(owner, fifo, 20, "empty")

    assert kinds(owner) == {"orders.fifo": "receivers-idle"}


def test_paused_queue_and_dead_letter_queue_are_no_trouble(
    owner: Connection, orders: Queue
) -> None:
    dead = Queue(owner, "dead")
    Queue(owner, "source", RedrivePolicy=redrive_policy())
    for queue in (orders, dead):
        queue.send("a")
    advance(owner, "700 seconds")
    assert kinds(owner) == {"orders": "not-received", "dead": "sent-dead"}

    owner.execute("update skipmq.queue set paused = true where name = 'orders'")

    assert kinds(owner) == {"orders": "paused", "dead": "sent-dead"}


def test_messages_that_fail_in_a_queue_that_keeps_pace_are_named(
    owner: Connection, orders: Queue
) -> None:
    orders.send("poison", "poison", "once")
    owner.execute("update skipmq.message set receive_count = 7 where body = 'poison'")
    advance(owner, "700 seconds")
    orders.send(*"abcdefghij")
    received(owner, orders, 13)
    assert kinds(owner) == {"orders": "behind"}

    orders.delete(*(each for each in orders.receive(10) if each["body"] in "abcdefghij"))
    orders.delete(*(each for each in orders.receive(10) if each["body"] in "abcdefghij"))

    (found,) = troubles(owner)
    assert (found["trouble"], found["messages"], found["reason"]) == ("repeated", 2, "8")


def test_unusual_rate_of_dead_letters_comes_first(owner: Connection) -> None:
    Queue(owner, "dead")
    for name, usual in (("always", 100), ("never", 0)):
        queue = Queue(owner, name, RedrivePolicy=redrive_policy())
        owner.execute(
            "insert into skipmq.queue_period (queue_id, start, sent, received, deleted,"
            " dead_lettered, expired, messages)"
            " values (%s, skipmq.clock() - interval '1 day', 0, 0, 0, %s, 0, 0)",
            (queue.id, 672 * usual),
        )
        queue.send(*("abc" if usual else "ab"))
        for _ in range(2):
            queue.receive(timeout=0)

    found = [(each["queue"], each["messages"], each["usual"]) for each in troubles(owner)]

    assert found == [("never", 2, 0.0), ("always", 3, 100.0)]


def test_failure_of_a_new_kind_is_a_trouble_of_its_own(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())

    def fail(body: str, reason: str) -> None:
        source.send(body)
        source.receive(timeout=0)
        owner.execute(
            "update skipmq.message set attributes = skipmq.note_failure(attributes, %s)"
            " where queue_id = %s and body = %s",
            (reason, source.id, body),
        )
        source.receive(timeout=0)

    fail("a", "Timeout after 3 s")
    advance(owner, "2 hours")
    fail("b", "Timeout after 4 s")
    fail("c", "KeyError: 'total'")

    found = {each["trouble"]: each for each in troubles(owner)}

    assert {*found} == {"new-failure", "dead-lettered"}
    assert found["new-failure"]["reason"] == "KeyError: 'total'"
    assert (found["new-failure"]["queue"], found["new-failure"]["messages"]) == ("source", 1)
    assert found["new-failure"]["dead_letter_queue"] == dead.name


def test_kinds_of_failure_leave_room_for_other_troubles(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    for n in range(9):
        source.send(str(n))
    source.receive(9, timeout=0)
    owner.execute(
        "update skipmq.message set attributes ="
        " skipmq.note_failure(attributes, 'E' || chr(65 + body::int)) where queue_id = %s",
        (source.id,),
    )
    source.receive(9, timeout=0)

    found = [each["trouble"] for each in troubles(owner)]

    assert sorted(found) == ["dead-lettered", *["new-failure"] * 3]
    assert dead.counts() == (9, 0, 0)


def test_plans_of_nodes_are_not_compiled(database: str) -> None:
    """Those over many queues are dear in estimate and cheap to run: compiling one took seconds."""
    with psycopg.connect(**parameters(database, "test")) as node:
        assert number(node, "show jit") == "off"


def test_troubles_of_all_accounts_are_found(owner: Connection, orders: Queue) -> None:
    orders.send("a")
    advance(owner, "700 seconds")
    owner.execute("select skipmq.fold_counts()")

    found = owner.execute(
        "select account, region, queue from skipmq.queue_troubles(null, null)"
    ).fetchall()

    assert found == [("000000000000", "us-east-1", "orders")]


def test_consumers_are_not_blamed_for_messages_of_a_paused_group(
    owner: Connection, orders: Queue, fifo: FifoQueue
) -> None:
    for queue in (orders, fifo):
        owner.execute("select skipmq.pause_group(%s, 'g', p_by => 'anna')", (queue.id,))
    orders.send("a")
    owner.execute("update skipmq.message set group_id = 'g'")
    fifo.put("g:1", "h:1")
    advance(owner, "700 seconds")
    assert fifo.take() == ["h:1"]
    received(owner, fifo)

    held = {each["queue"]: each for each in troubles(owner)}

    assert {each["trouble"] for each in held.values()} == {"group-paused"}
    assert held["orders"]["reason"] == held["orders.fifo"]["reason"] == "g, which anna paused"
    assert 700 <= held["orders"]["seconds"] < 760
    gauges = "select queue, held, paused_groups from skipmq.queue_statistics() where queue <> ''"
    assert owner.execute(gauges).fetchall() == [("orders", True, 1), ("orders.fifo", True, 1)]
    for queue in (orders, fifo):
        owner.execute("select skipmq.resume_group(%s, 'g')", (queue.id,))
    assert kinds(owner) == {"orders": "not-received", "orders.fifo": "behind"}


def test_group_that_is_paused_hides_no_other_that_waits(owner: Connection, orders: Queue) -> None:
    owner.execute("select skipmq.pause_group(%s, 'g')", (orders.id,))
    orders.send("a", "b")
    owner.execute("update skipmq.message set group_id = 'g' where body = 'a'")
    advance(owner, "700 seconds")

    assert kinds(owner) == {"orders": "not-received"}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ('{"MaximumInFlight": "1"}', "its limit of 1 in flight"),
        ('{"MaximumInFlightPerGroup": "1"}', "a limit of its group g"),
        ('{"MaximumReceiveRate": "0.001"}', "its limit of 0.001 deliveries a second"),
        ('{"MaximumReceiveRatePerGroup": "0.001"}', "a limit of its group g"),
    ],
)
def test_limit_that_is_reached_is_named(
    owner: Connection, orders: Queue, limits: str, reason: str
) -> None:
    owner.execute("select skipmq.set_queue_attributes(%s, %s)", (orders.id, limits))
    orders.send("a", "b")
    owner.execute("update skipmq.message set group_id = 'g'")
    advance(owner, "700 seconds")
    assert kinds(owner) == {"orders": "not-received"}

    assert len(orders.receive(2, timeout=3600)) == 1
    received(owner, orders)

    (found,) = troubles(owner)
    assert (found["trouble"], found["reason"]) == ("limited", reason)

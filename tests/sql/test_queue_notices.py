from typing import Any

from support.postgres import Connection
from support.schedules import advance_to, create
from support.sql import Queue, redrive_policy


def notices(owner: Connection) -> list[tuple[Any, ...]]:
    owner.execute("select skipmq.fold_counts()")
    return owner.execute(
        "select trouble, queue, messages, reason"
        " from skipmq.queue_notices(null, null, null, skipmq.clock())"
    ).fetchall()


def test_messages_that_clients_send_to_a_dead_letter_queue_name_its_only_source(
    owner: Connection,
) -> None:
    dead = Queue(owner, "dead")
    Queue(owner, "busy").send("a")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("a")
    source.receive(timeout=0)
    source.receive(timeout=0)
    assert notices(owner) == []
    dead.send("b", "c")

    assert notices(owner) == [("sent-dead", "dead", 2, "source")]
    Queue(owner, "other", RedrivePolicy=redrive_policy())
    assert notices(owner) == [("sent-dead", "dead", 2, None)]


def test_paused_queue_is_named_with_who(owner: Connection, orders: Queue) -> None:
    attributes = '{"Paused": "true", "PausedBy": "anna"}'
    owner.execute("select skipmq.set_queue_attributes(%s, %s)", (orders.id, attributes))

    assert notices(owner) == [("paused", "orders", None, "anna")]


def test_schedule_that_a_failure_has_ended_is_named_until_it_is_resumed(
    owner: Connection, orders: Queue
) -> None:
    del orders
    create(owner)
    create(owner, "goes-on")
    advance_to(owner, None, None, "no such zone")

    assert notices(owner) == [("schedule-ended", "orders", None, "tick: no such zone")]
    owner.execute("select skipmq.change_schedule('tick', 'resume')")
    assert notices(owner) == []

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, advance, history, number

MOVE = "select skipmq.move_batch(%s, %s, %s)"
MOVE_FIFO = "select skipmq.move_fifo_batch(%s, %s, %s)"
MOVE_SOME = (
    "select array(select outcome from skipmq.move_messages(%s, %s::bigint[], %s::uuid[], %s))"
)
IDENTITY = "select id, message_id, sent_at from skipmq.message where body <> ''"


def test_redriven_message_is_a_new_one(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    (before,) = owner.execute(IDENTITY).fetchall()
    advance(owner, "1 minute")

    number(owner, MOVE, redrive.dead.id, None, 10)

    (after,) = owner.execute(IDENTITY).fetchall()
    assert after[0] > before[0]
    assert after[1] != before[1]
    assert after[2] > before[2]


def test_redriven_message_leaves_the_old_one_in_the_history(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    ((_, message_id, _),) = owner.execute(IDENTITY).fetchall()

    number(owner, MOVE, redrive.dead.id, None, 10)

    assert history(owner, "outcome, queue_id, message_id") == [
        ("dead-lettered", redrive.source.id, message_id),
        ("redriven", redrive.dead.id, message_id),
    ]


def test_message_older_than_the_retention_period_of_its_target_lives_on(owner: Connection) -> None:
    dead = Queue(owner, "dead", MessageRetentionPeriod="1209600")
    orders = Queue(owner, "orders")
    dead.send("redriven")
    dead.send("moved")
    advance(owner, "5 days")

    assert number(owner, MOVE, dead.id, orders.id, 1) == 1
    row = owner.execute(
        "select array[id], array[message_id] from skipmq.message where queue_id = %s", (dead.id,)
    ).fetchone()
    assert number(owner, MOVE_SOME, dead.id, *(row or ()), orders.id) == ["moved"]

    owner.execute("select skipmq.expire_messages()")
    assert sorted(orders.bodies()) == ["moved", "redriven"]


def test_what_leaves_by_retention_says_so_in_the_history(owner: Connection) -> None:
    """A dead letter keeps the time when it was first sent."""
    redrive = Redrive(owner, 1)
    advance(owner, "5 days")

    owner.execute("select skipmq.expire_messages()")

    assert redrive.dead.counts() == (0, 0, 0)
    assert history(owner, "outcome, queue_id")[-1] == ("expired", redrive.dead.id)


def test_redriven_fifo_message_is_a_new_one_too(owner: Connection) -> None:
    dead, target = FifoQueue(owner, "dead.fifo"), FifoQueue(owner, "target.fifo")
    dead.put("g:a")
    (before,) = owner.execute(IDENTITY).fetchall()
    advance(owner, "1 minute")

    assert number(owner, MOVE_FIFO, dead.id, target.id, 10) == 1

    (after,) = owner.execute(IDENTITY).fetchall()
    assert after[0] > before[0]
    assert after[1] != before[1]
    assert after[2] > before[2]
    assert history(owner, "outcome, message_id") == [("redriven", before[1])]

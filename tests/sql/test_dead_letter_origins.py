from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, number, redrive_policy

ARN = "arn:aws:sqs:us-east-1:000000000000:"
ORIGINS = "select coalesce(array_agg(o), '{}') from skipmq.dead_letter_origins(%s, %s::int) o"


def test_origins_are_those_of_messages_and_not_the_sources_of_today(
    owner: Connection, node: Connection
) -> None:
    redrive = Redrive(owner, 3)
    Queue(owner, "source-of-today", RedrivePolicy=redrive_policy())
    redrive.dead.send("sent here")
    owner.execute(
        "select skipmq.set_queue_attributes(%s, %s)", (redrive.source.id, '{"RedrivePolicy": ""}')
    )

    assert number(node, ORIGINS, redrive.arn, 100) == [f"{ARN}source"]


def test_origin_that_was_deleted_is_none(owner: Connection) -> None:
    redrive = Redrive(owner, 1)

    owner.execute("select skipmq.delete_queue(%s)", (redrive.source.id,))

    assert number(owner, ORIGINS, redrive.arn, 100) == []


def test_origins_of_a_fifo_queue(owner: Connection) -> None:
    FifoQueue(owner, "dead.fifo")
    for name in ("b.fifo", "a.fifo"):
        source = FifoQueue(owner, name, RedrivePolicy=redrive_policy("dead.fifo"))
        source.put("g:1", "h:2")
        while source.take(timeout=0):
            pass

    assert number(owner, ORIGINS, f"{ARN}dead.fifo", 100) == [f"{ARN}a.fifo", f"{ARN}b.fifo"]


def test_no_more_messages_are_read_than_the_limit(owner: Connection) -> None:
    redrive = Redrive(owner, 3)

    assert number(owner, ORIGINS, redrive.arn, 0) == []
    assert number(owner, ORIGINS, redrive.arn, 1) == [f"{ARN}source"]


def test_absent_queue_has_none(owner: Connection) -> None:
    assert number(owner, ORIGINS, f"{ARN}none", 100) == []

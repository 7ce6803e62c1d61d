import threading

import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import number, until_blocked

POLICY = (
    '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead.fifo","maxReceiveCount":1}'
)


def test_letter_goes_behind_what_its_group_has_there(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    dead.put("a:before")
    fifo.take(timeout=0)
    assert fifo.take() == []
    dead.put("a:after")

    assert dead.take() == ["a:before", "a:letter", "a:after"]


def test_letter_waits_for_a_sender_of_its_group_there(owner: Connection, database: str) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    fifo.take(timeout=0)
    with psycopg.connect(database) as slow, psycopg.connect(database, autocommit=True) as other:
        dead.on(slow).put("a:before")
        thread = threading.Thread(target=lambda: fifo.on(other).take())
        thread.start()
        until_blocked(owner)
        slow.commit()
        thread.join(timeout=30)

    assert dead.take() == ["a:before", "a:letter"]


def test_letter_for_a_purged_queue_is_not_lost(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    fifo.take(timeout=0)
    dead.id = number(owner, "select skipmq.purge_queue(%s)", dead.id)
    assert fifo.take() == []

    assert dead.take() == ["a:letter"]


def test_retention_begins_anew_in_the_dead_letter_queue(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    fifo.take(timeout=0)
    fifo.take()

    (letter,) = dead.receive()
    enqueued = number(owner, "select enqueued_at from skipmq.message where id = %s", letter["id"])
    assert enqueued > letter["sent_at"]

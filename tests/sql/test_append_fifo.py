import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, number, redrive_policy

POLICY = redrive_policy("dead.fifo")


def test_letter_goes_behind_what_its_group_has_there(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    dead.put("a:before")
    fifo.take(timeout=0)
    assert fifo.take() == []
    dead.put("a:after")

    assert dead.take() == ["a:before", "a:letter", "a:after"]


def test_letter_has_its_message_id_as_deduplication_id(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    (sent,) = fifo.put("a:letter", ids=["once"])
    fifo.take(timeout=0)
    fifo.take()

    (letter,) = dead.receive()
    assert letter["deduplication_id"] == sent.message_id


def test_letter_lets_a_sender_of_its_group_there_go_first(owner: Connection, database: str) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:1", "a:2", "b:1")
    fifo.receive(1, timeout=0)
    with psycopg.connect(database) as sending:
        dead.on(sending).put("a:0")
        assert fifo.take() == ["b:1"]
        sending.commit()

    advance(owner, "1 s")
    assert fifo.take() == ["a:2"]
    assert dead.take() == ["a:0", "a:1"]


def test_letter_for_a_purged_queue_is_not_lost(owner: Connection) -> None:
    dead = FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, RedrivePolicy=POLICY)
    fifo.put("a:letter")
    fifo.take(timeout=0)
    dead.id = number(owner, "select queue_id from skipmq.purge_queue(%s)", dead.id)
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

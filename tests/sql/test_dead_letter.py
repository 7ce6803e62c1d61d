import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, history, number

MOVE = """
select skipmq.dead_letter(%s, array(
  select ctid from skipmq.message where queue_id > 0 for no key update), %s, skipmq.write_time())"""


def test_rows_are_moved_with_their_history_and_numbers(owner: Connection) -> None:
    source, dead = Queue(owner), Queue(owner, "dead")
    source.send("a", "b")
    received = source.receive()

    assert number(owner, MOVE, source.id, dead.id) == 2

    assert (source.counts(), dead.counts()) == ((0, 0, 0), (2, 0, 0))
    assert history(owner, "outcome, queue_id") == [("dead-lettered", source.id)] * 2
    assert dead.delete(*received) == 0
    assert {row["dead_letter_source"] for row in dead.receive()} == {
        "arn:aws:sqs:us-east-1:000000000000:orders"
    }


def test_rows_of_a_queue_that_was_purged_stay(owner: Connection) -> None:
    source, dead = Queue(owner), Queue(owner, "dead")
    source.send("a")
    owner.execute("select skipmq.purge_queue(%s)", (source.id,))

    assert number(owner, MOVE, source.id, dead.id) == 0
    assert dead.counts() == (0, 0, 0)


def test_rows_are_not_for_nodes_to_move(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.dead_letter(1, '{}', 2, now())")

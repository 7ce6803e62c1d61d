"""A transaction that sends by SQL, and what has happened to the queue since it began."""

import psycopg
import pytest

from support.postgres import Connection
from support.sql import ENDS, SENDS, Queue

each_kind = pytest.mark.parametrize("name", SENDS)
each_end = pytest.mark.parametrize("end", ENDS)


@each_kind
@each_end
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_transaction_that_cannot_see_the_end_of_its_queue_fails(
    owner: Connection, database: str, name: str, end: str, isolation: str
) -> None:
    Queue(owner, name)
    with psycopg.connect(database) as sender:
        sender.execute(f"set transaction isolation level {isolation}")
        sender.execute("select count(*) from skipmq.queue")
        owner.execute(ENDS[end], (name,))

        with pytest.raises(psycopg.errors.SerializationFailure):
            sender.execute(SENDS[name])


@each_end
def test_send_to_a_generation_that_is_over_fails(owner: Connection, end: str) -> None:
    queue = Queue(owner)
    owner.execute(ENDS[end], ("orders",))

    with pytest.raises(psycopg.Error) as caught:
        queue.send("to nobody")

    assert caught.value.sqlstate == "SQ005"


@pytest.mark.parametrize("undo", ["rollback", "rollback to savepoint before"])
def test_send_that_is_undone_holds_nothing(owner: Connection, database: str, undo: str) -> None:
    Queue(owner)
    with psycopg.connect(database) as sender:
        sender.execute("savepoint before")
        sender.execute(SENDS["orders"])
        sender.execute(undo)

        owner.execute("set lock_timeout = '10s'")
        owner.execute(ENDS["purge"], ("orders",))

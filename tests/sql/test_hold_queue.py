"""A transaction that sends by SQL, and a purge or a deletion of the queue beside it."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from support.postgres import Connection
from support.sql import ENDS, SENDS, Queue, number, until_blocked

BODIES = """
  select array_agg(m.body) from skipmq.message m
  join skipmq.queue q using (queue_id) where q.name = %s"""
each_kind = pytest.mark.parametrize("name", SENDS)
each_end = pytest.mark.parametrize("end", ENDS)


def begun(database: str, name: str, end: str, pool: ThreadPoolExecutor) -> "Future[object]":
    """Begin to purge or delete a queue in a thread, in a session of its own."""

    def run() -> object:
        with psycopg.connect(database, autocommit=True) as connection:
            return number(connection, ENDS[end], name)

    return pool.submit(run)


@each_kind
@each_end
def test_end_of_a_queue_waits_for_all_transactions_that_sent_to_it(
    owner: Connection, database: str, name: str, end: str
) -> None:
    Queue(owner, name)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        senders = [stack.enter_context(psycopg.connect(database)) for _ in range(3)]
        for sender in senders:
            sender.execute(SENDS[name].replace("'g'", f"'g{id(sender)}'"))
        ended = begun(database, name, end, pool)
        for sender in senders:
            until_blocked(owner)
            assert not ended.done()
            sender.commit()
        ended.result(timeout=30)

    # It came after them, and took what they had sent.
    assert number(owner, BODIES, name) is None


@each_kind
def test_purge_takes_what_was_sent_before_and_leaves_what_is_sent_after(
    owner: Connection, database: str, name: str
) -> None:
    Queue(owner, name)
    with psycopg.connect(database) as sender:
        # The transaction is older than the purge; what it sends is not.
        sender.execute("select 1")
        owner.execute(ENDS["purge"], (name,))
        sender.execute(SENDS[name])

    assert number(owner, BODIES, name) == ["sent by SQL"]


@each_kind
def test_send_that_waits_for_a_purge_is_there_after_it(
    owner: Connection, database: str, name: str
) -> None:
    queue = Queue(owner, name)
    with psycopg.connect(database) as purger, ThreadPoolExecutor() as pool:
        purger.execute(ENDS["purge"], (name,))

        def send() -> None:
            with psycopg.connect(database) as sender:
                sender.execute(SENDS[name])

        sent = pool.submit(send)
        until_blocked(owner)
        purger.commit()
        sent.result(timeout=30)

    assert number(owner, "select skipmq.queue_id(%s)", name) != queue.id
    assert number(owner, BODIES, name) == ["sent by SQL"]


@each_kind
def test_send_to_a_queue_that_is_deleted_meanwhile_fails(
    owner: Connection, database: str, name: str
) -> None:
    Queue(owner, name)
    with psycopg.connect(database) as sender:
        sender.execute("select 1")
        owner.execute(ENDS["delete"], (name,))

        with pytest.raises(psycopg.Error, match="does not exist"):
            sender.execute(SENDS[name])


def test_transactions_that_send_to_each_others_queues_do_not_wait_for_each_other(
    owner: Connection, database: str
) -> None:
    names = ["one", "two"]
    for name in names:
        Queue(owner, name)
    send: Callable[[str], str] = "select skipmq.send_message('{}', 'a')".format
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        for connection, order in ((first, names), (second, names[::-1])):
            for name in order:
                connection.execute(send(name))

    assert [number(owner, BODIES, name) for name in names] == [["a", "a"]] * 2

import psycopg

from support.postgres import Connection
from support.sql import Queue, advance, history, number


def test_clear_settles_what_purge_and_delete_left(owner: Connection) -> None:
    purged, deleted, kept = (Queue(owner, name) for name in ("purged", "deleted", "kept"))
    for queue in (purged, deleted, kept):
        queue.send("waiting", "in flight")
        queue.receive(limit=1)
    owner.execute("select skipmq.purge_queue(%s)", (purged.id,))
    owner.execute("select skipmq.delete_queue(%s)", (deleted.id,))

    cleared = number(owner, "select skipmq.clear_retired()")

    assert cleared == 4
    assert history(owner) == [("purged",)] * 4
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 2


def test_clear_does_at_most_a_chunk(orders: Queue) -> None:
    orders.send(*"abcde")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    done = [number(orders.connection, "select skipmq.clear_retired(2)") for _ in range(4)]

    assert done == [2, 2, 1, 0]


def test_clear_finishes_an_generation_an_hour_after_its_end(orders: Queue) -> None:
    finished = "select count(*) from skipmq.generation where cleared_at is not null"
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    orders.connection.execute("select skipmq.clear_retired()")
    before = number(orders.connection, finished)
    advance(orders.connection, "61 minutes")
    orders.connection.execute("select skipmq.clear_retired()")

    assert (before, number(orders.connection, finished)) == (0, 1)


def test_clear_sees_a_message_that_was_committed_late(orders: Queue) -> None:
    orders.connection.execute(
        "insert into skipmq.generation values (77, '0', 'r', 'n', 'off', now(), now(), 'purged')"
    )
    number(orders.connection, "select skipmq.clear_retired()")
    orders.send("late")
    orders.connection.execute("update skipmq.message set queue_id = 77 where queue_id > 0")

    assert number(orders.connection, "select skipmq.clear_retired()") == 1


def test_clear_leaves_what_a_receiver_holds_for_later(orders: Queue, database: str) -> None:
    finished = "select count(*) from skipmq.generation where cleared_at is not null"
    orders.send("a", "b")
    with psycopg.connect(database) as other:
        orders.on(other).receive(limit=1)
        orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))
        advance(orders.connection, "61 minutes")

        done = [number(orders.connection, "select skipmq.clear_retired()") for _ in range(2)]

        assert done == [1, 0]
        assert number(orders.connection, finished) == 0

    done = [number(orders.connection, "select skipmq.clear_retired()") for _ in range(2)]
    assert done == [1, 0]
    assert number(orders.connection, finished) == 1


def test_nothing_is_left_of_the_counts_of_a_finished_generation(orders: Queue) -> None:
    orders.send("a", "b")
    number(orders.connection, "select skipmq.fold_counts(true)")
    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))
    # As the move of a queue to another partition leaves it.
    orders.connection.execute(
        "insert into skipmq.paused_group values (%s, 'g', null, now(), 'x')", (orders.id,)
    )
    advance(orders.connection, "61 minutes")
    while number(orders.connection, "select skipmq.clear_retired()"):
        pass

    number(orders.connection, "select skipmq.fold_counts(true)")

    # That of the generation that followed, whose totals continue.
    assert number(orders.connection, "select count(*) from skipmq.queue_count") == 1
    assert number(orders.connection, "select count(*) from skipmq.paused_group") == 0


def test_clear_deletes_what_another_partition_has_without_history(orders: Queue) -> None:
    connection = orders.connection
    orders.send("a", "b")
    connection.execute("delete from skipmq.queue")
    connection.execute(
        "update skipmq.generation set retired_at = skipmq.clock(), retired_as = 'moved'"
    )
    connection.execute(
        "insert into skipmq.relocation values"
        " (%s, 33554433, '000000000000', 'us-east-1', 'orders', '{}')",
        (orders.id,),
    )

    held = number(connection, "select skipmq.clear_retired()")
    connection.execute("delete from skipmq.relocation")
    cleared = number(connection, "select skipmq.clear_retired()")

    assert (held, cleared) == (0, 2)
    assert history(connection) == []
    assert number(connection, "select count(*) from skipmq.message where queue_id > 0") == 0

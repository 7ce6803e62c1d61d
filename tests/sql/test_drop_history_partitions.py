import psycopg
import pytest

from support.postgres import Connection
from support.sql import (
    RECORD,
    Queue,
    advance,
    history,
    number,
    recorded,
    settle_on_recorded_day,
)

DROP = "select skipmq.drop_history_partitions('7 days')"
DROP_ARCHIVED = "select skipmq.drop_history_partitions('7 days', true)"


def test_drop_removes_only_days_past_the_keeping_time(owner: Connection) -> None:
    advance(owner, "10 days")

    assert number(owner, DROP) == 3
    assert number(owner, DROP) == 0


def test_drop_of_a_day_that_is_being_read_gives_up_quickly(
    database: str, owner: Connection
) -> None:
    day = number(owner, "select to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')")
    advance(owner, "10 days")
    with psycopg.connect(database) as reader:
        reader.execute(f"select * from skipmq.history_{day}")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            owner.execute(DROP)

    assert number(owner, DROP) == 3


def test_drop_takes_old_days_out_of_the_default_partition(orders: Queue) -> None:
    owner = orders.connection
    orders.send("a")
    received = orders.receive(timeout=43_200)
    advance(owner, "10 days")
    orders.delete(*received)
    assert number(owner, "select count(*) from skipmq.history_default") == 1

    advance(owner, "18 days")
    number(owner, DROP)

    assert number(owner, "select count(*) from skipmq.history") == 0


def test_drop_of_less_than_a_day_is_refused(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        owner.execute("select skipmq.drop_history_partitions('-100 days')")


def test_drop_with_archive_takes_only_days_that_were_recorded(owner: Connection) -> None:
    day = number(owner, "select (clock_timestamp() at time zone 'UTC')::date")
    advance(owner, "10 days")
    assert number(owner, DROP_ARCHIVED) == 0

    assert number(owner, RECORD, day, 0, 0)

    assert number(owner, DROP_ARCHIVED) == 1
    assert number(owner, DROP_ARCHIVED) == 0


def test_drop_with_archive_keeps_a_day_that_got_rows_since(orders: Queue) -> None:
    owner = orders.connection
    settle_on_recorded_day(orders)
    advance(owner, "8 days")

    assert number(owner, DROP_ARCHIVED) == 0
    assert number(owner, "select count(*) from skipmq.archived_day") == 0
    assert history(owner) == [("deleted",)]


def test_drop_with_archive_leaves_in_the_default_partition_what_no_export_has(
    orders: Queue,
) -> None:
    owner = orders.connection
    orders.send("a", "b")
    received = orders.receive(timeout=43_200)
    advance(owner, "10 days")
    orders.delete(received[0])
    day = number(owner, "select (settled_at at time zone 'UTC')::date from skipmq.history")
    to = number(owner, "select max(xid) + 1 from skipmq.history")
    advance(owner, "11 days")
    assert recorded(owner, day, 1, to)
    advance(owner, "10 days")
    orders.delete(received[1])
    advance(owner, "18 days")
    assert recorded(owner, day, 1, to)

    number(owner, DROP_ARCHIVED)

    assert history(owner, "id") == [(received[1]["id"],)]


def test_drop_with_archive_waits_for_an_export_that_has_just_seen_the_files(
    owner: Connection,
) -> None:
    day = number(owner, "select (clock_timestamp() at time zone 'UTC')::date")
    advance(owner, "6 days")
    assert number(owner, RECORD, day, 0, 0)
    advance(owner, "8 days")
    assert number(owner, DROP_ARCHIVED) == 0

    assert number(owner, RECORD, day, 0, 0)

    assert number(owner, DROP_ARCHIVED) == 1
    assert number(owner, "select dropped from skipmq.archived_day")
    assert number(owner, RECORD, day, 0, 0)


def test_ids_of_erased_messages_are_kept_as_long_as_the_history(orders: Queue) -> None:
    owner = orders.connection
    orders.send("a")
    erase = (
        "select skipmq.erase_messages(%s, array_agg(id), array_agg(message_id)) from skipmq.message"
    )
    noted = "select count(*) from skipmq.erased_message"
    number(owner, erase, orders.id)

    counts = []
    for days in (1, 30):
        advance(owner, f"{days} days")
        number(owner, "select skipmq.create_history_partitions()")
        number(owner, "select skipmq.drop_history_partitions('7 days')")
        counts.append(number(owner, noted))

    assert counts == [1, 0]

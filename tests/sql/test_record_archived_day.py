from datetime import date, timedelta

import psycopg

from support.postgres import Connection
from support.sql import RECORD, Queue, advance, number, recorded

TODAY = "select (clock_timestamp() at time zone 'UTC')::date"
NEXT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def settle(orders: Queue, count: int) -> date:
    """Settle so many messages; return the day."""
    orders.send(*["x"] * count)
    orders.delete(*orders.receive())
    day = number(orders.connection, TODAY)
    assert isinstance(day, date)
    return day


def test_day_that_is_over_is_recorded_with_its_rows(orders: Queue) -> None:
    day, owner = settle(orders, 3), orders.connection
    to = number(owner, NEXT)
    advance(owner, "1 day")

    assert recorded(owner, day, 3, to)
    assert owner.execute("select day, rows, to_xid from skipmq_views.archived_day").fetchall() == [
        (day, 3, to)
    ]


def test_day_that_the_export_has_no_more_is_withdrawn(orders: Queue) -> None:
    day, owner = settle(orders, 3), orders.connection
    to = number(owner, NEXT)
    advance(owner, "1 day")
    assert recorded(owner, day, 3, to)

    assert number(owner, RECORD, day, 2, to) is False

    assert number(owner, "select count(*) from skipmq.archived_day") == 0


def test_lake_that_is_not_the_archive_records_nothing_unless_it_replaces_it(orders: Queue) -> None:
    day, owner = settle(orders, 3), orders.connection
    to = number(owner, NEXT)
    advance(owner, "1 day")
    other = f"{RECORD[:-1]}, 'other', 'place')"
    assert recorded(owner, day, 3, to)

    assert number(owner, other, day, 3, to) is False
    assert number(owner, "select lake from skipmq_views.archived_day") == ""
    assert number(owner, other.replace("'place'", "'place', true"), day, 3, to)
    assert number(owner, "select lake from skipmq_views.archived_day") == "other"
    assert number(owner, RECORD, day, 3, to) is False


def test_day_that_goes_on_is_not_recorded(orders: Queue) -> None:
    day = settle(orders, 1)

    assert number(orders.connection, RECORD, day, 1, number(orders.connection, NEXT)) is False


def test_day_with_another_number_of_rows_is_not_recorded(orders: Queue) -> None:
    day, owner = settle(orders, 3), orders.connection
    to = number(owner, NEXT)
    advance(owner, "1 day")

    assert number(owner, RECORD, day, 2, to) is False
    assert number(owner, RECORD, day, 4, to) is False
    assert number(owner, "select count(*) from skipmq.archived_day") == 0


def test_day_with_rows_behind_what_was_exported_is_not_recorded(orders: Queue) -> None:
    settle(orders, 3)
    owner = orders.connection
    to = number(owner, NEXT)
    day = settle(orders, 1)
    advance(owner, "1 day")

    assert number(owner, RECORD, day, 3, to) is False
    assert recorded(owner, day, 4, number(owner, NEXT))


def test_day_below_an_open_transaction_is_not_recorded(database: str, orders: Queue) -> None:
    day, owner = settle(orders, 1), orders.connection
    advance(owner, "1 day")
    with psycopg.connect(database) as other:
        to = number(other, "select pg_current_xact_id()::text::bigint") + 1

        assert number(owner, RECORD, day, 1, to) is False

    assert recorded(owner, day, 1, to)


def test_day_without_rows_and_day_recorded_before_are_no_error(owner: Connection) -> None:
    day = number(owner, TODAY) - timedelta(days=1)

    assert [number(owner, RECORD, day, 0, 0) for _ in range(2)] == [True, True]


def test_node_may_record_and_reader_may_not(orders: Queue, node: Connection) -> None:
    day = settle(orders, 1)

    assert number(node, RECORD, day, 1, 0) is False
    assert not number(
        node,
        "select has_schema_privilege('skipmq_reader', 'skipmq', 'usage')"
        " or has_function_privilege('skipmq_reader',"
        " 'skipmq.record_archived_day(date, bigint, bigint, text, text, boolean)', 'execute')",
    )

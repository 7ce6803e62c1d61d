from datetime import date

from support.postgres import Connection
from support.sql import RECORD, Queue, advance, number, recorded, settle_on_recorded_day

COUNT = "select skipmq.count_unarchived_days('7 days')"
DROP = "select skipmq.drop_history_partitions('7 days', true)"
NEXT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


def today(owner: Connection) -> date:
    day = number(owner, "select (skipmq.clock() at time zone 'UTC')::date")
    assert isinstance(day, date)
    return day


def test_days_past_the_keeping_time_that_no_export_has_are_counted(owner: Connection) -> None:
    day = today(owner)
    assert number(owner, COUNT) == 0
    advance(owner, "10 days")
    assert number(owner, COUNT) == 3

    assert number(owner, RECORD, day, 0, 0)

    assert number(owner, COUNT) == 2
    assert number(owner, DROP) == 1
    assert number(owner, COUNT) == 2


def test_day_that_got_rows_since_is_counted_when_it_was_kept(orders: Queue) -> None:
    owner = orders.connection
    settle_on_recorded_day(orders)
    advance(owner, "8 days")
    assert number(owner, COUNT) == 0

    assert number(owner, DROP) == 0

    assert number(owner, COUNT) == 1


def test_day_of_the_default_partition_is_counted_until_an_export_has_all_of_it(
    orders: Queue,
) -> None:
    owner = orders.connection
    orders.send("a", "b", "c")
    received = orders.receive(timeout=43_200)
    advance(owner, "10 days")
    day = today(owner)
    orders.delete(*received[:2])
    to = number(owner, NEXT)
    advance(owner, "18 days")
    assert number(owner, "select count(*) from skipmq.history_default") == 2
    assert number(owner, COUNT) == 8 + 1  # Of the days before it nothing was recorded either.

    assert recorded(owner, day, 2, to)
    assert number(owner, COUNT) == 8

    advance(owner, "10 days")
    orders.delete(received[2])
    advance(owner, "18 days")
    assert number(owner, COUNT) == 8 + 1


def test_node_may_ask(node: Connection) -> None:
    assert number(node, COUNT) == 0

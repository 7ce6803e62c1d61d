"""The contract with readers: what the views show, and that a reader can do nothing else."""

from collections.abc import Iterator

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection, as_reader
from support.sql import Queue, Redrive, advance, number

VIEWS = [
    "archived_day",
    "erased_message",
    "history",
    "history_metadata",
    "message",
    "message_metadata",
    "queue",
    "queue_period",
    "server",
]
PLAIN = {
    *("bigint", "boolean", "date", "integer", "text", "timestamp with time zone"),
}
CONTENT = ["attributes", "body"]


@pytest.fixture
def reader(database: str) -> Iterator[Connection]:
    with psycopg.connect(as_reader(database), autocommit=True) as connection:
        yield connection


def columns(connection: Connection, view: str) -> list[str]:
    rows = connection.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0"
        " order by attnum",
        (f"skipmq_views.{view}",),
    ).fetchall()
    return [row[0] for row in rows]


def test_views_are_those_of_the_contract_and_have_plain_types(owner: Connection) -> None:
    rows = owner.execute(
        "select c.relname, format_type(a.atttypid, null) from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
        " where c.relnamespace = 'skipmq_views'::regnamespace"
    ).fetchall()

    assert sorted({view for view, _ in rows}) == VIEWS
    assert {kind for _, kind in rows} <= PLAIN


@pytest.mark.parametrize("view", ["history", "message"])
def test_view_without_content_is_the_view_less_that(owner: Connection, view: str) -> None:
    whole = columns(owner, view)

    assert [name for name in whole if name not in CONTENT] == columns(owner, f"{view}_metadata")
    assert whole[-2:] == CONTENT


def test_history_names_the_queue_also_when_it_is_gone(
    reader: Connection, owner: Connection
) -> None:
    orders = Queue(owner, HistoryMode="full")
    (message_id,) = orders.send("hello")
    orders.delete(*orders.receive())
    orders.send("purged")
    owner.execute("select skipmq.purge_queue(%s)", (orders.id,))
    owner.execute("select skipmq.clear_retired()")
    owner.execute("select skipmq.delete_queue(queue_id) from skipmq.queue")

    rows = reader.execute(
        "select account, region, queue, fifo, outcome, body, body_bytes, receive_count, message_id"
        " from skipmq_views.history order by settled_at"
    ).fetchall()
    ends = reader.execute("select queue, retired_as from skipmq_views.queue order by created_at")

    place = ("000000000000", "us-east-1", "orders", False)
    assert rows[0] == (*place, "deleted", "hello", 5, 1, message_id)
    assert rows[1][:7] == (*place, "purged", "purged", 6)
    assert ends.fetchall() == [("orders", "purged"), ("orders", "deleted")]


def test_history_tells_the_transaction_and_who_settled(database: str, orders: Queue) -> None:
    orders.send("a")
    received = orders.receive()
    with psycopg.connect(database, application_name="skipmq 7-beef") as other:
        orders.on(other).delete(*received)
        xid = number(other, "select pg_current_xact_id()::text::bigint")

    row = orders.connection.execute("select node, xid from skipmq_views.history").fetchone()
    assert row == ("skipmq 7-beef", xid)


def test_message_shows_what_waits_without_ballast(reader: Connection, owner: Connection) -> None:
    orders, fifo = Queue(owner), FifoQueue(owner)
    orders.send("a", "b", delay=60)
    fifo.put("group:c")
    owner.execute("select skipmq.purge_queue(%s)", (orders.id,))

    rows = reader.execute(
        "select queue, fifo, retired, body, body_bytes from skipmq_views.message order by body"
    ).fetchall()

    assert rows == [
        ("orders", False, True, "a", 1),
        ("orders", False, True, "b", 1),
        (fifo.name, True, False, "c", 1),
    ]


def test_queue_period_is_exact_before_and_after_changes_are_folded(
    reader: Connection, owner: Connection
) -> None:
    events = (
        "select queue, sum(sent), sum(deleted), sum(dead_lettered), sum(expired)"
        " from skipmq_views.queue_period group by 1 order by 1"
    )
    redrive = Redrive(owner, 1)
    redrive.dead.delete(*redrive.dead.receive())
    redrive.source.send("late")
    owner.execute("update skipmq.queue set message_retention_period = 60")
    advance(owner, "2 minutes")
    owner.execute("select skipmq.expire_messages()")
    seen = []
    for fold in ("select 1", "select skipmq.fold_counts(true)"):
        owner.execute(fold.encode())
        seen.append(reader.execute(events).fetchall())
    advance(owner, "7 hours")
    owner.execute("select skipmq.fold_counts(true)")

    of_periods = reader.execute(events).fetchall()

    assert seen == [of_periods, of_periods]
    assert of_periods == [("dead", 1, 1, 0, 0), ("source", 2, 0, 1, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from skipmq.message",
        "select count(*) from skipmq.access_key",
        "select key from skipmq.receipt_key",
        "select key from skipmq.receipt_keys()",
        "select skipmq.create_queue('mine')",
        "select * from skipmq.receive_messages(1)",
        "select skipmq.timeline()",
        "set transaction read write; delete from skipmq_views.queue",
        "set transaction read write; update skipmq_views.archived_day set rows = 0",
        "set transaction read write; insert into skipmq_views.archived_day values ('epoch', 0, 0)",
        "set transaction read write; create view skipmq_views.mine as select 1",
        "set transaction read write; create table skipmq.mine ()",
        "set role skipmq_node",
        "create temporary table mine ()",
    ],
)
def test_reader_can_do_nothing_but_read_views(reader: Connection, statement: str) -> None:
    refused = (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.ReadOnlySqlTransaction,
        psycopg.errors.UndefinedTable,
        # What no role can write to.
        psycopg.errors.ObjectNotInPrerequisiteState,
    )
    reader.autocommit = False

    for view in VIEWS:
        reader.execute(f"select * from skipmq_views.{view} limit 1")
    reader.rollback()
    with pytest.raises(refused):
        reader.execute(statement)


def test_reader_is_bounded_in_time_and_number(reader: Connection) -> None:
    limits = ["default_transaction_read_only", "statement_timeout"]
    limits += ["idle_in_transaction_session_timeout"]

    assert [number(reader, f"show {name}") for name in limits] == ["on", "30min", "1min"]
    assert number(reader, "select rolconnlimit from pg_roles where rolname = current_user") == 32

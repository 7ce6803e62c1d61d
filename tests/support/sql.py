"""The vocabulary of the tests that talk SQL only."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

import psycopg

from support.http import eventually
from support.postgres import Connection

# A day, its rows, and a transaction beyond them.
RECORD = "select skipmq.record_archived_day(%s::date, %s::bigint, %s::bigint)"

# How a transaction sends to a queue by SQL, and how a queue of that name ends.
SENDS = {
    "orders": "select skipmq.send_message('orders', 'sent by SQL')",
    "orders.fifo": "select skipmq.send_fifo_message"
    "('orders.fifo', 'sent by SQL', 'g', gen_random_uuid()::text)",
}
ENDS = {
    "purge": "select skipmq.purge_queue(skipmq.queue_id(%s), '0')",
    "delete": "select skipmq.delete_queue(skipmq.queue_id(%s))",
}


class Queue:
    """A queue on a connection; each method is one statement."""

    def __init__(self, connection: Connection, name: str = "orders", **attributes: Any) -> None:
        self.connection = connection
        self.name = name
        texts = {key: str(value) for key, value in attributes.items()}
        row = connection.execute(
            "select skipmq.create_queue(%s, %s::jsonb)",
            (name, psycopg.types.json.Json(texts)),
        ).fetchone()
        assert row is not None
        self.id = int(row[0])

    def set(self, **attributes: object) -> None:
        self.connection.execute(
            "select skipmq.set_queue_attributes(%s, %s::jsonb)",
            (self.id, psycopg.types.json.Json({k: str(v) for k, v in attributes.items()})),
        )

    def on(self, connection: Connection) -> Self:
        """Return the same queue on another connection."""
        twin = copy(self)
        twin.connection = connection
        return twin

    def send(self, *bodies: str, delay: int | None = None, group: str | None = None) -> list[str]:
        ids = [str(uuid4()) for _ in bodies]
        nothing = [None] * len(bodies)
        self.connection.execute(
            "select skipmq.send_messages(%s, %s::uuid[], %s::text[], %s::text[], %s::int[],"
            " %s::text[], %s::text[], 'tester')",
            (
                self.id,
                ids,
                list(bodies),
                nothing,
                [delay] * len(bodies),
                [group] * len(bodies),
                nothing,
            ),
        )
        return ids

    def receive(self, limit: int = 10, timeout: int | None = None) -> list[dict[str, Any]]:
        return [row for row in self.poll(limit, timeout) if row["id"] is not None]

    def poll(self, limit: int = 10, timeout: int | None = None) -> list[dict[str, Any]]:
        cursor = self.connection.cursor(row_factory=psycopg.rows.dict_row)
        return cursor.execute(
            "select * from skipmq.receive_messages(%s, %s::int, %s::int)", (self.id, limit, timeout)
        ).fetchall()

    def groups(self, limit: int = 10) -> dict[str | None, int]:
        """Receive; return how many messages came of each group."""
        return dict(Counter(row["group_id"] for row in self.receive(limit)))

    def bodies(self, limit: int = 10, timeout: int | None = None) -> list[str]:
        return [row["body"] for row in self.receive(limit, timeout)]

    def delete(self, *received: dict[str, Any]) -> int:
        row = self.connection.execute(
            "select skipmq.delete_messages(%s, %s::bigint[], %s::int[], %s::uuid[])",
            (self.id, *receipts(received)),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def hide(self, timeout: int, *received: dict[str, Any]) -> list[str]:
        rows = self.connection.execute(
            "select outcome from skipmq.change_visibility"
            "(%s, %s::bigint[], %s::int[], %s::uuid[], %s::timestamptz[], %s::int[])",
            (
                self.id,
                *receipts(received),
                [r["received_at"] for r in received],
                [timeout] * len(received),
            ),
        ).fetchall()
        return [outcome for (outcome,) in rows]

    def counts(self) -> tuple[int, int, int]:
        row = self.connection.execute(
            "select visible, in_flight, delayed from skipmq.count_messages(%s)", (self.id,)
        ).fetchone()
        assert row is not None
        return (row[0], row[1], row[2])


def send_prioritised(queue: Queue, *priorities: int | None) -> None:
    """Send a message of each priority, which is its body, by an application's function."""
    for value in priorities:
        queue.connection.execute(
            "select skipmq.send_message(%s, coalesce(%s::text, 'none'), p_priority => %s)",
            (queue.name, value, value),
        )


def receipts(received: Sequence[dict[str, Any]]) -> tuple[list[Any], ...]:
    """Return the ids, receive counts and message ids of what was received."""
    return tuple([r[name] for r in received] for name in ("id", "receive_count", "message_id"))


def message_ids(connection: Connection, ids: Sequence[int]) -> list[Any]:
    """Return the message ids of messages, each with a new one where there is no message."""
    rows = connection.execute(
        "select coalesce(m.message_id, gen_random_uuid()) from unnest(%s::bigint[])"
        " with ordinality u (id, place) left join skipmq.message m using (id) order by u.place",
        (list(ids),),
    )
    return [each for (each,) in rows]


def redrive_policy(target: str = "dead", most: int = 1) -> str:
    """Return the RedrivePolicy that moves messages to the queue of that name."""
    arn = f"arn:aws:sqs:us-east-1:000000000000:{target}"
    return f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{most}}}'


class Redrive:
    """A dead-letter queue with messages in it, and the queue that they came from."""

    def __init__(self, connection: Connection, count: int) -> None:
        self.arn = "arn:aws:sqs:us-east-1:000000000000:dead"
        self.dead = Queue(connection, "dead")
        self.source = Queue(connection, "source", RedrivePolicy=redrive_policy())
        for n in range(count):
            self.source.send(str(n))
        while self.source.receive(timeout=0):
            pass

    def start(self, rate: int | None = None) -> Any:
        """Start a task that moves them back."""
        return number(
            self.dead.connection, "select skipmq.start_move_task(%s, null, %s::int)", self.arn, rate
        )


def is_blocked(connection: Connection, query: str = "") -> bool:
    """Tell whether another session of the database waits for a lock, within a transaction too.

    A node has sessions whose upkeep may wait too: with `query` the session's query contains that.
    """
    # What sessions do is otherwise read once a transaction.
    connection.execute("select pg_stat_clear_snapshot()")
    return bool(
        number(
            connection,
            # Vacuum holds locks for a moment now and then, and is nobody's test.
            "select count(*) from pg_stat_activity a"
            " where a.datname = current_database() and a.wait_event_type = 'Lock'"
            " and position(%s in a.query) > 0 and exists ("
            "select from unnest(pg_blocking_pids(a.pid)) held (pid)"
            " left join pg_stat_activity b on b.pid = held.pid"
            " where b.backend_type is distinct from 'autovacuum worker')",
            query,
        )
    )


def until_blocked(connection: Connection, query: str = "") -> None:
    """Wait until another session of the database, with that in its query, waits for a lock."""
    deadline = time.monotonic() + 30
    while not is_blocked(connection, query):
        assert time.monotonic() < deadline, "nobody waits for a lock"


def advance(connection: Connection, by: str) -> None:
    """Move the clock of a connection of the owner."""
    connection.execute("select set_config('skipmq.clock_offset', %s, false)", (by,))


def recorded(connection: Connection, *parameters: Any) -> Any:
    """Record a day as archived, once transactions of other databases keep nothing back."""
    return eventually(lambda: number(connection, RECORD, *parameters), why="recorded")


def settle_on_recorded_day(orders: Queue) -> None:
    """Record this day as archived, and settle a message on it after that; the clock is as ever."""
    owner = orders.connection
    day = number(owner, "select (clock_timestamp() at time zone 'UTC')::date")
    advance(owner, "8 days")
    assert number(owner, RECORD, day, 0, 0)
    advance(owner, "0")
    orders.send("late")
    orders.delete(*orders.receive())


def history(connection: Connection, columns: str = "outcome") -> list[tuple[Any, ...]]:
    """Return the history in the order of settlement."""
    return connection.execute(
        f"select {columns} from skipmq.history order by settled_at, id"
    ).fetchall()


def rows(connection: Connection, statement: str, *parameters: Any) -> list[dict[str, Any]]:
    """Return the rows of a statement, by the names of their columns."""
    cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(statement, parameters).fetchall()


def effects(connection: Connection, call: Callable[[], Any]) -> dict[str, Any]:
    """Return what a call returns and what it leaves in the tables, and roll it back.

    Times that it wrote are relative to the earliest of their row; ids that it gave are left out.
    """
    with connection.transaction(force_rollback=True):
        before = rows(connection, "select * from skipmq.message where queue_id > 0")
        known = {value for row in before for value in row.values()}
        # Which receives begin with the noisy tenants.
        connection.execute("select setseed(0.1)")
        answer = call()
        messages = rows(connection, "select * from skipmq.message where queue_id > 0 order by id")
        for row in messages:
            written = [v for v in row.values() if isinstance(v, datetime) and v not in known]
            row.update({k: v - min(written) for k, v in row.items() if v in written})
            row["id"] = row["id"] if row["id"] in known else None
        settled = rows(connection, "select * from skipmq.history order by id")
        for row in settled:
            del row["settled_at"], row["xid"]
        return {
            "answer": answer,
            "messages": sorted(messages, key=lambda row: (row["queue_id"], row["message_id"])),
            "history": settled,
            "counts": connection.execute(
                "select queue_id, event, sum(change), sum(number), sum(bytes)"
                " from skipmq.queue_delta group by 1, 2 order by 1, 2"
            ).fetchall(),
            "tenants": connection.execute(
                "select queue_id, tenants from skipmq.queue order by 1"
            ).fetchall(),
        }


def number(connection: Connection, statement: str, *parameters: Any) -> Any:
    """Return the one value of a statement."""
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]

"""The rows of a queue, copied from one partition to another, and the keys of all partitions."""

from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from skipmq.database import maintenance
from skipmq.database.router.partition_map import MapError

# What all partitions have alike: the keys of receipt handles, access keys, those that were revoked,
# ended sessions.
_KEY_TABLES: tuple[LiteralString, ...] = (
    *("skipmq.receipt_key", "skipmq.access_key", "skipmq.revoked_key", "skipmq.ended_session"),
)
RECEIPT_KEYS = (
    "select md5(string_agg(encode(key, 'hex'), ',' order by made_at)) from skipmq.receipt_key"
)
# Without what differs by the clock; temporary keys expire by themselves.
ACCESS_KEYS = """
select coalesce(md5(string_agg(
    concat_ws('|', key_id, enabled, rights, master_key_id, encode(secret, 'hex')), ','
    order by key_id)), '')
  from skipmq.access_key where parent is null
"""
_COLUMNS = """
select attname from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""
# The messages of standard and FIFO queues have indexes of their own.
_TABLES: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("skipmq.message", "and x.group_no is null"),
    ("skipmq.message", "and x.group_no is not null"),
    ("skipmq.deduplication", ""),
    ("skipmq.receive_attempt", ""),
    ("skipmq.noisy_tenant", ""),
    ("skipmq.paused_group", ""),
    ("skipmq.receive_rate", ""),
    ("skipmq.delayed_count", ""),
    ("skipmq.delayed_message", ""),
    ("skipmq.known_failure", ""),
)
_STAGED: tuple[LiteralString, ...] = ("skipmq.staged_message", "skipmq.staged_batch")
_GROUPS: LiteralString = """
select {new}, hashtextextended(m.group_id, {new}), min(g.available_at), min(m.sequence_number),
  max(g.received_at), (array_agg(g.receiver order by g.received_at desc nulls last))[1]
from skipmq.message m
join skipmq.message_group g on g.queue_id = m.queue_id and g.group_no = m.group_no
where m.queue_id = {old} and m.group_no is not null
group by 2
"""
_OF_GROUPS: LiteralString = (
    "skipmq.message_group (queue_id, group_no, available_at, first_number, received_at, receiver)"
)
_GROUP_NO: LiteralString = (
    "case when x.group_no is not null then hashtextextended(x.group_id, {new}) end"
)


def check_hashes(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> None:
    """Raise MapError if the servers number groups differently: their numbers are copied."""
    query = "select hashtextextended('skipmq', 1)"
    if source.execute(query).fetchone() != target.execute(query).fetchone():
        raise MapError("the servers' hashtextextended differ: use one processor architecture")


def advance_sequence(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> None:
    """Let sequence numbers of the target follow those of the source."""
    row = source.execute("select last_value from skipmq.sequence_number_seq").fetchone()
    with target.transaction():
        # It takes a lock, so that no number is drawn meanwhile.
        target.execute("alter sequence skipmq.sequence_number_seq owned by none")
        target.execute(
            "select setval('skipmq.sequence_number_seq', greatest(last_value, %s))"
            " from skipmq.sequence_number_seq",
            row,
        )


def copy_queue(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], old: int, new: int
) -> int:
    """Copy a queue's messages under a new id, with their groups; return their number."""
    id_ = sql.SQL("{}::bigint").format(sql.Literal(new))
    changed = {"queue_id": id_, "group_no": sql.SQL(_GROUP_NO).format(new=id_)}
    messages = 0
    for table, condition in _TABLES:
        rows = sql.SQL("x.queue_id = {} {}").format(sql.Literal(old), sql.SQL(condition))
        copied = _copy_rows(source, target, table, rows, changed)
        messages += copied if table == "skipmq.message" else 0
    query = sql.SQL(_GROUPS).format(old=sql.Literal(old), new=id_)
    _pipe(source, target, query, sql.SQL(_OF_GROUPS))
    return messages


def copy_staged(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], queue: str
) -> None:
    """Copy the messages that Spark has staged for a queue, and how far each batch was sent."""
    rows = sql.SQL("x.target = {}").format(sql.Literal(queue))
    for table in _STAGED:
        # Those of a queue of that name which the target had before.
        target.execute(sql.SQL("delete from {} x where {}").format(sql.SQL(table), rows))
        _copy_rows(source, target, table, rows, {})


def _copy_rows(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    table: LiteralString,
    rows: sql.Composable,
    changed: Mapping[str, sql.Composable],
) -> int:
    """Copy the rows of a table that match a condition; return their number."""
    columns = [name for (name,) in source.execute(_COLUMNS, (table,))]
    selected = sql.SQL(", ").join(
        changed.get(name, sql.SQL("x.{}").format(sql.Identifier(name))) for name in columns
    )
    query = sql.SQL("select {} from {} x where {}").format(selected, sql.SQL(table), rows)
    named = sql.SQL("{} ({})").format(
        sql.SQL(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    return _pipe(source, target, query, named)


def _pipe(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    query: sql.Composable,
    table: sql.Composable,
) -> int:
    with source.cursor() as reader, target.cursor() as writer:
        read = sql.SQL("copy ({}) to stdout (format binary)").format(query)
        written = sql.SQL("copy {} from stdin (format binary)").format(table)
        with reader.copy(read) as rows, writer.copy(written) as into:
            for part in rows:
                into.write(part)
        return writer.rowcount


def copy_keys(source: str, target: psycopg.Connection[Any]) -> None:
    """Give a partition the keys of another one, in the target's transaction, in place of its own.

    Raises psycopg.Error.
    """
    with maintenance.connect(source, autocommit=False) as connection:
        for table in _KEY_TABLES:
            target.execute(sql.SQL("delete from {}").format(sql.SQL(table)))
            _copy_rows(connection, target, table, sql.SQL("true"), {})

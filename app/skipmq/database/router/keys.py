"""Keys that all partitions have alike: those of receipt handles, access keys, ended sessions."""

from typing import Any

import psycopg

from skipmq.database import maintenance

_TABLES = ("receipt_key", "access_key", "ended_session")
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


def copy(source: str, target: psycopg.Connection[Any]) -> None:
    """Give a partition the keys of another one, in the target's transaction, in place of its own.

    Raises psycopg.Error.
    """
    with maintenance.connect(source, autocommit=False) as connection:
        for table in _TABLES:
            target.execute(f"delete from skipmq.{table}".encode())
            with (
                connection.cursor().copy(f"copy skipmq.{table} to stdout".encode()) as rows,
                target.cursor().copy(f"copy skipmq.{table} from stdin".encode()) as into,
            ):
                for block in rows:
                    into.write(block)

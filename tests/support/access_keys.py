"""Access keys by SQL, with secrets that nothing has encrypted."""

from typing import Any

from psycopg.rows import dict_row

from support.postgres import Connection
from support.sql import number

KEY, SESSION = "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"
ACCOUNT = "123456789012"


def create(
    connection: Connection,
    key: str = KEY,
    *,
    account: str = ACCOUNT,
    name: str = "tests",
    replaces: str | None = None,
) -> None:
    connection.execute(
        "select skipmq.create_access_key(%s, %s, %s, 'secret', 'master', p_replaces => %s)",
        (key, account, name, replaces),
    )


def create_session(
    connection: Connection, key: str = SESSION, parent: str = KEY, lifetime: str = "1 hour"
) -> None:
    connection.execute(
        "select skipmq.create_access_key(%s, null, null, 'secret', 'master', %s, 'digest', %s)",
        (key, parent, lifetime),
    )


def keys(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return all keys by their ids."""
    cursor = connection.cursor(row_factory=dict_row)
    rows = cursor.execute("select * from skipmq.access_keys()").fetchall()
    return {row["key_id"]: row for row in rows}


def version(connection: Connection) -> int:
    return int(number(connection, "select version from skipmq.access_key_version()"))

"""Records of the audit log, as SQL has them."""

from typing import Any

import psycopg
from psycopg.types.json import Json

from support.postgres import Connection

RECORD = "select skipmq.record_audit(%s::jsonb)"
ORDERS = "arn:aws:sqs:us-east-1:000000000000:orders"
ACCOUNT = "000000000000"
_CASTS = {
    "before": "::bigint",
    "limit": "::int",
    "changes": "::boolean",
    "since": "::timestamptz",
    "until": "::timestamptz",
}


def record(**columns: Any) -> dict[str, Any]:
    """Return a record as nodes write it, of a queue that was created a moment ago."""
    found = {
        "age": 0.0,
        "account": ACCOUNT,
        "access_key": None,
        "claimed": False,
        "action": "CreateQueue",
        "queue": ORDERS,
        "client": "127.0.0.1",
        "door": "api",
        "request_id": "one",
        "outcome": "done",
    }
    return found | columns


def write(connection: Connection, *records: dict[str, Any]) -> int:
    row = connection.execute(RECORD, (Json(records),)).fetchone()
    assert row is not None
    return int(row[0])


def written(connection: Connection, **filters: Any) -> list[dict[str, Any]]:
    """Return the records that audit_records gives, by the names of its parameters without p_."""
    cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
    named = ", ".join(f"p_{name} => %({name})s{_CASTS.get(name, '')}" for name in filters)
    statement = f"select * from skipmq.audit_records({named})"
    return cursor.execute(statement.encode(), filters).fetchall()

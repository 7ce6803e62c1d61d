from datetime import UTC, datetime, timedelta

import psycopg

from support.postgres import Connection
from support.sql import number

LOW = datetime(2026, 1, 2, tzinfo=UTC)
XID = "select pg_current_xact_id()::text::bigint"


def microseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def scan_from(owner: Connection, held: dict[int, datetime | None]) -> datetime:
    lows = [None if at is None else microseconds(at) for at in held.values()]
    return number(  # type: ignore[no-any-return]
        owner,
        "select nullif(skipmq.scan_from(%s, %s::bigint[], %s::bigint[]), '-infinity')",
        LOW,
        [*held],
        lows,
    )


def test_scan_begins_at_the_watermark_until_a_held_transaction_ends(
    database: str, owner: Connection
) -> None:
    earlier, later = LOW - timedelta(hours=2), LOW - timedelta(hours=1)
    with psycopg.connect(database) as one, psycopg.connect(database) as other:
        held = {number(one, XID): earlier, number(other, XID): later}
        assert scan_from(owner, held) == LOW

        other.commit()
        assert scan_from(owner, held) == later

        one.rollback()
        assert scan_from(owner, held) == earlier


def test_scan_begins_at_the_beginning_where_nothing_was_known(
    database: str, owner: Connection
) -> None:
    with psycopg.connect(database) as held:
        xid = number(held, XID)
        assert scan_from(owner, {xid: None}) == LOW

    assert scan_from(owner, {xid: None}) is None


def test_scan_without_held_transactions_begins_at_the_watermark(owner: Connection) -> None:
    assert scan_from(owner, {}) == LOW

"""The statements on messages: each calls one function of the database; and their parameters."""

from collections.abc import Sequence
from typing import Any

from skipmq.database import Statement
from skipmq.database.statement import (
    BIGINTS,
    INTEGER,
    INTEGERS,
    INTERVAL,
    TEXT,
    TEXTS,
    TIME,
)
from skipmq.receipts import Receipt

# Named one by one: the function of the next release may give more.
_RECEIVED = (
    "id, receive_count, received_at, message_id::text, body, attributes, approximate_receive_count,"
    " sent_at, first_received_at, group_id, sender, trace_header, dead_letter_source"
)
_RECEIVED_FIFO = f"{_RECEIVED}, sequence_number, deduplication_id"
RECEIVE = Statement(
    f"select {_RECEIVED}, next_visible_in, scan_start"  # noqa: S608
    " from skipmq.receive_messages($1, $2, $3, $4, $5, $6, $7)",
    INTEGER, INTEGER, INTEGER, TEXT, TIME, TIME, INTERVAL,
)  # fmt: skip
RETURN = Statement(
    "select skipmq.return_messages($1, $2, $3, $4)", INTEGER, BIGINTS, INTEGERS, TEXT
)
RETURN_FIFO = Statement(
    "select skipmq.return_fifo_messages($1, $2, $3, $4)", INTEGER, BIGINTS, INTEGERS, TEXT
)
PROBE = Statement(
    "select read_at, oldest_xid, xid, first_visible_at from skipmq.low_watermark($1, $2)",
    INTEGER, TIME,
)  # fmt: skip
RECEIVE_FIFO = Statement(
    f"select place, {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from unnest($1) with ordinality l (most, place)"
    " cross join lateral skipmq.receive_fifo_messages($2, l.most, $3, $4) where l.most > 0",
    INTEGERS, INTEGER, INTEGER, TEXT,
)  # fmt: skip
SEND = Statement(
    "select skipmq.send_messages($1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9, $10)",
    INTEGER, TEXTS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXT, TEXT, INTERVAL,
)  # fmt: skip
SEND_FIFO = Statement(
    "select place, message_id::text, sequence_number"
    " from skipmq.send_fifo_messages($1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9, $10)",
    INTEGER, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXT, TEXT, INTEGERS,
)  # fmt: skip
# Times, of microseconds.
_MOMENTS = "array(select 'epoch'::timestamptz + t * interval '1 microsecond' from unnest({}) t)"
DELETE = Statement(
    f"select skipmq.delete_messages($1, $2, $3, $4, {_MOMENTS.format('$5')})",
    INTEGER, BIGINTS, INTEGERS, TEXT, BIGINTS,
)  # fmt: skip
DELETE_FIFO = Statement(
    "select outcome"  # noqa: S608
    f" from skipmq.delete_fifo_messages($1, $2, $3, $4, {_MOMENTS.format('$5')}, false)"
    " order by place",
    INTEGER, BIGINTS, INTEGERS, TEXT, BIGINTS,
)  # fmt: skip


def _changing(function: str, *, waits: str = "") -> Statement:
    return Statement(
        f"select outcome from skipmq.{function}($1, $2, $3,"  # noqa: S608
        f" {_MOMENTS.format('$4')}, $5, $6{waits}) order by place",
        INTEGER, BIGINTS, INTEGERS, BIGINTS, INTEGERS, TEXT,
    )  # fmt: skip


CHANGE = _changing("change_visibility")
CHANGE_FIFO = _changing("change_fifo_visibility", waits=", false")
RECEIVE_ATTEMPT = Statement(
    f"select {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from skipmq.receive_fifo_attempt($1, $2, $3, $4, $5)",
    INTEGER, TEXT, INTEGER, INTEGER, TEXT,
)  # fmt: skip
COUNT = Statement("select visible, in_flight, delayed from skipmq.count_messages($1)", INTEGER)
IN_FLIGHT = Statement("select skipmq.count_in_flight($1, $2)", INTEGER, INTEGER)


def receipts(
    queue_id: int, requests: Sequence[Sequence[Receipt]]
) -> tuple[int, list[int], list[int]]:
    """Return the parameters that name a queue and receives of its messages."""
    return (
        queue_id,
        [receipt.message for request in requests for receipt in request],
        [receipt.receive_count for request in requests for receipt in request],
    )


def received_at(requests: Sequence[Sequence[Receipt]]) -> list[int]:
    """Return when each of the receives was."""
    return [receipt.received_at for request in requests for receipt in request]


def array(values: list[Any]) -> list[Any] | None:
    """Return the values, or null for nothing but nulls."""
    return values if any(value is not None for value in values) else None

"""The statements on messages, each a call of one SQL function, with their parameters and rows."""

from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeVar

from skipmq.broker.messages.budget import GROUP_BYTES
from skipmq.broker.messages.message import ReceivedMessage, Reception
from skipmq.broker.messages.receipts import Receipt
from skipmq.database.statement import (
    BIGINT,
    BIGINTS,
    BOOLEAN,
    EPOCH,
    INTEGER,
    INTEGERS,
    INTERVAL,
    TEXT,
    TEXTS,
    TIME,
    TIMES,
    UUIDS,
    Kind,
    Rows,
    Statement,
    columns,
)
from skipmq.protocol.limits import MESSAGE_BYTES

T = TypeVar("T")


class Items(NamedTuple):
    """An argument that is an array: that of several calls has the elements of all."""

    kind: Kind


class Calls:
    """Calls of a function whose first argument is a queue, and the others are these.

    An argument that is not Items is the same for all calls. Rows are ordered by call and place.
    """

    def __init__(self, columns: str, function: str, *arguments: Items | Kind) -> None:
        kinds = [each if isinstance(each, Kind) else each.kind for each in arguments]
        numbers = [f"${number}" for number in range(1, len(arguments) + 2)]
        self._one = Statement(
            f"select {columns} from skipmq.{function}({', '.join(numbers)}) r"
            " order by r.place",
            BIGINT, *kinds, since_2000=True,
        )  # fmt: skip
        # After the queues, and the first and the last of the items of each call.
        given = [
            f"(${number})[c.first:c.last]" if isinstance(each, Items) else f"${number}"
            for number, each in enumerate(arguments, 4)
        ]
        self._several = Statement(
            f"select {columns} from unnest($1, $2, $3)"
            " with ordinality c (queue_id, first, last, call)"
            f" cross join lateral skipmq.{function}(c.queue_id, {', '.join(given)}) r"
            " order by c.call, r.place",
            BIGINTS, INTEGERS, INTEGERS, *kinds, since_2000=True,
        )  # fmt: skip

    def statement(
        self, queues: Sequence[tuple[int, int]], *values: Any
    ) -> tuple[Statement, tuple[Any, ...]]:
        """Return the statement for these queues with the number of items of each, and parameters.

        `values` are the arguments.
        """
        if len(queues) == 1:
            return self._one, (queues[0][0], *values)
        last = list(accumulate([items for _, items in queues]))
        first = [1, *[each + 1 for each in last[:-1]]]
        return self._several, ([queue_id for queue_id, _ in queues], first, last, *values)


# Columns by name, since the function of the next release may return more.
_ID = "message_id::text"
_OF_STANDARD = columns(
    ReceivedMessage,
    message_id=_ID,
    sequence_number="null::bigint",
    deduplication_id="null::text",
)
# The place of the body, before that of the attributes.
BODY = ReceivedMessage.__struct_fields__.index("body")
_RECEIVED_STANDARD = f"{_OF_STANDARD}, next_visible_in, scan_start"
_RECEIVED_FIFO = f"{columns(ReceivedMessage, message_id=_ID)}, next_visible_in"


def _bounded(selected: str) -> str:
    """Return the columns of a claim without bodies and attributes of what exceeds GROUP_BYTES."""
    total = (
        "sum(octet_length(body) + coalesce(octet_length(attributes), 0))"
        f" over (rows unbounded preceding) <= {GROUP_BYTES}"
    )
    return selected.replace(
        " body, attributes,",
        f" case when {total} then body end, case when {total} then attributes end,",
    )


def _claim(selected: str, function: str, *kinds: Kind) -> tuple[Statement, Statement]:
    """Return a claim of few messages, and one with bounded columns."""
    few, many = [
        Statement(f"select {each} from {function}", *kinds, since_2000=True)
        for each in (selected, _bounded(selected))
    ]
    return few, many


# The most messages of a claim that fit into GROUP_BYTES, whatever their size.
FEW = GROUP_BYTES // MESSAGE_BYTES
RECEIVE = _claim(
    _RECEIVED_STANDARD, "skipmq.receive_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    BIGINT, INTEGER, INTEGER, TEXT, TIME, TIME, INTERVAL, BIGINTS, BIGINTS, TIME,
)  # fmt: skip
RECEIVE_FROM_QUEUES = _claim(
    f"{_RECEIVED_STANDARD}, place",
    "skipmq.receive_from_queues($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    BIGINTS, INTEGERS, INTEGERS, TEXT, TIMES, TIMES, TIMES, INTERVAL, BIGINTS, BIGINTS, INTEGERS,
    TIMES,
)  # fmt: skip
# As RECEIVE; the last two columns are for Scan.pass_over.
RECEIVE_READABLE = Statement(
    f"select {_OF_STANDARD}, next_visible_in, low, received_low"
    " from skipmq.receive_readable_messages($1, $2, $3, $4, $5, $6)",
    BIGINT, INTEGER, INTEGER, TEXT, TIME, TIME, since_2000=True,
)  # fmt: skip
# Not again where it may have run: each uncounts a receive.
RETURN = Statement(
    "select skipmq.return_messages($1, $2, $3, $4, $5)",
    BIGINT, BIGINTS, INTEGERS, UUIDS, TEXT, repeatable=False,
)  # fmt: skip
RETURN_FIFO = Statement(
    "select skipmq.return_fifo_messages($1, $2, $3, $4, $5)",
    BIGINT, BIGINTS, INTEGERS, UUIDS, TEXT, repeatable=False,
)  # fmt: skip
PROBE = Statement(
    "select read_at, running, xid, first_visible_at, first_received_at"
    " from skipmq.low_watermark($1, $2, $3, $4, $5)",
    BIGINT, TIME, BIGINTS, BIGINTS, TIME,
)  # fmt: skip
RECEIVE_FIFO = _claim(
    f"{_RECEIVED_FIFO}, place", "skipmq.claim_fifo_messages($1, $2, $3, $4, $5)",
    BIGINT, INTEGERS, INTEGER, TEXT, TEXTS,
)  # fmt: skip
RECEIVE_FROM_FIFO_QUEUES = _claim(
    f"{_RECEIVED_FIFO}, place, share", "skipmq.receive_from_fifo_queues($1, $2, $3, $4, $5, $6)",
    BIGINTS, INTEGERS, INTEGERS, INTEGERS, TEXT, TEXTS,
)  # fmt: skip
SEND = Statement(
    "select skipmq.send_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    BIGINT, UUIDS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXT, TEXT, INTERVAL,
)  # fmt: skip
SEND_TO_QUEUES = Statement(
    "select skipmq.send_to_queues($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    BIGINTS, UUIDS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXTS, TEXT, INTERVAL,
)  # fmt: skip
SEND_UNIQUE = Statement(
    "select message_id::text"
    " from skipmq.send_unique_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) order by place",
    BIGINT, UUIDS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXT, TEXTS, TEXT,
)  # fmt: skip
SEND_FIFO = Statement(
    "select place, message_id::text, sequence_number"
    " from skipmq.send_fifo_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    BIGINT, UUIDS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXT, TEXT, INTEGERS,
)  # fmt: skip
SEND_TO_FIFO_QUEUES = Statement(
    "select place, message_id::text, sequence_number"
    " from skipmq.send_to_fifo_queues($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    BIGINTS, UUIDS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXT, INTEGERS,
)  # fmt: skip
DELETE = Statement(
    "select skipmq.delete_messages($1, $2, $3, $4, $5)", BIGINT, BIGINTS, INTEGERS, UUIDS, TEXT
)
DELETE_FROM_QUEUES = Statement(
    "select skipmq.delete_from_queues($1, $2, $3, $4, $5)",
    BIGINTS, BIGINTS, INTEGERS, UUIDS, TEXT,
)  # fmt: skip
DELETE_FIFO = Statement(
    "select outcome from skipmq.delete_fifo_messages($1, $2, $3, $4, $5, false) order by place",
    BIGINT, BIGINTS, INTEGERS, UUIDS, TEXT,
)  # fmt: skip
DELETE_FROM_FIFO_QUEUES = Statement(
    "select outcome from skipmq.delete_from_fifo_queues($1, $2, $3, $4, $5) order by place",
    BIGINTS, BIGINTS, INTEGERS, UUIDS, TEXT,
)  # fmt: skip
CHANGE, CHANGE_FIFO = [
    Calls(
        "outcome", function,
        Items(BIGINTS), Items(INTEGERS), Items(UUIDS), Items(TIMES), Items(INTEGERS), TEXT, BOOLEAN,
    )
    for function in ("change_visibility", "change_fifo_visibility")
]  # fmt: skip
RECEIVE_ATTEMPT = Statement(
    f"select {_RECEIVED_FIFO}, null"
    " from skipmq.receive_fifo_attempt($1, $2, $3, $4, $5, $6)",
    BIGINT, TEXT, INTEGER, INTEGER, TEXT, TEXT, since_2000=True,
)  # fmt: skip
IN_FLIGHT = Statement("select skipmq.bound_in_flight($1, $2)", BIGINT, INTEGER)


def sizes(requests: Sequence[tuple[int, *tuple[Any, ...]]]) -> list[tuple[int, int]]:
    """Return the queues of requests, in order, and the number of items of each."""
    found: dict[int, int] = {}
    for queue_id, items, *_ in requests:
        found[queue_id] = found.get(queue_id, 0) + len(items)
    return list(found.items())


def receipts(
    requests: Sequence[Sequence[Receipt]],
) -> tuple[list[int], list[int], list[str]]:
    """Return the parameters for receives: numbers, receive counts and ids of their messages."""
    return (
        [receipt.message for request in requests for receipt in request],
        [receipt.receive_count for request in requests for receipt in request],
        [receipt.message_id for request in requests for receipt in request],
    )


def received_at(requests: Sequence[Sequence[Receipt]]) -> list[int]:
    """Return the times of the receives."""
    return [receipt.received_at for request in requests for receipt in request]


def array(values: list[Any]) -> list[Any] | None:
    """Return the values, or None if all are None."""
    return values if values.count(None) < len(values) else None


def reception(rows: Rows, held: Any = None) -> Reception:
    """Return the reception in the rows of a claim, whose last column is ignored."""
    if rows[0][0] is None:
        wait = rows[0][-2]
        return Reception([], None if wait is None else wait.total_seconds())
    return Reception(
        [
            ReceivedMessage(
                id_, receive_count, received_at + EPOCH, message_id, body, attributes, count,
                sent_at + EPOCH, first_received_at + EPOCH, group_id, sender, trace_header, source,
                sequence_number, deduplication_id,
            )
            for (
                id_, receive_count, received_at, message_id, body, attributes, count, sent_at,
                first_received_at, group_id, sender, trace_header, source, sequence_number,
                deduplication_id, _, _,
            ) in rows
        ],
        held=held,
    )  # fmt: skip


def parted(rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows of a claim, and apart from them those whose bodies were left out."""
    left = [row for row in rows if row[BODY] is None and row[0] is not None]
    return [row for row in rows if row[BODY] is not None or row[0] is None], left


def size(rows: Rows) -> int:
    """Return the size of the bodies and attributes in rows, by their characters."""
    return sum([len(row[BODY]) + len(row[BODY + 1] or "") for row in rows if row[BODY] is not None])


def receipts_for(messages: Sequence[ReceivedMessage]) -> list[Receipt]:
    """Return the receipts of received messages."""
    return [Receipt(m.id, m.receive_count, m.received_at, m.message_id) for m in messages]


def split(results: Sequence[T], requests: Sequence[Sequence[Any]]) -> list[list[T]]:
    """Return the results of each of the requests that ran together."""
    remaining = iter(results)
    return [list(islice(remaining, len(request))) for request in requests]

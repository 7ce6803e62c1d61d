"""Messages: send, receive, delete, change visibility, on standard and on FIFO queues."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

from skipmq.model import (
    MessageCounts,
    OutgoingMessage,
    Queue,
    ReceivedMessage,
    Reception,
    StoredMessage,
)
from skipmq.receipts import Receipt
from skipmq.store.engine import Database
from skipmq.store.floor import Floors, Look
from skipmq.store.group_commit import GroupCommit
from skipmq.store.replication import Replication
from skipmq.store.statement import (
    BIGINTS,
    INTEGER,
    INTEGERS,
    INTERVAL,
    TEXT,
    TEXTS,
    TIME,
    Rows,
    Statement,
)

# What is lost with a crash of the database after such a commit is only ever delivered again.
_LAX = "off"
# What a send, and a delete from a FIFO queue, waits for, by the queue's ReplicationMode.
_DURABLE = {"none": "local", "any": "on", "majority": "on", "all": "on"}
# How far back a send that is tried again looks for itself: the longest SKIPMQ_FAILOVER_WAIT, and
# what the clocks of two servers may differ by.
_SENT_WITHIN = timedelta(seconds=90)
# A waiter looks again within a second anyway.
_AHEAD = timedelta(seconds=1)
# Named one by one: the function of the next release may give more.
_RECEIVED = (
    "id, receive_count, received_at, message_id::text, body, attributes, approximate_receive_count,"
    " sent_at, first_received_at, group_id, sender, trace_header, dead_letter_source"
)
_RECEIVED_FIFO = f"{_RECEIVED}, sequence_number, deduplication_id"
_RECEIVE = Statement(
    f"select {_RECEIVED}, next_visible_in, reached"  # noqa: S608
    " from skipmq.receive_messages($1, $2, $3, $4, $5, $6, $7)",
    INTEGER, INTEGER, INTEGER, TEXT, TIME, TIME, INTERVAL,
)  # fmt: skip
_LOOK = (
    "select looked_at, oldest, number, first_visible_at"
    " from skipmq.receive_floor(%s, %s::timestamptz)"
)
_RECEIVE_FIFO = Statement(
    f"select place, {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from unnest($1) with ordinality l (most, place)"
    " cross join lateral skipmq.receive_fifo_messages($2, l.most, $3, $4)",
    INTEGERS, INTEGER, INTEGER, TEXT,
)  # fmt: skip
_SEND = Statement(
    "select from skipmq.send_messages($1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9, $10)",
    INTEGER, TEXTS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXT, TEXT, INTERVAL,
)  # fmt: skip
_SEND_FIFO = Statement(
    "select message_id::text, sequence_number"
    " from skipmq.send_fifo_messages($1, $2::uuid[], $3, $4, $5, $6, $7, $8, $9) order by place",
    INTEGER, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXT, TEXT,
)  # fmt: skip
# Times, of microseconds.
_MOMENTS = "array(select 'epoch'::timestamptz + t * interval '1 microsecond' from unnest({}) t)"
_DELETE = Statement(
    f"select skipmq.delete_messages($1, $2, $3, $4, {_MOMENTS.format('$5')})",
    INTEGER, BIGINTS, INTEGERS, TEXT, BIGINTS,
)  # fmt: skip
_DELETE_FIFO = Statement(
    "select outcome"  # noqa: S608
    f" from skipmq.delete_fifo_messages($1, $2, $3, $4, {_MOMENTS.format('$5')}) order by place",
    INTEGER, BIGINTS, INTEGERS, TEXT, BIGINTS,
)  # fmt: skip


def _changing(function: str) -> Statement:
    return Statement(
        f"select outcome from skipmq.{function}($1, $2, $3,"  # noqa: S608
        f" {_MOMENTS.format('$4')}, $5, $6) order by place",
        INTEGER, BIGINTS, INTEGERS, BIGINTS, INTEGERS, TEXT,
    )  # fmt: skip


_CHANGE, _CHANGE_FIFO = _changing("change_visibility"), _changing("change_fifo_visibility")
# Each group's lock takes room in a table of the server that all its sessions share.
_FIFO_MOST = 200
_Change: TypeAlias = tuple[Receipt, int]
T = TypeVar("T")
_RECEIVE_ATTEMPT = (
    f"select {_RECEIVED_FIFO}, next_visible_in"  # noqa: S608
    " from skipmq.receive_fifo_attempt(%s, %s, %s::int, %s::int, %s)"
)


class Messages:
    """The message functions of the database.

    Each raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    def __init__(
        self,
        database: Database,
        replication: Replication,
        most: int = 500,
        floors: Floors | None = None,
    ) -> None:
        self._database = database
        self._replication = replication
        self._floors = floors or Floors()
        self._sends = GroupCommit(self._send, most)
        self._fifo_sends = GroupCommit(self._send_fifo, min(most, _FIFO_MOST))
        self._receives = GroupCommit(self._receive, most)
        self._fifo_receives = GroupCommit(self._receive_fifo, most)
        self._deletes = GroupCommit(self._delete, most)
        self._fifo_deletes = GroupCommit(self._delete_fifo, min(most, _FIFO_MOST))
        self._changes = GroupCommit(self._change, most)
        self._fifo_changes = GroupCommit(self._change_fifo, min(most, _FIFO_MOST))

    def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str
    ) -> list[StoredMessage]:
        """Store messages durably, all or none; return what to answer for each, in order.

        On a FIFO queue that is the answer to the first sending where the deduplication id is known.
        """
        sends = self._fifo_sends if queue.fifo else self._sends
        return sends.submit((queue.id, sender, _mode(queue)), messages, len(messages))

    def _send(
        self, key: tuple[int, str, str], requests: Sequence[Sequence[OutgoingMessage]]
    ) -> list[list[StoredMessage]]:
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        parameters = (
            queue_id,
            [m.message_id for m in messages],
            [m.body for m in messages],
            _array([m.attributes for m in messages]),
            _array([m.delay_seconds for m in messages]),
            _array([m.group_id for m in messages]),
            _array([m.trace_header for m in messages]),
            sender,
            _DURABLE[mode],
        )
        self._durably(mode, _SEND, (*parameters, None), (*parameters, _SENT_WITHIN))
        return [[StoredMessage(m.message_id) for m in request] for request in requests]

    def _send_fifo(
        self, key: tuple[int, str, str], requests: Sequence[Sequence[OutgoingMessage]]
    ) -> list[list[StoredMessage]]:
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        # Again, each deduplication id gives the answer to its first sending.
        rows = self._durably(
            mode,
            _SEND_FIFO,
            (
                queue_id,
                [m.message_id for m in messages],
                [m.body for m in messages],
                _array([m.attributes for m in messages]),
                [m.group_id for m in messages],
                [m.deduplication_id for m in messages],
                _array([m.trace_header for m in messages]),
                sender,
                _DURABLE[mode],
            ),
        )
        return _dealt([StoredMessage(*row) for row in rows], requests)

    def _durably(
        self,
        mode: str,
        statement: Statement,
        parameters: Sequence[Any],
        again: Sequence[Any] | None = None,
    ) -> Rows:
        """Run a statement; return its rows when as many servers have it as the mode asks for."""
        durable = mode != "none"
        rows = self._database.rows(statement, parameters, again, durable=durable)
        while not self._replication.confirm(mode):
            rows = self._database.rows(statement, again or parameters, durable=durable)
        return rows

    def receive(
        self,
        queue: Queue,
        limit: int,
        visibility_timeout: int | None,
        attempt: str | None = None,
    ) -> Reception:
        """Claim up to `limit` visible messages for so many seconds (None: the queue's timeout).

        With an `attempt`, on a FIFO queue, what it was given before if nobody has changed it.
        """
        if attempt is not None:
            parameters = (queue.id, attempt, limit, visibility_timeout, _LAX)
            return _reception(self._database.rows(_RECEIVE_ATTEMPT, parameters))
        receives = self._fifo_receives if queue.fifo else self._receives
        return receives.submit((queue.id, visibility_timeout), limit, limit)

    def _receive(self, key: tuple[int, int | None], limits: Sequence[int]) -> list[Reception]:
        queue_id, timeout = key
        floor = self._floors.of(queue_id)
        floor.raise_with(partial(self._look, queue_id), self._database.generation)
        bounds = floor.bounds()
        parameters = (queue_id, sum(limits), timeout, _LAX, bounds.floor, bounds.hint, _AHEAD)
        found = self._database.rows(_RECEIVE, parameters)
        rows = [row[:-1] for row in found]
        if rows[0][0] is None:
            floor.claimed(bounds, 0, rows[0][2], None)
            return [_reception(rows)] * len(limits)
        floor.claimed(bounds, len(rows), rows[0][2], found[-1][-1])
        receptions, given = [], 0
        for limit in limits:
            share = rows[given : given + limit]
            given += limit
            # Who comes away empty-handed looks again at once, to learn when the next comes.
            receptions.append(_reception(share) if share else Reception([], 0.0))
        return receptions

    def _look(self, queue_id: int, start: datetime | None) -> Look:
        return Look(*self._database.rows(_LOOK, (queue_id, start))[0])

    def _receive_fifo(self, key: tuple[int, int | None], limits: Sequence[int]) -> list[Reception]:
        # Each request claims groups of its own: two consumers never share one.
        rows = self._database.rows(_RECEIVE_FIFO, (list(limits), key[0], key[1], _LAX))
        shares: list[Rows] = [[] for _ in limits]
        for row in rows:
            shares[row[0] - 1].append(row[1:])
        return [_reception(share) for share in shares]

    def delete(self, queue: Queue, receipts: Sequence[Receipt]) -> list[str]:
        """Delete the messages that are still at the receive their receipt stands for.

        Returns each one's outcome in order; on a standard queue that is always the same.
        """
        if queue.fifo:
            return self._fifo_deletes.submit((queue.id, _mode(queue)), receipts, len(receipts))
        return self._deletes.submit(queue.id, receipts, len(receipts))

    def _delete(self, queue_id: int, requests: Sequence[Sequence[Receipt]]) -> list[list[str]]:
        receipts = list(chain.from_iterable(requests))
        self._database.rows(
            _DELETE,
            (
                queue_id,
                [r.message for r in receipts],
                [r.receive_count for r in receipts],
                _LAX,
                [r.received_at for r in receipts],
            ),
        )
        return [["deleted"] * len(request) for request in requests]

    def _delete_fifo(
        self, key: tuple[int, str], requests: Sequence[Sequence[Receipt]]
    ) -> list[list[str]]:
        queue_id, mode = key
        receipts = list(chain.from_iterable(requests))
        rows = self._durably(
            mode,
            _DELETE_FIFO,
            (
                queue_id,
                [r.message for r in receipts],
                [r.receive_count for r in receipts],
                _DURABLE[mode],
                [r.received_at for r in receipts],
            ),
        )
        return _dealt([outcome for (outcome,) in rows], requests)

    def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int]
    ) -> list[str]:
        """Hide messages in flight for so many seconds; return each one's outcome in order."""
        changes = self._fifo_changes if queue.fifo else self._changes
        return changes.submit(queue.id, list(zip(receipts, timeouts, strict=True)), len(receipts))

    def _change(self, queue_id: int, requests: Sequence[Sequence[_Change]]) -> list[list[str]]:
        return self._changed(_CHANGE, queue_id, requests)

    def _change_fifo(self, queue_id: int, requests: Sequence[Sequence[_Change]]) -> list[list[str]]:
        return self._changed(_CHANGE_FIFO, queue_id, requests)

    def _changed(
        self, statement: Statement, queue_id: int, requests: Sequence[Sequence[_Change]]
    ) -> list[list[str]]:
        changes = list(chain.from_iterable(requests))
        rows = self._database.rows(
            statement,
            (
                queue_id,
                [receipt.message for receipt, _ in changes],
                [receipt.receive_count for receipt, _ in changes],
                [receipt.received_at for receipt, _ in changes],
                [timeout for _, timeout in changes],
                _LAX,
            ),
        )
        return _dealt([outcome for (outcome,) in rows], requests)

    def count(self, queue_id: int) -> MessageCounts:
        """Count the messages of a queue."""
        rows = self._database.rows(
            "select visible, in_flight, delayed from skipmq.count_messages(%s)", (queue_id,)
        )
        return MessageCounts(*rows[0])

    def in_flight(self, queue_id: int, most: int) -> int:
        """Count the messages of a queue that are in flight, up to `most`."""
        rows = self._database.rows("select skipmq.count_in_flight(%s, %s::int)", (queue_id, most))
        return int(rows[0][0])


def _mode(queue: Queue) -> str:
    """Return how many servers must have what must not be lost on a queue."""
    return queue.attributes["ReplicationMode"]


def _array(values: list[Any]) -> list[Any] | None:
    """Return the values, or null for nothing but nulls."""
    return values if any(value is not None for value in values) else None


def _dealt(results: Sequence[T], requests: Sequence[Sequence[Any]]) -> list[list[T]]:
    """Return the results of each request, of all that were run together."""
    dealt = iter(results)
    return [list(islice(dealt, len(request))) for request in requests]


def _reception(rows: Rows) -> Reception:
    if rows[0][0] is None:
        wait = rows[0][-1]
        return Reception([], None if wait is None else wait.total_seconds())
    return Reception([_received(row) for row in rows])


def _received(row: tuple[Any, ...]) -> ReceivedMessage:
    id_, count, received_at, message_id, body, attributes, approximate, sent_at, first = row[:9]
    return ReceivedMessage(
        id_,
        count,
        _microseconds(received_at),
        message_id,
        body,
        attributes,
        approximate,
        _microseconds(sent_at) // 1000,
        _microseconds(first) // 1000,
        *row[9:-1],
    )


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)

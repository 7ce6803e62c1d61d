"""The records that the layers exchange."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from skipmq.protocol.identity import QueueName
from skipmq.protocol.queue_attributes import QueueAttributes


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as last read from the database; times in seconds since 1970."""

    name: QueueName
    id: int
    fifo: bool
    attributes: QueueAttributes
    tags: Mapping[str, str]
    created_at: int
    modified_at: int


class StoredKey(NamedTuple):
    """An access key as it is stored; times in seconds since 1970, by the database's clock."""

    id: str
    account: str
    name: str | None
    parent: str | None
    token_digest: bytes | None
    secret: bytes
    master_key_id: str
    usable: bool
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    rights: str


class QueueGrant(NamedTuple):
    """A grant to a database role for SQL access to queues; `queue` is a name or a pattern."""

    role: str
    account: str
    region: str
    queue: str
    may_send: bool
    may_receive: bool
    # In seconds since 1970, by the database's clock.
    granted_at: float
    granted_by: str


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A validated message to send; `attributes` is the JSON text to store."""

    message_id: str
    body: str
    attributes: str | None = None
    delay_seconds: int | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """The result of a send; only messages of FIFO queues have a sequence number."""

    message_id: str
    sequence_number: int | None = None


class Recipient:
    """The client that messages are claimed for."""

    __slots__ = ("is_disconnected", "on_disconnect", "waited")

    def __init__(self) -> None:
        # Seconds spent waiting in a long poll.
        self.waited = 0.0
        self.is_disconnected = False
        self.on_disconnect: Callable[[], None] | None = None

    def disconnect(self) -> None:
        """Mark the client as disconnected."""
        self.is_disconnected = True
        if self.on_disconnect is not None:
            self.on_disconnect()


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """A claimed message; times in microseconds since 1970, by the database's clock."""

    id: int
    receive_count: int
    received_at: int
    message_id: str
    body: str
    attributes: str | None
    approximate_receive_count: int
    sent_at: int
    first_received_at: int
    group_id: str | None
    sender: str | None
    trace_header: str | None
    dead_letter_source: str | None
    sequence_number: int | None = None
    deduplication_id: str | None = None


class Reference(NamedTuple):
    """What names a stored message: the number of its row, and its message id.

    A server that lost committed messages assigns the numbers again, but not the ids.
    """

    id: int
    message_id: str

    def __str__(self) -> str:
        return f"{self.id}-{self.message_id}"


class PeekedMessage(NamedTuple):
    """A peeked message; times in microseconds since 1970, `visible_in` in seconds."""

    place: str
    id: int
    state: str
    visible_in: float
    message_id: str
    body: str
    attributes: str | None
    approximate_receive_count: int
    sent_at: int
    first_received_at: int | None
    group_id: str | None
    sender: str | None
    trace_header: str | None
    dead_letter_source: str | None
    sequence_number: int | None
    deduplication_id: str | None


class MessageFailures(NamedTuple):
    """Messages of one kind of failure from one source; sends in microseconds since 1970."""

    kind: str | None
    source: str | None
    source_exists: bool
    messages: int
    oldest: int
    newest: int


class Reception(msgspec.Struct, frozen=True, gc=False):
    """The result of one claim: messages, or the seconds until the next becomes visible."""

    messages: list[ReceivedMessage]
    next_visible_in: float | None = None
    # What holds the memory of large messages, until it is released.
    held: Any = None


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The numbers of visible, in-flight and delayed messages of a queue."""

    visible: int
    in_flight: int
    delayed: int


class QueueMinute(msgspec.Struct, rename="pascal"):
    """The counters of a queue for one minute, and its number of messages."""

    # In seconds since 1970.
    minute: int
    sent: int
    received: int
    deleted: int
    dead_lettered: int
    messages: int


class QueueStatistics(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A queue's messages, its counters since it was created or purged, and its current rates.

    A sum over several queues has no name; `queues` is their number. What follows `trouble` is for
    operators.
    """

    queue: str | None = msgspec.field(name="QueueName")
    fifo: bool | None = msgspec.field(name="FifoQueue")
    # Whether a redrive policy of another queue names this one.
    dead_letters: bool | None = msgspec.field(name="DeadLetterQueue")
    visible: int | None
    in_flight: int | None
    delayed: int | None
    sent: int | None
    bytes_sent: int | None
    received: int | None
    empty_receives: int | None
    deleted: int | None
    expired: int | None
    dead_lettered: int | None
    redriven: int | None
    moved_in: int | None
    sent_per_minute: float | None
    received_per_minute: float | None
    deleted_per_minute: float | None
    oldest: int | float | None = msgspec.field(name="OldestSeconds")
    minutes: list[QueueMinute] | None = None
    # What is wrong, as in the overview; read for one account and region only.
    trouble: str | None = None
    account: str | None = None
    region: str | None = None
    id: int | None = None
    queues: int = 1
    messages: int | None = None
    policy: str | None = None


class TimeInQueue(NamedTuple):
    """The times that messages settled in one step spent in their queue.

    The percentiles (50, 95, 99) are in microseconds, and None where no message was received or
    deleted; `at` is the start of the step in seconds since 1970, or None for all steps.
    """

    at: int | None
    settled: int
    deleted: int
    send_to_receive: tuple[int | None, ...]
    send_to_delete: tuple[int | None, ...]
    is_sample: bool


class NewMessage(NamedTuple):
    """A message that arrived in a queue; `came_at` in microseconds, the body perhaps truncated."""

    id: int
    came_at: int
    state: str
    message_id: str
    group_id: str | None
    characters: int
    body: str


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """A filter of messages by a text in the body, by an attribute's name and by its value.

    `further` is JSON, the members of matches_filter.sql.
    """

    body_contains: str | None = None
    attribute_name: str | None = None
    attribute_value: str | None = None
    further: str | None = None


class SearchedMessages(NamedTuple):
    """What a step of a search found, and the place after it, in microseconds since 1970."""

    references: list[Reference]
    found: int
    searched: int
    at: int | None
    number: int | None
    finished: bool


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A redrive, or a task that moves, copies or deletes messages that match a filter.

    `started_at` is in milliseconds since 1970.
    """

    id: str
    status: str
    destination: str | None
    rate: int | None
    moved: int
    to_move: int
    failure: str | None
    started_at: int
    # redrive, which is SQS's, or move, copy or delete, which have a filter.
    kind: str
    body_contains: str | None
    attribute_name: str | None
    attribute_value: str | None
    passed: int
    further: dict[str, Any] | None = None

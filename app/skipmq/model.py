"""The records that travel between the layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from skipmq import limits


class QueueName(NamedTuple):
    """What names a queue: the account that owns it, its region and its name."""

    account: str
    region: str
    name: str

    @property
    def arn(self) -> str:
        """Return the Amazon Resource Name."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as the database last told; `attributes` by SQS name, as text."""

    name: QueueName
    id: int
    fifo: bool
    attributes: Mapping[str, str]
    tags: Mapping[str, str]
    created_at: int
    modified_at: int

    def number(self, attribute: str) -> int:
        """Return a numeric attribute."""
        return int(self.attributes[attribute])


class OutgoingMessage(NamedTuple):
    """A checked message on its way in; `attributes` is the JSON text that is stored."""

    message_id: str
    body: str
    attributes: str | None = None
    delay_seconds: int | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None


class StoredMessage(NamedTuple):
    """What a send is answered with; only FIFO queues number their messages."""

    message_id: str
    sequence_number: int | None = None


class ReceivedMessage(NamedTuple):
    """A claimed message; times in milliseconds (`received_at` in microseconds) since the epoch."""

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


class PeekedMessage(NamedTuple):
    """A message that was looked at; times in milliseconds since the epoch, `visible_in` seconds."""

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


class Reception(NamedTuple):
    """What one look at a queue gave: messages, or the seconds until the next becomes visible."""

    messages: list[ReceivedMessage]
    next_visible_in: float | None = None


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """How many messages of a queue wait, are in flight and are delayed."""

    visible: int
    in_flight: int
    delayed: int


@dataclass(frozen=True, slots=True)
class MoveTask:
    """A message move task; `started_at` in milliseconds since the epoch."""

    id: str
    status: str
    destination: str | None
    rate: int | None
    moved: int
    to_move: int
    failure: str | None
    started_at: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls: the account, the region that the credential names, and what SenderId shows."""

    account: str = limits.DEFAULT_ACCOUNT
    region: str = limits.DEFAULT_REGION
    sender: str = limits.DEFAULT_ACCOUNT


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A queue that the configuration file asks for."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

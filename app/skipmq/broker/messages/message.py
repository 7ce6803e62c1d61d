"""Messages as they are sent, stored and received."""

from typing import Any

import msgspec


class OutgoingMessage(msgspec.Struct, frozen=True, gc=False):
    """A validated message to send: `size` is its bytes, `attributes` the JSON text to store."""

    message_id: str
    body: str
    size: int
    attributes: str | None = None
    delay_seconds: int | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None


class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """The result of a send; only messages of FIFO queues have a sequence number."""

    message_id: str
    sequence_number: int | None = None


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


class Reception(msgspec.Struct, frozen=True, gc=False):
    """The result of one claim: messages, or the seconds until the next becomes visible."""

    messages: list[ReceivedMessage]
    next_visible_in: float | None = None
    # What holds the memory of large messages, until it is released.
    held: Any = None

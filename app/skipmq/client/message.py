"""Messages: as a handler sees one, and as they are sent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from skipmq.client.attributes import Value, decode

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message as it was received; `receive_count` counts this receive too.

    That count continues in a dead-letter queue; `deliveries` counts the receives from this queue.
    """

    id: str
    text: str = field(repr=False)
    attributes: dict[str, Value] = field(repr=False)
    receive_count: int
    sent_at: datetime
    group: str | None
    dead_letter_source: str | None
    # What settles it: its number or id, and the receive that it was claimed by.
    number: int | str = field(repr=False)
    receipt: int | str = field(repr=False)
    # SQS's AWSTraceHeader.
    trace_header: str | None = field(repr=False)
    deliveries: int

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Message":
        """Return the message of a row of a claim."""
        number, receipt, id_, text, stored, count, sent_at, group, source, trace, own = row
        known = decode(stored)
        sent_at = EPOCH + timedelta(microseconds=sent_at)
        return cls(id_, text, known, count, sent_at, group, source, number, receipt, trace, own)


class Sending(NamedTuple):
    """Encoded messages that have all but their bodies and deduplication ids in common."""

    bodies: list[str]
    attributes: dict[str, dict[str, str]]
    delay: int | None
    group: str | None
    # None for a standard queue.
    deduplication_ids: list[str | None] | None

"""Messages: as a handler sees one, as they are sent, and their attributes."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from skipmq.client.errors import ClientError, check_text

Value = str | int | float | bytes

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
        known = plain_attributes(stored)
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
    deliver_at: datetime | None = None


def attributes_json(attributes: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return attributes of SQS's wire as the SQL functions take them."""
    return msgspec.json.encode(attributes).decode() if attributes else None


def typed_attributes(attributes: Mapping[str, Value]) -> dict[str, dict[str, str]]:
    """Return attributes as SQS's wire has them; raise ClientError for other values."""
    if not isinstance(attributes, Mapping):
        raise ClientError(f"attributes={attributes!r} is no dict: write attributes={{'name': …}}")
    return {name: _typed(name, value) for name, value in attributes.items()}


def plain_attributes(attributes: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Value]:
    """Return attributes as plain values: numbers where they are, text where they are not."""
    return {name: _plain(value) for name, value in (attributes or {}).items()}


def _typed(name: str, value: Any) -> dict[str, str]:
    check_text("the name of an attribute", name)
    match value:
        case str():
            check_text(f"the attribute {name!r}", value)
            return {"DataType": "String", "StringValue": value}
        case int() | float() if not isinstance(value, bool) and math.isfinite(value):
            return {"DataType": "Number", "StringValue": str(value)}
        case bytes():
            return {"DataType": "Binary", "BinaryValue": base64.b64encode(value).decode()}
    raise ClientError(
        f"the attribute {name!r} is {value!r}: an attribute is a text, a number or bytes"
    )


def _plain(value: Mapping[str, Any]) -> Value:
    if "BinaryValue" in value:
        return base64.b64decode(value["BinaryValue"])
    text = str(value["StringValue"])
    if value["DataType"].partition(".")[0] != "Number":
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)

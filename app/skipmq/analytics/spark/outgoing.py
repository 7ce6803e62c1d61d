"""The messages that rows of a DataFrame become."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DataType, IntegralType, MapType, StringType, StructType

# A row's place has the number of its partition above these bits, and its own number below.
_ROW_BITS = 40


class Outgoing(NamedTuple):
    """A message to send; `attributes` is JSON as in SQS, `delay` in seconds."""

    place: int
    body: str | None
    attributes: str | None
    group_id: str | None
    deduplication_id: str | None
    delay: int | None
    trace_header: str | None

    @property
    def size(self) -> int:
        """Return about how many bytes it has."""
        return len(self.body or "") + len(self.attributes or "")


@dataclass(frozen=True, slots=True)
class Part(WriterCommitMessage):
    """What an attempt of a task has written: its rows, without the refused ones.

    `refused` has the first of those, with their reasons.
    """

    stream: str
    partition: int
    id: UUID
    rows: int
    groups: int
    refused_rows: int
    refused: tuple[tuple[int, str], ...]


def row_of(place: int) -> int:
    """Return the number of a row in its partition, from 1 on."""
    return place & ((1 << _ROW_BITS) - 1)


def check(schema: StructType) -> None:
    """Check that rows of a schema can be sent; raise ValueError."""
    strings = MapType(StringType(), StringType())
    types = {"attributes": f"a {strings.simpleString()} or a string of JSON", "delay": "an integer"}
    given = {field.name: field.dataType for field in schema.fields}
    known = Outgoing._fields[1:]
    if unknown := given.keys() - set(known):
        raise ValueError(
            f"a message has no column {', '.join(sorted(unknown))}: select some of"
            f" {', '.join(known)}"
        )
    if "body" not in given:
        raise ValueError("a message needs the column body: a string")
    for name, kind in given.items():
        if not _fits(name, kind):
            expected = types.get(name, "a string")
            raise ValueError(f"the column {name} is {expected}, and not {kind.simpleString()}")


def _fits(name: str, kind: DataType) -> bool:
    if name == "delay":
        return isinstance(kind, IntegralType)
    is_map = isinstance(kind, MapType) and isinstance(kind.keyType, StringType)
    if name == "attributes" and is_map:
        return isinstance(kind.valueType, StringType)
    return isinstance(kind, StringType)


def messages(partition: int, rows: Iterable[Any]) -> Iterator[Outgoing]:
    """Yield the messages of a partition's rows."""
    for number, row in enumerate(rows, 1):
        given = row.asDict()
        attributes = given.pop("attributes", None)
        if isinstance(attributes, dict):
            attributes = json.dumps(
                {
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in attributes.items()
                },
                ensure_ascii=False,
            )
        place = partition << _ROW_BITS | number
        yield Outgoing(place, attributes=attributes, **{**_NOTHING, **given})


_NOTHING = dict.fromkeys(("body", "group_id", "deduplication_id", "delay", "trace_header"))


def chunks(messages: Iterable[Outgoing], count: int, size: int) -> Iterator[list[Outgoing]]:
    """Yield lists of at most `count` messages and about `size` bytes, or of one message."""
    chunk: list[Outgoing] = []
    total = 0
    for message in messages:
        if chunk and (len(chunk) == count or total + message.size > size):
            yield chunk
            chunk, total = [], 0
        chunk.append(message)
        total += message.size
    if chunk:
        yield chunk

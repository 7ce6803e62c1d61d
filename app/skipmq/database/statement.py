"""Statements, prepared on each connection and executed with parameters in binary format.

Source of the formats: PostgreSQL manual, 53.2.3 "Extended Query", and the recv functions in
src/backend/utils/adt (array_recv in arrayfuncs.c).
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from struct import Struct, pack
from typing import Any, NamedTuple, TypeAlias, get_type_hints

from psycopg.adapt import Loader
from psycopg.pq import Format

from skipmq.protocol import errors

Rows: TypeAlias = list[tuple[Any, ...]]

TEXT_FORM, BINARY = 0, 1
# Times are integers: microseconds since 1970, or, as PostgreSQL sends them, since 2000.
EPOCH = 946_684_800_000_000
_NULL = b"\xff\xff\xff\xff"
_INT4_BYTES, _INT8_BYTES = 4, 8
_INT4_OID, INT8_OID, _TEXT_OID, _UUID_OID, TIME_OID = 23, 20, 25, 2950, 1184
_INT4, _INT8 = Struct(">i"), Struct(">q")
_TIME_ELEMENT = Struct(">iq")


class Kind(NamedTuple):
    """A parameter type: its OID, the format of its values, and the function that encodes them."""

    oid: int
    form: int
    write: Callable[[Any], bytes]


class TimestampLoader(Loader):
    """Load a `timestamptz` as microseconds since 1970."""

    format = Format.BINARY

    def load(self, data: Any) -> int:
        """Return the time; infinities compare as before and after all others."""
        value: int = _INT8.unpack(data)[0]
        return value + EPOCH


def _text(value: str) -> bytes:
    written = value.encode()
    if b"\0" in written:
        raise _nul()
    return written


def _nul() -> errors.SqsError:
    return errors.InvalidParameterValueException("A text cannot contain NUL.")


def _texts(values: Sequence[str | None]) -> bytes:
    written = [None if value is None else value.encode() for value in values]
    present = [each for each in written if each is not None]
    if b"\0" in b"".join(present):
        raise _nul()
    parts = [_head(_TEXT_OID, len(values), has_nulls=len(present) < len(values))]
    for each in written:
        if each is None:
            parts.append(_NULL)
        else:
            parts += (_INT4.pack(len(each)), each)
    return b"".join(parts)


def _uuids(values: Sequence[str]) -> bytes:
    length = "00000010"  # 16 bytes each.
    elements = "".join([length + value for value in values])
    head = _head(_UUID_OID, len(values), has_nulls=False)
    return head + bytes.fromhex(elements.replace("-", ""))


def _times(values: Sequence[int | None]) -> bytes:
    elements = [
        _NULL if value is None else _TIME_ELEMENT.pack(_INT8_BYTES, value - EPOCH)
        for value in values
    ]
    return _head(TIME_OID, len(values), has_nulls=None in values) + b"".join(elements)


def _integers(letter: str, oid: int, size: int) -> Callable[[Sequence[int | None]], bytes]:
    element = Struct(f">i{letter}")

    def write(values: Sequence[int | None]) -> bytes:
        parts = [_NULL if value is None else element.pack(size, value) for value in values]
        return _head(oid, len(values), has_nulls=_NULL in parts) + b"".join(parts)

    return write


def _head(oid: int, length: int, *, has_nulls: bool) -> bytes:
    """Return an array's header: dimensions, nulls flag, element type, length, lower bound."""
    if not length:
        return pack(">iiI", 0, 0, oid)
    return pack(">iiIii", 1, has_nulls, oid, length, 1)


BOOLEAN = Kind(16, BINARY, lambda value: b"\1" if value else b"\0")
INTEGER = Kind(_INT4_OID, BINARY, _INT4.pack)
BIGINT = Kind(INT8_OID, BINARY, _INT8.pack)
TEXT = Kind(_TEXT_OID, BINARY, _text)
BYTES = Kind(17, BINARY, bytes)
JSONB = Kind(3802, TEXT_FORM, _text)
UUID = Kind(2950, TEXT_FORM, _text)
TIME = Kind(TIME_OID, BINARY, lambda value: _INT8.pack(value - EPOCH))
# In seconds.
INTERVAL = Kind(1186, TEXT_FORM, lambda value: f"{value} s".encode())
TEXTS = Kind(1009, BINARY, _texts)
INTEGERS = Kind(1007, BINARY, _integers("i", _INT4_OID, _INT4_BYTES))
BIGINTS = Kind(1016, BINARY, _integers("q", INT8_OID, _INT8_BYTES))
TIMES = Kind(1185, BINARY, _times)
# Without nulls.
UUIDS = Kind(2951, BINARY, _uuids)


class Statement:
    """A statement with parameters $1, $2, … of these kinds, each of which may be None for null.

    With `since_2000` times in its rows are microseconds since 2000. A statement that is not
    `repeatable` is not retried when it may have run.
    """

    __slots__ = ("_writers", "forms", "name", "oids", "repeatable", "since_2000", "text")

    def __init__(
        self, text: str, *kinds: Kind, since_2000: bool = False, repeatable: bool = True
    ) -> None:
        self.text = text.encode()
        self.since_2000, self.repeatable = since_2000, repeatable
        self.oids = [kind.oid for kind in kinds]
        # A digest of text and types: the same in every process, and new when a release changes it.
        self.name = b"skipmq_" + sha256(b"%r %a" % (self.text, self.oids)).hexdigest()[:16].encode()
        self.forms = [kind.form for kind in kinds]
        self._writers = [kind.write for kind in kinds]

    def bind(self, parameters: Sequence[Any]) -> list[bytes | None]:
        """Return the encoded parameters.

        Raises errors.InvalidParameterValueException for a text that contains NUL.
        """
        return [
            None if value is None else write(value)
            for write, value in zip(self._writers, parameters, strict=True)
        ]


class Search(Statement):
    """A read-only statement that may read much, for operators.

    It is cancelled at its caller's deadline, and its timeout does not mark the database as
    unavailable.
    """

    __slots__ = ()


class Lookup(Statement):
    """A read-only statement whose rows a server that takes no writes may give, too.

    Where that has none it waits, as others do, for one that takes writes: it may be behind.
    """

    __slots__ = ()


def columns(record: type[Any], /, **expressions: str) -> str:
    """Return the columns of rows that are records.

    They are named as the fields, or are what is given or what a field is annotated with.
    """
    hints = get_type_hints(record, include_extras=True)
    return ", ".join(
        expressions.get(name) or getattr(hint, "__metadata__", [name])[0]
        for name, hint in hints.items()
    )


def whole(column: str) -> str:
    """Return the expression of a number without its fraction."""
    return f"trunc({column})::bigint"


def milliseconds(column: str) -> str:
    """Return the expression of a time in whole milliseconds since 1970."""
    return f"floor(extract(epoch from {column}) * 1000)::bigint"

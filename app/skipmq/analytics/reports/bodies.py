"""Bodies as columns, by the schema of their queue: the same values with Spark and DuckDB.

Only types count. A property that a body lacks is null, one that the schema lacks is omitted, and
`required`, `enum` and bounds are ignored, so that old bodies fit a schema that has grown.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypedDict

import msgspec
import pyarrow as pa

from skipmq.protocol import body_schemas
from skipmq.protocol.body_schemas import DateTime, Integer, Shape

# The column of the bodies that do not fit.
UNFIT = "unfit"


class _Json(str):
    """A value of any type, as JSON."""

    __slots__ = ()


# The types of columns, and those of msgspec; a value of any other type is JSON.
_TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "string": (pa.string(), str),
    "integer": (pa.int64(), Integer),
    "number": (pa.float64(), float),
    "boolean": (pa.bool_(), bool),
    "date-time": (pa.timestamp("us", "UTC"), DateTime),
}
_OTHER = (pa.string(), _Json)


def columns(schema: str) -> pa.StructType:
    """Return the type of `rows`: `body`, and `unfit`; raise body_schemas.SchemaError."""
    shape = body_schemas.read(schema).shape
    return pa.struct([("body", _arrow(shape)), (UNFIT, pa.string())])


def rows(schema: str, texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return each body as a struct, or the text of one that does not fit."""
    decode = _decoder(schema)
    values: list[Any] = []
    unfit: list[str | None] = []
    for text in texts.to_pylist():
        value = None
        if text is not None:
            with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
                value = decode(text)
        values.append(value)
        unfit.append(text if value is None else None)
    made = columns(schema)
    return pa.StructArray.from_arrays(
        [pa.array(values, made.field("body").type), pa.array(unfit, pa.string())],
        fields=list(made),
    )


@lru_cache
def _decoder(schema: str) -> Callable[[str], Any]:
    shape = body_schemas.read(schema).shape
    return msgspec.json.Decoder(_object(shape), dec_hook=_json).decode


def _json(_: type, value: Any) -> _Json:
    return _Json(msgspec.json.encode(value).decode())


def _object(shape: Shape) -> Any:
    # The functional form takes names that are not identifiers.
    members = {name: _type(inner) for name, inner in shape.properties.items()}
    return TypedDict("Object", members, total=False)  # type: ignore[operator]


def _type(shape: Shape) -> Any:
    if shape.properties:
        return _object(shape) | None
    if shape.items:
        return list[_type(shape.items)] | None  # type: ignore[misc]
    return _TYPES.get(shape.type, _OTHER)[1] | None


def _arrow(shape: Shape) -> pa.DataType:
    if shape.properties:
        return pa.struct([(name, _arrow(inner)) for name, inner in shape.properties.items()])
    if shape.items:
        return pa.list_(_arrow(shape.items))
    return _TYPES.get(shape.type, _OTHER)[0]

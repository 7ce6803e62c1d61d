"""The schema that Spark prints for a JSON variant: `OBJECT<id: DOUBLE, tags: ARRAY<STRING>>`.

Unlike in Spark, all numbers are DOUBLE.
"""

import re
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

# The name of a type; a list with the element type of an array; the fields of an object.
_Type: TypeAlias = "str | list[_Type] | dict[str, _Type]"
_NAMES = {type(None): "VOID", bool: "BOOLEAN", int: "DOUBLE", float: "DOUBLE", str: "STRING"}
_decode = msgspec.json.Decoder().decode


def schemas(texts: pa.ChunkedArray) -> pa.Array:
    """Return the schema of each text, null for invalid JSON."""
    return pa.array(map(_schema, texts.to_pylist()), pa.string())


def _schema(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _printed(_decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _printed(value: Any) -> str:
    # A hot path, which runs for each row: elements of one type are not merged.
    if name := _NAMES.get(type(value)):
        return name
    if type(value) is dict:
        fields = [f"{_key(key)}: {_printed(each)}" for key, each in sorted(value.items())]
        return f"OBJECT<{', '.join(fields)}>"
    types = {_printed(each) for each in value}
    return f"ARRAY<{types.pop() if len(types) == 1 else _formatted(_type(value)[0])}>"


@lru_cache(10_000)
def _key(key: str) -> str:
    return key if re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key) else f"`{key.replace('`', '``')}`"


def _type(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _type(each) for key, each in value.items()}
    if isinstance(value, list):
        merged: _Type = "VOID"
        for each in value:
            merged = _merged(merged, _type(each))
        return [merged]
    return _NAMES[type(value)]


def _merged(one: _Type, other: _Type) -> _Type:
    """Return the common type of array elements."""
    if other in (one, "VOID"):
        return one
    if one == "VOID":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: _merged(one.get(k, "VOID"), other.get(k, "VOID")) for k in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return "VARIANT"


def _formatted(schema: _Type) -> str:
    if isinstance(schema, dict):
        fields = [f"{_key(key)}: {_formatted(each)}" for key, each in sorted(schema.items())]
        return f"OBJECT<{', '.join(fields)}>"
    return f"ARRAY<{_formatted(schema[0])}>" if isinstance(schema, list) else schema

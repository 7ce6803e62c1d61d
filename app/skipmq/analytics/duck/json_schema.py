"""What Spark says of a JSON text's variant: `OBJECT<id: DOUBLE, tags: ARRAY<STRING>>`.

A number is a DOUBLE here, whichever it is for Spark.
"""

import re
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

# A name, of an array a list of its one type, of an object its fields.
_Type: TypeAlias = "str | list[_Type] | dict[str, _Type]"
_NAMES = {type(None): "VOID", bool: "BOOLEAN", int: "DOUBLE", float: "DOUBLE", str: "STRING"}
_decode = msgspec.json.Decoder().decode


def of_texts(texts: pa.ChunkedArray) -> pa.Array:
    """Return the schema of each text; null of what is no JSON."""
    return pa.array(map(_of_text, texts.to_pylist()), pa.string())


def _of_text(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _printed(_decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _printed(value: Any) -> str:
    """Return the schema of a value: of each row, so that it is written to be quick."""
    if name := _NAMES.get(type(value)):
        return name
    if type(value) is dict:
        fields = [f"{_key(key)}: {_printed(each)}" for key, each in sorted(value.items())]
        return f"OBJECT<{', '.join(fields)}>"
    found = {_printed(each) for each in value}
    return f"ARRAY<{found.pop() if len(found) == 1 else _shown(_type(value)[0])}>"


@lru_cache(10_000)
def _key(key: str) -> str:
    return key if re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key) else f"`{key.replace('`', '``')}`"


def _type(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _type(each) for key, each in value.items()}
    if isinstance(value, list):
        found: _Type = "VOID"
        for each in value:
            found = _merged(found, _type(each))
        return [found]
    return _NAMES[type(value)]


def _merged(one: _Type, other: _Type) -> _Type:
    """Return the type of elements of which some are of the one and some of the other."""
    if other in (one, "VOID"):
        return one
    if one == "VOID":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: _merged(one.get(k, "VOID"), other.get(k, "VOID")) for k in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return "VARIANT"


def _shown(found: _Type) -> str:
    if isinstance(found, dict):
        fields = [f"{_key(key)}: {_shown(each)}" for key, each in sorted(found.items())]
        return f"OBJECT<{', '.join(fields)}>"
    return f"ARRAY<{_shown(found[0])}>" if isinstance(found, list) else found

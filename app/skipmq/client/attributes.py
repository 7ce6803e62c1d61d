"""Message attributes: plain values, and the JSON in which SQS has them."""

import base64
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from skipmq.client.errors import ClientError
from skipmq.client.values import check_text

Value = str | int | float | bytes


def encoded(attributes: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return attributes of SQS's wire as the SQL functions take them."""
    return msgspec.json.encode(attributes).decode() if attributes else None


def typed(attributes: Mapping[str, Value]) -> dict[str, dict[str, str]]:
    """Return attributes as SQS's wire has them; raise ClientError for other values."""
    if not isinstance(attributes, Mapping):
        raise ClientError(f"attributes={attributes!r} is no dict: write attributes={{'name': …}}")
    return {name: _typed(name, value) for name, value in attributes.items()}


def decode(attributes: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Value]:
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

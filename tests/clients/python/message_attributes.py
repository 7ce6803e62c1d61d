"""The message attributes that the scripts beside this file send, and how summaries show them."""

import hashlib
from collections.abc import Mapping
from typing import Any

SENT: dict[str, dict[str, Any]] = {
    "Title": {"DataType": "String", "StringValue": "Grüße ☕"},
    "Weight": {"DataType": "Number", "StringValue": "12.50"},
    "Leaf": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xfe\xff"},
}


def md5(content: bytes) -> str:
    """Return the digest that botocore leaves unchecked."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def shown(attributes: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return them in the form of the summaries: name to type and value, bytes in hexadecimal."""
    return {
        name: [
            attribute["DataType"],
            attribute["BinaryValue"].hex()
            if "BinaryValue" in attribute
            else attribute["StringValue"],
        ]
        for name, attribute in attributes.items()
    }

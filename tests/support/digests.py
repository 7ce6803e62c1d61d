"""The digests of SQS, written from its documentation and not from our own code.

Source: SQS Developer Guide, "Calculating the MD5 message digest for message attributes".
"""

from collections.abc import Mapping
from hashlib import md5
from typing import Any


def of_text(text: str) -> str:
    """Return the digest of a message's body."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def of_attributes(attributes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of a message's attributes."""
    digest = md5(usedforsecurity=False)
    for name, value in sorted(attributes.items()):
        is_text = "StringValue" in value
        content = value["StringValue"].encode() if is_text else value["BinaryValue"]
        for part in (name.encode(), value["DataType"].encode()):
            digest.update(len(part).to_bytes(4) + part)
        digest.update((b"\x01" if is_text else b"\x02") + len(content).to_bytes(4) + content)
    return digest.hexdigest()

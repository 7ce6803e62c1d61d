"""MD5 digests of message bodies and attributes, which SDKs check.

Source: SQS Developer Guide, "Calculating the MD5 message digest for message attributes".
"""

from collections.abc import Mapping
from struct import pack
from typing import TYPE_CHECKING

from skipmq.protocol.requests import AttributeValue

if TYPE_CHECKING:
    from hashlib import md5
else:
    try:
        # Python's own is faster for short bodies: OpenSSL takes longer to set a digest up.
        from _md5 import md5
    except ImportError:  # This Python was built without it.
        from hashlib import md5

_STRING, _BINARY = b"\x01", b"\x02"


def body_md5(body: str) -> str:
    """Return the hexadecimal MD5 digest of a message body in UTF-8."""
    return md5(body.encode(), usedforsecurity=False).hexdigest()


def attributes_md5(attributes: Mapping[str, AttributeValue]) -> str:
    """Return the hexadecimal MD5 digest of message attributes by name."""
    digest = md5(usedforsecurity=False)
    for name in sorted(attributes):
        value = attributes[name]
        for part in (name.encode(), value.DataType.encode()):
            digest.update(pack(">I", len(part)) + part)
        if value.BinaryValue is not None:
            kind, content = _BINARY, value.BinaryValue
        else:
            kind, content = _STRING, (value.StringValue or "").encode()
        digest.update(kind + pack(">I", len(content)) + content)
    return digest.hexdigest()

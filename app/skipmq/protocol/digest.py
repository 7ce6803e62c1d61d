"""MD5 digests of message bodies and attributes, as SDKs check them.

Source: SQS Developer Guide, "Calculating the MD5 message digest for message attributes".
"""

from collections.abc import Mapping
from struct import pack
from typing import TYPE_CHECKING

from skipmq.model import AttributeValue

if TYPE_CHECKING:
    from hashlib import md5
else:
    try:
        # Python's own: OpenSSL takes longer to begin a digest than to make one of a short body.
        from _md5 import md5
    except ImportError:  # This Python was built without.
        from hashlib import md5

_STRING, _BINARY = b"\x01", b"\x02"


def of_body(body: str) -> str:
    """Return the hexadecimal MD5 digest of a message body in UTF-8."""
    return md5(body.encode(), usedforsecurity=False).hexdigest()


def of_attributes(attributes: Mapping[str, AttributeValue]) -> str:
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

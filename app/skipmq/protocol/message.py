"""What messages have in SQS: ids, allowed characters, MD5 digests that SDKs check, trace headers.

Source: SQS Developer Guide, "Calculating the MD5 message digest for message attributes".
"""

import os
import re
from collections.abc import Iterator, Mapping
from struct import pack
from typing import TYPE_CHECKING

from skipmq.protocol.limits import FORBIDDEN_CHARACTER

if TYPE_CHECKING:
    from hashlib import md5

    from skipmq.protocol.requests import AttributeValue
else:
    try:
        # Python's own is faster for short bodies: OpenSSL takes longer to set a digest up.
        from _md5 import md5
    except ImportError:  # This Python was built without it.
        from hashlib import md5

_STRING, _BINARY = b"\x01", b"\x02"
_ROOT, _PARENT = re.compile("1-([0-9a-f]{8})-([0-9a-f]{24})"), re.compile("[0-9a-f]{16}")
# Nearly all texts have only these characters, which bytes.translate checks fast.
_PLAIN = bytes([*b"\t\n\r", *range(0x20, 0x80)])
# Random UUIDs are generated in pools of text, with a space after each. Places of the digits:
_POOLED = 256
_DIGIT_PLACES = [place for place in range(36) if place not in {8, 13, 18, 23}]
_UUID = b"00000000-0000-4000-0000-000000000000 "
# The template has the version; the variant is in the two upper bits of its digit.
_VERSION_PLACE, _VARIANT_PLACE = 14, 19
_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


def forbidden_character(text: str) -> str | None:
    """Return a character of a text that XML 1.0 excludes, or None."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return None
    found = FORBIDDEN_CHARACTER.search(text)
    return found and found[0]


def body_md5(body: str) -> str:
    """Return the hexadecimal MD5 digest of a message body in UTF-8."""
    return md5(body.encode(), usedforsecurity=False).hexdigest()


def attributes_md5(attributes: "Mapping[str, AttributeValue]") -> str:
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


def traceparent(header: str) -> str | None:
    """Return the `traceparent` of a header such as `Root=1-67891233-…;Parent=…;Sampled=1`, or None.

    Source: AWS X-Ray Developer Guide, "Tracing header". Root is W3C's trace ID in two parts.
    """
    fields = dict(field.strip().split("=", 1) for field in header.split(";") if "=" in field)
    root = _ROOT.fullmatch(fields.get("Root", ""))
    parent = _PARENT.fullmatch(fields.get("Parent", ""))
    if root is None or parent is None:
        return None
    return f"00-{root[1]}{root[2]}-{parent[0]}-{int(fields.get('Sampled') == '1'):02}"


def _uuids() -> Iterator[str]:
    """Yield random UUIDs as text, generated in pools, one column of digits at a time.

    Source of the format: RFC 9562, section 5.4.
    """
    while True:
        digits = os.urandom(len(_DIGIT_PLACES) * _POOLED // 2).hex().encode()
        made = bytearray(_UUID * _POOLED)
        for number, place in enumerate(_DIGIT_PLACES):
            column = digits[number :: len(_DIGIT_PLACES)]
            if place == _VARIANT_PLACE:
                column = column.translate(_VARIANT)
            if place != _VERSION_PLACE:
                made[place :: len(_UUID)] = column
        yield from made.decode().split()


# Returns a random UUID as text; for the event loop's thread only. Each request and each message has
# one, and str(uuid.uuid4()) takes nine times as long.
new_uuid = _uuids().__next__

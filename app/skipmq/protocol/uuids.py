"""Random UUIDs as text, made in pools."""

import os
from collections.abc import Iterator

_POOLED = 256


# Random UUIDs are generated in pools of text, with a space after each. Places of the digits:
_DIGIT_PLACES = [place for place in range(36) if place not in {8, 13, 18, 23}]


_UUID = b"00000000-0000-4000-0000-000000000000 "


_UUID_LENGTH = len(_UUID)


# The template has the version; the variant is in the two upper bits of its digit.
_VERSION_PLACE, _VARIANT_PLACE = 14, 19


_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


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
                made[place::_UUID_LENGTH] = column
        yield from made.decode().split()


# Returns a random UUID as text; for the event loop's thread only. Each request and each message has
# one, and str(uuid.uuid4()) takes nine times as long.
new_uuid = _uuids().__next__

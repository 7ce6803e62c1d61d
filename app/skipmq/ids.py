"""Random identifiers."""

import os
from collections.abc import Iterator

_POOLED = 256
# Where the digits of a UUID stand in its text, which a space ends here.
_PLACES = [place for place in range(36) if place not in {8, 13, 18, 23}]
_TEMPLATE = b"00000000-0000-4000-0000-000000000000 "
_LENGTH = len(_TEMPLATE)
# The version stands in the template; the two upper bits of the variant's digit say which it is.
_VERSION_PLACE, _VARIANT_PLACE = 14, 19
_VARIANT = bytes.maketrans(b"0123456789abcdef", b"89ab" * 4)


def _uuids() -> Iterator[str]:
    """Give random UUIDs as text, many of which are made at once, a column of digits at a time.

    Source of the form: RFC 9562, section 5.4.
    """
    while True:
        digits = os.urandom(len(_PLACES) * _POOLED // 2).hex().encode()
        made = bytearray(_TEMPLATE * _POOLED)
        for number, place in enumerate(_PLACES):
            column = digits[number :: len(_PLACES)]
            if place == _VARIANT_PLACE:
                column = column.translate(_VARIANT)
            if place != _VERSION_PLACE:
                made[place::_LENGTH] = column
        yield from made.decode().split()


# Returns a random UUID as text; for the thread of the event loop. Each request and each message has
# one: str(uuid.uuid4()) takes nine times as long.
new = _uuids().__next__

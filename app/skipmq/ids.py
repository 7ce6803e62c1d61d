"""Random identifiers."""

import os
from collections.abc import Iterator

_BYTES, _POOLED = 16, 256
# The two upper bits of this digit say of which variant a UUID is.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _uuids() -> Iterator[str]:
    """Give random UUIDs as text; the system is asked for the bytes of many at once.

    Source of the form: RFC 9562, section 5.4.
    """
    while True:
        pool = os.urandom(_BYTES * _POOLED).hex()
        for start in range(0, len(pool), 2 * _BYTES):
            d = pool[start : start + 2 * _BYTES]
            yield f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{_VARIANT[d[16]]}{d[17:20]}-{d[20:]}"


# Returns a random UUID as text; for the thread of the event loop. Each request and each message has
# one: str(uuid.uuid4()) takes four times as long.
new = _uuids().__next__

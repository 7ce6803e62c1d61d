"""Times in options that are relative to a clock."""

import re
from datetime import timedelta

_AGO = re.compile("([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def ago(text: str) -> timedelta | None:
    """Return how long ago a text such as 30m, 6h, 2d or 1w is, None for another text."""
    found = _AGO.fullmatch(text)
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None

"""Formatting of numbers and times."""

from datetime import datetime, timedelta
from functools import cache

# An en dash for unknown values.
_UNKNOWN = "\u2013"
_MILLION = 1e6
_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))
# A unit is used from two of it on, except for exactly one.
_SINGLE = {86_400: "1 day", 3_600: "1 h", 60: "1 min"}
_FULL_DIGITS = 10_000
_LINE = 120


def duration(seconds: float | None) -> str:
    """Format a time such as `350 ms`, `4.1 s`, `41 s`, `12 min`, `3.2 h` or `4 days`."""
    if seconds is None:
        return _UNKNOWN
    if seconds < 1:
        return f"{figures(seconds * 1000)} ms" if seconds else "0 s"
    if seconds in _SINGLE:
        return _SINGLE[int(seconds)]
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{figures(seconds / length)} {unit}"
    return f"{figures(seconds)} s"


def count(number: float | None) -> str:
    """Format a number such as `950`, `12,345` or `1.2 million`."""
    if number is None:
        return _UNKNOWN
    if number >= _MILLION:
        return f"{figures(number / _MILLION)} million"
    return f"{number:,.0f}"


def percent(share: float | None) -> str:
    """Format a share such as `0.04 %`, `2.1 %` or `48 %`."""
    return _UNKNOWN if share is None else f"{figures(share * 100)} %" if share else "0 %"


def size(number: float | None) -> str:
    """Format a number of bytes such as `850 B`, `12 kB` or `1.4 GB`."""
    if number is None:
        return _UNKNOWN
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - the factor between units.
            return f"{figures(number)} {unit}"
        number /= 1000
    return f"{figures(number)} TB"


def rate(per_second: float) -> str:
    """Format a rate such as `12 a second`, `3 a minute` or `0.5 an hour`."""
    for seconds, unit in ((1, "a second"), (60, "a minute"), (3_600, "an hour")):
        if per_second * seconds >= 1:
            return f"{figures(per_second * seconds)} {unit}"
    return f"{figures(per_second * 3_600)} an hour"


def moment(at: datetime | None) -> str:
    """Format a time in UTC to the minute."""
    return _UNKNOWN if at is None else f"{at:%Y-%m-%d %H:%M}"


@cache
def time(at: datetime) -> str:
    """Format a time as `20 Nov 09:30`, with seconds unless they are 0."""
    return f"{at.day} {at:%b} " + at.strftime("%H:%M:%S" if at.second else "%H:%M")


@cache
def spelled(since: datetime, length: timedelta) -> str:
    """Format a step as `20 Nov 09:30, for 30 min`."""
    return f"{time(since)}, for {duration(length.total_seconds())}"


def line(text: str) -> str:
    """Return a text in a line of at most 120 characters; of a traceback the last, its error."""
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    if lines[1:] and "Traceback (most recent call last)" in text:
        lines = [lines[0].partition("Traceback (most recent call last)")[0] + lines[-1]]
    whole = " ".join(lines)
    return whole if len(whole) <= _LINE else whole[: _LINE - 1] + "\u2026"


def figures(number: float) -> str:
    """Format a number with two significant digits, or with all integer digits."""
    if number >= _FULL_DIGITS:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 10 else f"{float(f'{number:.2g}'):g}"  # noqa: PLR2004

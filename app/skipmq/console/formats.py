"""Template filters that format numbers, times and bodies."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import msgspec

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SCALES = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
# Smaller numbers are not abbreviated.
_ABBREVIATED_FROM = 100_000
# A string that does not end is one to the end: each character is read once.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[][{}]')
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
# Limits on the input, the output and the depth of pretty-printed JSON.
_MAXIMUM_INPUT, _MAXIMUM_OUTPUT, _MAXIMUM_DEPTH = 1 << 18, 1 << 20, 64


def count(value: int) -> str:
    """Format a number with separators; abbreviate large ones in thousands, millions, billions."""
    if value < _ABBREVIATED_FROM:
        return f"{value:,}"
    scale, letter = next(each for each in _SCALES if value >= each[0])
    return f"{value / scale:.1f} {letter}"


def exact(value: int) -> str:
    """Format a number with separators."""
    return f"{value:,}"


def duration(value: float | str) -> str:
    """Format seconds in their two largest units."""
    rest, parts = int(value), []
    for seconds, unit in _UNITS:
        number, rest = divmod(rest, seconds)
        if number:
            parts.append(f"{number} {unit}{'' if number == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"


def size(value: int | str) -> str:
    """Format a number of bytes."""
    number = int(value)
    for bytes_, unit in _SIZES:
        if number >= bytes_:
            return f"{number / bytes_:.4g} {unit}"
    return f"{number} byte{'' if number == 1 else 's'}"


def moment(seconds: float | str) -> str:
    """Format a time in seconds since 1970."""
    return f"{datetime.fromtimestamp(float(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(seconds: float) -> str:
    """Format the time of day of a time in seconds since 1970."""
    minutes = int(seconds // 60) % 1_440
    return f"{minutes // 60:02}:{minutes % 60:02}"


def day(seconds: float) -> str:
    """Format the day of a time in seconds since 1970."""
    return f"{datetime.fromtimestamp(seconds, UTC):%b %-d}"


def brief_moment(seconds: float, now: float) -> str:
    """Format a time as the time of day, with its day where that is not the day of `now`."""
    at, today = (datetime.fromtimestamp(each, UTC) for each in (seconds, now))
    return f"{at:%H:%M:%S}" if at.date() == today.date() else f"{at:%b %-d %H:%M}"


def exact_moment(seconds: float) -> str:
    """Format a time in seconds since 1970 to the millisecond."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"


def machine_moment(seconds: float | str) -> str:
    """Format a time in seconds since 1970 for HTML's `datetime` attribute."""
    return datetime.fromtimestamp(float(seconds), UTC).isoformat(timespec="milliseconds")


def pretty(body: str) -> str:
    """Pretty-print a body that is a JSON object or list; return other bodies unchanged.

    Only whitespace changes: numbers keep their digits, objects their order and duplicate members.
    """
    if len(body) > _MAXIMUM_INPUT or not body.lstrip().startswith(("{", "[")):
        return body
    steps = (_STEPS.get(found[0], 0) for found in _STRING_OR_BRACKET.finditer(body))
    if max(accumulate(steps)) > _MAXIMUM_DEPTH:
        return body
    try:
        shown = msgspec.json.format(body)
    except msgspec.DecodeError:
        return body
    return shown if len(shown) <= _MAXIMUM_OUTPUT else body


def age(seconds: int) -> str:
    """Format seconds in their largest unit, for the column of a list."""
    value, unit = next(
        ((seconds // each, name) for each, name in _UNITS if seconds >= each), (0, "second")
    )
    return f"{value} {unit[0] if unit != 'minute' else 'min'}"


def curves(minutes: Sequence[Mapping[str, int]], clock: int) -> dict[str, Any]:
    """Return the sparklines of messages sent and deleted in the last hour, as points of an SVG.

    `clock` is the database's time in seconds since 1970. The drawing is 60 wide and 20 high; `peak`
    is the maximum of a minute.
    """
    by_minute = {each["Minute"]: each for each in minutes}
    now = clock // 60 * 60
    last = range(now - 59 * 60, now + 1, 60)
    values = {
        name: [by_minute[minute][name] if minute in by_minute else 0 for minute in last]
        for name in ("Sent", "Deleted")
    }
    peak = max(map(max, values.values()))
    return {"peak": peak} | {
        name.lower(): " ".join(
            f"{x},{19 - 18 * value / (peak or 1):.1f}" for x, value in enumerate(line)
        )
        for name, line in values.items()
    }


FILTERS = (
    count, exact, duration, size, moment, brief_moment, clock, day, exact_moment, machine_moment,
    pretty, age, curves,
)  # fmt: skip

"""Numbers as people read them."""

from datetime import datetime

# What stands where nothing is known.
_NOTHING = "\u2013"
_MILLION = 1e6
_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"))
# Two hours are hours, one is 60 minutes; but whole ones are shown as such.
_WHOLE = {86_400: "1 day", 3_600: "1 h", 60: "1 min"}
_MANY = 10_000


def duration(seconds: float | None) -> str:
    """Return a time such as `350 ms`, `4.1 s`, `41 s`, `12 min`, `3.2 h`, `4 days`."""
    if seconds is None:
        return _NOTHING
    if seconds < 1:
        return f"{figures(seconds * 1000)} ms" if seconds else "0 s"
    if seconds in _WHOLE:
        return _WHOLE[int(seconds)]
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{figures(seconds / length)} {unit}"
    return f"{figures(seconds)} s"


def count(number: float | None) -> str:
    """Return a number such as `950`, `12,345`, `1.2 million`."""
    if number is None:
        return _NOTHING
    if number >= _MILLION:
        return f"{figures(number / _MILLION)} million"
    return f"{number:,.0f}"


def tick(number: float) -> str:
    """Return a number as it stands on an axis, such as `950`, `12 k`, `1.2 M`."""
    for size_, unit in ((_MILLION, "M"), (_MANY, "k")):
        if number >= size_:
            return f"{figures(number / (_MILLION if unit == 'M' else 1_000))} {unit}"
    return f"{number:,.0f}"


def percent(share: float | None) -> str:
    """Return a share such as `0.04 %`, `2.1 %`, `48 %`."""
    return _NOTHING if share is None else f"{figures(share * 100)} %" if share else "0 %"


def size(number: float | None) -> str:
    """Return a number of bytes such as `850 B`, `12 kB`, `1.4 GB`."""
    if number is None:
        return _NOTHING
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:  # noqa: PLR2004 - the step from unit to unit.
            return f"{figures(number)} {unit}"
        number /= 1000
    return f"{figures(number)} TB"


def rate(per_second: float) -> str:
    """Return a rate such as `12 a second`, `3 a minute`, `0.5 an hour`."""
    for seconds, unit in ((1, "a second"), (60, "a minute"), (3_600, "an hour")):
        if per_second * seconds >= 1:
            return f"{figures(per_second * seconds)} {unit}"
    return f"{figures(per_second * 3_600)} an hour"


def moment(at: datetime | None) -> str:
    """Return a time in UTC to the minute."""
    return _NOTHING if at is None else f"{at:%Y-%m-%d %H:%M}"


def figures(number: float) -> str:
    """Return a number with two figures, or all before the point."""
    if number >= _MANY:
        return f"{number:,.0f}"
    return f"{number:.0f}" if number >= 10 else f"{float(f'{number:.2g}'):g}"  # noqa: PLR2004

"""How a time compares with the one before of equal length, in words and with an arrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from skipmq.analytics.page.findings import Row
from skipmq.analytics.page.numbers import count, duration, figures, moment, percent
from skipmq.analytics.period import Period

_UP, _DOWN = "\u25b2", "\u25bc"
# Twice as much is said in times, less in per cent.
_TWICE, _MANY = 2, 100
_ALL = 0.99
# What gets worse by so much has a colour, too.
_NOTICED = 1.1


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that is compared: its column, how it is written, and what more and less are."""

    title: str
    column: str
    form: Callable[[float | None], str]
    more: str
    less: str
    # Whether more of it is worse.
    worse: bool = False


MEASURES = (
    Measure("arrived", "arrived", count, "more", "fewer"),
    Measure("deleted", "deleted", count, "more", "fewer"),
    Measure("p95 time in queue", "send_to_delete_p95", duration, "longer", "shorter", worse=True),
    Measure("dead letters", "dead_lettered", count, "more", "fewer", worse=True),
    Measure("redelivered", "redelivery_rate", percent, "more", "less", worse=True),
)


def change(measure: Measure, now: float | None, before: float | None) -> str:
    """Return what became of a number, such as `▲ 12 % more`; nothing where one is not known."""
    if now is None or before is None:
        return ""
    if measure.form(now) == measure.form(before):
        return "= the same"
    word, arrow = (measure.more, _UP) if now > before else (measure.less, _DOWN)
    if not before:
        return f"{arrow} from none"
    if not now:
        return f"{arrow} to none"
    if now / before >= _TWICE:
        ratio = now / before
        return f"{arrow} {figures(ratio) if ratio < _MANY else count(ratio)} times"
    share = abs(now / before - 1)
    return f"{arrow} {percent(share) if share < _ALL else 'more than 99 %'} {word}"


def cell(measure: Measure, row: Row, *, known: bool) -> Markup:
    """Return the number now, and, where they are `known`, the one before and the change."""
    now, before = row[measure.column], row[f"{measure.column}_before"]
    # Where the table is too wide for the screen it has no head.
    what = Markup('<small class="what">{}</small><b>{}</b>').format(
        measure.title, measure.form(now)
    )
    if not known:
        return what
    said, kind = change(measure, now, before), ""
    if measure.worse and now and now > (before or 0) * _NOTICED:
        kind = "worse"
    return what + Markup('<small>before {}</small><small class="{}">{}</small>').format(
        measure.form(before), kind, said
    )


def known(period: Period, since: datetime | None, rows: Sequence[Row]) -> bool:
    """Return whether the whole time before is known, and something was in it.

    `since` is the beginning of what the source knows, None where that has no beginning.
    """
    there = any(row[f"{m.column}_before"] for row in rows for m in MEASURES)
    return there and (since is None or since <= period.before.since)


def about(period: Period, since: datetime | None, rows: Sequence[Row]) -> str:
    """Return what is compared with what, or why nothing is."""
    before = period.before
    time = f"{moment(before.since)} to {moment(before.until)} UTC"
    if known(period, since, rows):
        return f"This time, and before: {time}, the time before of equal length."
    if since is not None and since > before.since:
        return (
            f"The history begins at {moment(since)} UTC: the time before of equal length, {time},"
            " is not known, or in part only, so that there is nothing to compare with."
        )
    return f"Nothing to compare with is known: nothing arrived or was settled from {time}."

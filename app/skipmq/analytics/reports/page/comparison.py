"""The comparison of a period with the previous one, in words and with arrows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from skipmq.analytics.reports.page.findings import Row
from skipmq.analytics.reports.page.numbers import count, duration, figures, moment, percent
from skipmq.analytics.reports.period import Period

_UP, _DOWN = "\u25b2", "\u25bc"
# From this ratio on a change is a multiple instead of a percentage, and from the second one on
# without decimals.
_MULTIPLE, _INTEGER_MULTIPLE = 2, 100
_MAXIMUM_PERCENTAGE = 0.99
# A deterioration by more than this factor is highlighted.
_HIGHLIGHTED = 1.1


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure to compare: its column, its format, and the words for an increase and decrease."""

    title: str
    column: str
    form: Callable[[float | None], str]
    more: str
    less: str
    # Whether an increase is a deterioration.
    worse: bool = False


MEASURES = (
    Measure("arrived", "arrived", count, "more", "fewer"),
    Measure("deleted", "deleted", count, "more", "fewer"),
    Measure("p95 time in queue", "send_to_delete_p95", duration, "longer", "shorter", worse=True),
    Measure("dead letters", "dead_lettered", count, "more", "fewer", worse=True),
    Measure("redelivered", "redelivery_rate", percent, "more", "less", worse=True),
)


def change(measure: Measure, now: float | None, before: float | None) -> str:
    """Describe the change of a number, such as `▲ 12 % more`; empty if one is unknown."""
    if now is None or before is None:
        return ""
    if measure.form(now) == measure.form(before):
        return "= unchanged"
    word, arrow = (measure.more, _UP) if now > before else (measure.less, _DOWN)
    if not before:
        return f"{arrow} from none"
    if not now:
        return f"{arrow} to none"
    if now / before >= _MULTIPLE:
        ratio = now / before
        return f"{arrow} {figures(ratio) if ratio < _INTEGER_MULTIPLE else count(ratio)} times"
    share = abs(now / before - 1)
    return f"{arrow} {percent(share) if share < _MAXIMUM_PERCENTAGE else 'more than 99 %'} {word}"


def cell(measure: Measure, row: Row, *, with_change: bool) -> Markup:
    """Return the number and, with `with_change`, the previous number and the change."""
    now, before = row[measure.column], row[f"{measure.column}_before"]
    # On narrow screens the table has no head, so the cell has the title, too.
    number = Markup('<small class="what">{}</small><b>{}</b>').format(
        measure.title, measure.form(now)
    )
    if not with_change:
        return number
    is_worse = measure.worse and now and now > (before or 0) * _HIGHLIGHTED
    return number + Markup('<small>before {}</small><small class="{}">{}</small>').format(
        measure.form(before), "worse" if is_worse else "", change(measure, now, before)
    )


def is_possible(period: Period, since: datetime | None, rows: Sequence[Row]) -> bool:
    """Return whether the history covers the previous period, and had any activity in it.

    `since` is the beginning of the source's history, None if it is unlimited.
    """
    has_activity = any(row[f"{m.column}_before"] for row in rows for m in MEASURES)
    return has_activity and (since is None or since <= period.before.since)


def about(period: Period, since: datetime | None, rows: Sequence[Row]) -> str:
    """Describe the previous period, or the reason why there is no comparison."""
    before = period.before
    time = f"{moment(before.since)} to {moment(before.until)} UTC"
    if is_possible(period, since, rows):
        return f"This period, and the previous one of equal length: {time}."
    if since is not None and since > before.since:
        return (
            f"No comparison: the history begins at {moment(since)} UTC and does not cover the"
            f" previous period of equal length, {time}."
        )
    return f"No comparison: no message arrived or was settled from {time}."

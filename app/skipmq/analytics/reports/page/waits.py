"""The times within a period in which the messages of a queue waited for long."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from skipmq.analytics.reports.period import Period

# A longer wait for the first receive (that of backlog.sql), and a backlog above the arrivals of
# this time, is reported. Of the messages received in a step, this share may have waited longer.
LIMIT_SECONDS = 60
_LATE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which messages waited for longer than LIMIT_SECONDS to be received.

    It begins with the step in which the first of them arrived, and ends with the one in which the
    last was received or settled. `waiting` is the largest backlog, `seconds` the longest wait,
    `stalled_seconds` the longest time in which none left it, `arrived` and `left` the messages of
    these steps.
    """

    since: datetime
    until: datetime
    seconds: float
    waiting: int
    stalled_seconds: float
    arrived: int
    left: int

    @property
    def values(self) -> Mapping[str, Any]:
        """The figures, without the times."""
        return {k: v for k, v in asdict(self).items() if k not in {"since", "until"}}


def episodes(
    backlog: Sequence[Mapping[str, Any]], period: Period
) -> Mapping[str, Sequence[Episode]]:
    """Return the episodes of each queue, in order, from the rows of the backlog."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(backlog, key=lambda row: row["at"]):
        found.setdefault(row["name"], []).append(row)
    made = {name: list(_episodes(steps, period)) for name, steps in found.items()}
    return {name: each for name, each in made.items() if each}


def _episodes(steps: Sequence[Mapping[str, Any]], period: Period) -> Iterator[Episode]:
    spans: list[tuple[datetime, datetime]] = []
    for step in steps:
        is_late = step["late"] > step["went"] * _LATE_SHARE
        if is_late or step["oldest_age_seconds"] > LIMIT_SECONDS:
            since, until = max(step["late_since"], period.since), step["at"]
            while spans and spans[-1][1] >= since:
                since = min(since, spans.pop()[0])
            spans.append((since, until))
    for since, until in spans:
        yield _episode([s for s in steps if since < s["at"] <= until])


def _episode(steps: Sequence[Mapping[str, Any]]) -> Episode:
    stalled = longest = 0.0
    for step in steps:
        stalled = stalled + step["seconds"] if step["waiting"] and not step["went"] else 0
        longest = max(longest, stalled)
    return Episode(
        steps[0]["at"] - timedelta(seconds=steps[0]["seconds"]),
        steps[-1]["at"],
        max(max(step["oldest_age_seconds"], step["longest_wait_seconds"]) for step in steps),
        max(step["waiting"] for step in steps),
        longest,
        sum(step["came"] for step in steps),
        sum(step["went"] for step in steps),
    )

"""The times within a period in which the messages of a queue waited for long."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from skipmq.analytics.reports.period import Period

# A wait above this number of seconds, and a backlog above the arrivals of this time, is reported.
LIMIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Episode:
    """A time in which messages waited for longer than LIMIT_SECONDS.

    `waiting` is the largest backlog, `seconds` the longest wait (of steps of a backlog the age of
    the oldest message, of latencies the 99th percentile), `stalled_seconds` the longest time
    without a settlement while messages waited, `arrived` and `settled` the messages of its steps.
    """

    since: datetime
    until: datetime
    seconds: float
    waiting: int = 0
    stalled_seconds: float = 0
    arrived: int = 0
    settled: int = 0

    @property
    def values(self) -> Mapping[str, Any]:
        """The figures, without the times."""
        return {k: v for k, v in asdict(self).items() if k not in {"since", "until"}}


def episodes(
    backlog: Sequence[Mapping[str, Any]], latency: Sequence[Mapping[str, Any]], period: Period
) -> Mapping[str, Sequence[Episode]]:
    """Return the episodes of each queue, in order, from the rows of two reports.

    A wait that falls between two steps of the backlog shows in the latencies.
    """
    found: dict[str, list[Episode]] = {}
    stalled: dict[str, float] = {}
    for row in sorted(backlog, key=lambda row: row["at"]):
        name, seconds = row["name"], row["seconds"]
        is_stalled = row["waiting"] and not row["went"]
        stalled[name] = stalled.get(name, 0) + seconds if is_stalled else 0
        if row["oldest_age_seconds"] > LIMIT_SECONDS:
            found.setdefault(name, []).append(
                Episode(
                    row["at"] - timedelta(seconds=seconds), row["at"], row["oldest_age_seconds"],
                    row["waiting"], stalled[name], row["came"], row["went"],
                )
            )  # fmt: skip
    for row in latency:
        if (row["send_to_receive_p99"] or 0) > LIMIT_SECONDS:
            until = min(row["since"] + period.bar, period.until)
            since = max(row["since"], period.since)
            found.setdefault(row["name"], []).append(
                Episode(since, until, row["send_to_receive_p99"])
            )
    return {name: list(_joined(each)) for name, each in found.items()}


def _joined(each: Iterable[Episode]) -> Iterator[Episode]:
    """Join episodes that touch or overlap."""
    ordered = sorted(each, key=lambda episode: episode.since)
    current = ordered[0]
    for episode in ordered[1:]:
        if episode.since > current.until:
            yield current
            current = episode
        else:
            current = Episode(
                current.since,
                max(current.until, episode.until),
                max(current.seconds, episode.seconds),
                max(current.waiting, episode.waiting),
                max(current.stalled_seconds, episode.stalled_seconds),
                current.arrived + episode.arrived,
                current.settled + episode.settled,
            )
    yield current

"""The findings of a report, the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from skipmq.analytics.reports.page.numbers import (
    count,
    duration,
    figures,
    line,
    moment,
    percent,
    rate,
)
from skipmq.analytics.reports.period import Period

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]
Weight: TypeAlias = Literal["bad", "watch", "unknown", "good"]
_WEIGHTS: Sequence[Weight] = ("bad", "watch", "unknown", "good")
# A FIFO group is hot with this multiple of the even share and this share of the time in flight.
_HOT_FACTOR, _HOT_SHARE = 5, 0.2
# A wait is bad from this number of seconds on.
_BAD_WAIT_SECONDS = 300
# A queue with a higher share of redelivered messages is not good.
_REDELIVERY_RATE = 0.05
# A backlog is growing if it grew recently by this number of messages and this share.
_GROWTH, _GROWTH_SHARE = 10, 0.01
# A cause is reported with at least this lift and this share of the dead letters.
_LIFT, _EXPLAINED_SHARE = 2, 0.2
_DEAD_LETTER_RATE = 0.01
# Findings of each weight with a line of their own, and queues listed in the summary line.
_LIMITS: Mapping[Weight, int] = {"bad": 20, "watch": 8, "unknown": 4, "good": 4}
_LISTED_QUEUES = 10
# A longer wait for the first receive (that of backlog.sql), and a backlog above the arrivals of
# this time, is reported. Of the messages received in a step, this share may have waited longer.
_LONG_SECONDS = 60
_LATE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class _Episode:
    """A time in which messages waited for longer than a minute to be received.

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


def _episodes_by_queue(
    backlog: Sequence[Mapping[str, Any]], period: Period
) -> Mapping[str, Sequence[_Episode]]:
    """Return the episodes of each queue, in order, from the rows of the backlog."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(backlog, key=lambda row: row["at"]):
        found.setdefault(row["name"], []).append(row)
    made = {name: list(_episodes(steps, period)) for name, steps in found.items()}
    return {name: each for name, each in made.items() if each}


def _episodes(steps: Sequence[Mapping[str, Any]], period: Period) -> Iterator[_Episode]:
    spans: list[tuple[datetime, datetime]] = []
    for step in steps:
        is_late = step["late"] > step["went"] * _LATE_SHARE
        if is_late or step["oldest_age_seconds"] > _LONG_SECONDS:
            since, until = max(step["late_since"], period.since), step["at"]
            while spans and spans[-1][1] >= since:
                since = min(since, spans.pop()[0])
            spans.append((since, until))
    for since, until in spans:
        yield _episode([s for s in steps if since < s["at"] <= until])


def _episode(steps: Sequence[Mapping[str, Any]]) -> _Episode:
    stalled = longest = 0.0
    for step in steps:
        stalled = stalled + step["seconds"] if step["waiting"] and not step["went"] else 0
        longest = max(longest, stalled)
    return _Episode(
        steps[0]["at"] - timedelta(seconds=steps[0]["seconds"]),
        steps[-1]["at"],
        max(max(step["oldest_age_seconds"], step["longest_wait_seconds"]) for step in steps),
        max(step["waiting"] for step in steps),
        longest,
        sum(step["came"] for step in steps),
        sum(step["went"] for step in steps),
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on a queue; `section` is the ID of its section of the page.

    `messages` is the number of affected messages, `since` and `until` are the time of what was
    found, None for the whole period; `values` has the figures of the text, times in seconds.
    """

    weight: Weight
    queue: str
    text: str
    section: str
    messages: int = 0
    since: datetime | None = None
    until: datetime | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def findings(tables: Tables, period: Period, *, live: bool) -> list[Finding]:
    """Return the findings, sorted by weight and messages; rows must have their queue's `name`.

    Without live messages (`live` false) there are no findings on the present backlog, and no queue
    is good: messages that still wait are unknown.
    """
    backlogs = list(_backlogs(tables)) if live else []
    found = [
        *_timeouts(tables),
        *_dead_letters(tables, period),
        *_expired(tables, period),
        *backlogs,
        *_waits(tables, period, {finding.queue for finding in backlogs}),
        *_groups(tables),
    ]
    found += _redelivered(tables, {finding.queue for finding in found})
    found += _others(tables, {finding.queue for finding in found}, live=live)
    return [
        replace(each, since=each.since or period.since, until=each.until or period.until)
        for each in sorted(found, key=lambda f: (_WEIGHTS.index(f.weight), -f.messages))
    ]


def folded(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings; those of a weight that exceed its limit are summarized in one."""
    return [each for weight in _WEIGHTS for each in _folded(weight, found)]


def _folded(weight: Weight, ordered: Sequence[Finding]) -> Sequence[Finding]:
    found = [finding for finding in ordered if finding.weight == weight]
    limit = _LIMITS[weight]
    if len(found) <= limit + 1:
        return found
    rest = found[limit:]
    names = list(dict.fromkeys(finding.queue for finding in rest))
    listed = f"{', '.join(names[:_LISTED_QUEUES])}{' and others' if names[_LISTED_QUEUES:] else ''}"
    messages = sum(finding.messages for finding in rest)
    state = "affected" if weight in {"bad", "watch"} else "without findings"
    text = f"{count(messages)} messages {state}, see the tables: {listed}"
    more = Finding(
        weight, f"{len(rest)} more", text, rest[0].section, messages, rest[0].since, rest[0].until,
        {"queues": names},
    )  # fmt: skip
    return [*found[:limit], more]


def _others(tables: Tables, found: set[str], *, live: bool) -> Iterator[Finding]:
    """Yield the queues without findings."""
    for row in tables["summary"]:
        if not row["deleted"] or row["name"] in found:
            continue
        text = (
            f"{count(row['deleted'])} messages deleted, half of them within"
            f" {duration(row['send_to_delete_p50'])} of their send and 99 % within"
            f" {duration(row['send_to_delete_p99'])}"
        )
        text += (
            f"; hardly one waited longer than {duration(_LONG_SECONDS)}"
            if live
            else "; a lake has no messages that still wait"
        )
        yield Finding(
            "good" if live else "unknown", row["name"], text, "latency", row["deleted"],
            values=_values(row, "deleted", "send_to_delete_p50", "send_to_delete_p99"),
        )  # fmt: skip


def _values(row: Row, *names: str, **others: Any) -> dict[str, Any]:
    return {**{name: row[name] for name in names}, **others}


def _time(
    tables: Tables, name: str, outcome: str, period: Period
) -> tuple[datetime | None, datetime | None]:
    """Return the time of a queue's settlements with an outcome, by the steps of its traffic."""
    steps = [row["since"] for row in tables["traffic"] if row["name"] == name and row[outcome]]
    if not steps:
        return None, None
    return max(min(steps), period.since), min(max(steps) + period.bar, period.until)


def _waits(tables: Tables, period: Period, backlogged: set[str]) -> Iterator[Finding]:
    """Yield the longest waits, except in a backlog that is another finding."""
    for name, episodes in _episodes_by_queue(tables["backlog"], period).items():
        past = [e for e in episodes if name not in backlogged or e.until < period.until]
        if not past:
            continue
        longest = max(past, key=lambda episode: episode.seconds)
        text = f"from {moment(longest.since)} to {moment(longest.until)}"
        text += f" up to {count(longest.waiting)} waiting," if longest.waiting else ""
        text += f" the longest wait {duration(longest.seconds)}"
        text += f"; {count(longest.arrived)} arrived, {count(longest.left)} left the backlog"
        if longest.stalled_seconds > _LONG_SECONDS:
            text += f", none for {duration(longest.stalled_seconds)}"
        if others := len(past) - 1:
            text += f"; and {others} shorter wait{'s' if others > 1 else ''}"
        yield Finding(
            "bad" if longest.seconds >= _BAD_WAIT_SECONDS else "watch", name, text, "backlog",
            longest.waiting, longest.since, longest.until, longest.values,
        )  # fmt: skip


def _redelivered(tables: Tables, found: set[str]) -> Iterator[Finding]:
    for row in tables["redelivery"]:
        if row["name"] not in found and (row["redelivery_rate"] or 0) > _REDELIVERY_RATE:
            text = f"{percent(row['redelivery_rate'])} redelivered"
            yield Finding(
                "watch", row["name"], text, "redelivery", row["redelivered"],
                values=_values(row, "redelivered", "redelivery_rate"),
            )  # fmt: skip


def _timeouts(tables: Tables) -> Iterator[Finding]:
    receives = {row["name"]: row for row in tables["redelivery"]}
    for row in tables["visibility"]:
        name, messages = row["name"], row["timed_out"]
        weight: Weight = "bad"
        work, timeout = duration(row["processing_p99"]), duration(row["visibility_timeout"])
        suggested = duration(row["suggested_timeout"])
        if row["advice"] == "raise" and row["processing_p99"] is None:
            text = (
                f"{count(messages)} messages timed out at each of their receives, and none"
                f" was deleted at its first: work exceeds the visibility timeout of {timeout}"
                f" (raise it to {suggested}), or consumers die"
            )
        elif row["advice"] == "raise":
            exceeds = row["processing_p99"] > row["visibility_timeout"]
            messages = receives[name]["redelivered"]
            text = (
                f"{percent(receives[name]['redelivery_rate'])} redelivered, p99 processing {work}"
                f" {'exceeds' if exceeds else 'is close to'} its visibility timeout of {timeout}:"
                f" raise it to {suggested}"
            )
        elif row["advice"] == "investigate":
            text = (
                f"{percent(row['timed_out_rate'])} timed out and were redelivered, although p99"
                f" processing is {work} with a visibility timeout of {timeout}: look for consumers"
                " that die or stall"
            )
        elif row["advice"] == "lower":
            weight, messages = "watch", 0
            text = (
                f"p99 processing is {work} with a visibility timeout of {timeout}: with {suggested}"
                " the messages of a consumer that dies are redelivered sooner"
            )
        else:
            continue
        values = _values(
            row, "processing_p99", "visibility_timeout", "suggested_timeout", "timed_out",
            "timed_out_rate", "deleted",
        )  # fmt: skip
        yield Finding(weight, name, text, "redelivery", messages, values=values)


def _dead_letters(tables: Tables, period: Period) -> Iterator[Finding]:
    for row in tables["summary"]:
        dead = row["dead_lettered"]
        if not dead:
            continue
        text = f"{count(dead)} dead letters ({percent(dead / row['settled'])})"
        causes = (c for c in tables["dead_letters"] if c["name"] == row["name"])
        likely = next(
            (c for c in causes if c["lift"] >= _LIFT and c["excess"] >= dead * _EXPLAINED_SHARE),
            None,
        )
        if likely:
            cause = f"{likely['kind']} “{line(likely['cause'])}”"
            text += (
                f"; {percent(likely['rate'])} of {cause} are"
                f" dead-lettered, {figures(likely['lift'])} times as often as in the whole queue"
                if likely["rate"] < 1
                else f"; {cause} is always dead-lettered"
                f" ({count(likely['dead_lettered'])} of {count(likely['settled'])})"
            )
        is_bad = likely or dead / row["settled"] >= _DEAD_LETTER_RATE
        values = _values(row, "dead_lettered", "settled")
        if likely:
            values |= _values(likely, "kind", "cause", "rate", "lift", "example")
        yield Finding(
            "bad" if is_bad else "watch", row["name"], text, "dead-letters", dead,
            *_time(tables, row["name"], "dead_lettered", period), values,
        )  # fmt: skip


def _expired(tables: Tables, period: Period) -> Iterator[Finding]:
    for row in tables["summary"]:
        if row["expired"]:
            text = (
                f"{count(row['expired'])} messages ({percent(row['expired'] / row['settled'])})"
                " expired: they were not deleted within their retention period"
            )
            yield Finding(
                "bad", row["name"], text, "traffic", row["expired"],
                *_time(tables, row["name"], "expired", period), _values(row, "expired", "settled"),
            )  # fmt: skip


def _backlogs(tables: Tables) -> Iterator[Finding]:
    for row in tables["forecast"]:
        waiting, age = row["waiting"], row["oldest_age_seconds"]
        is_small = waiting <= max(row["in_per_second"] * _LONG_SECONDS, 1)
        if is_small and age <= _LONG_SECONDS:
            continue
        values = _values(
            row, "waiting", "oldest_age_seconds", "in_per_second", "out_per_second",
            "drains_in_seconds",
        )  # fmt: skip
        weight: Weight = "watch"
        text = f"{count(waiting)} waiting, the oldest for {duration(age)}"
        growth = row["in_per_second"] - row["out_per_second"]
        if row["drains_in_seconds"] is not None:
            text += f"; empty in {duration(row['drains_in_seconds'])} at the present rates"
        elif growth * row["recent_seconds"] >= max(_GROWTH, waiting * _GROWTH_SHARE):
            weight = "bad"
            text += f"; it grows by {rate(growth)}, with {rate(row['out_per_second'])} received"
        else:
            text += "; the backlog is steady" if row["in_per_second"] else "; no activity"
        yield Finding(weight, row["name"], text, "backlog", waiting, values=values)


def _groups(tables: Tables) -> Iterator[Finding]:
    for row in tables["groups"]:
        share = f"has {percent(row['in_flight_share'])} of the time in flight"
        among = f"of {count(row['groups'])}"
        if row["noisy"] and not row["fifo"]:
            text = f"tenant “{row['group_id']}” {share} (one {among})"
        elif (
            row["fifo"]
            and row["in_flight_share"] >= _HOT_SHARE
            and row["in_flight_share"] >= row["even_share"] * _HOT_FACTOR
        ):
            text = (
                f"hot group “{row['group_id']}” {share} (one {among}): its messages wait for one"
                f" another (p99 {duration(row['wait_p99'])})"
            )
        else:
            continue
        values = _values(row, "group_id", "in_flight_share", "even_share", "messages", "wait_p99")
        yield Finding("watch", row["name"], text, "groups", row["messages"], values=values)

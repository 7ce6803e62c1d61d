"""The findings of a report, the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from skipmq.analytics.page.numbers import count, duration, figures, percent, rate

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]
Weight: TypeAlias = Literal["bad", "watch", "good"]
_WEIGHTS: Sequence[Weight] = ("bad", "watch", "good")
# A FIFO group is hot with this multiple of the even share and this share of the time in flight.
_HOT_FACTOR, _HOT_SHARE = 5, 0.2
# A backlog is reported if it exceeds the arrivals of this time or is older.
_BACKLOG_SECONDS = 60
# A backlog is growing if it grew recently by this number of messages and this share.
_GROWTH, _GROWTH_SHARE = 10, 0.01
# A cause is reported with at least this lift and this share of the dead letters.
_LIFT, _EXPLAINED_SHARE = 2, 0.2
_DEAD_LETTER_RATE = 0.01
# Findings of each weight with a line of their own, and queues listed in the summary line.
_LIMITS: Mapping[Weight, int] = {"bad": 20, "watch": 8, "good": 4}
_LISTED_QUEUES = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on a queue; `section` is the ID of its section of the page.

    `messages` is the number of affected messages.
    """

    weight: Weight
    queue: str
    text: str
    section: str
    messages: int = 0


def findings(tables: Tables, *, live: bool) -> list[Finding]:
    """Return the findings, sorted by weight and messages; rows must have their queue's `name`.

    Without live messages (`live` false) there are no findings on backlogs.
    """
    found = [
        *_timeouts(tables),
        *_dead_letters(tables),
        *_expired(tables),
        *(_backlogs(tables) if live else ()),
        *_groups(tables),
    ]
    healthy = [
        Finding("good", row["name"], _deletes(row), "latency", row["deleted"])
        for row in tables["summary"]
        if row["deleted"] and row["name"] not in {f.queue for f in found}
    ]
    return sorted([*found, *healthy], key=lambda f: (_WEIGHTS.index(f.weight), -f.messages))


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
    state = "without findings" if weight == "good" else "affected"
    text = f"{count(messages)} messages {state}, see the tables: {listed}"
    return [*found[:limit], Finding(weight, f"{len(rest)} more", text, rest[0].section, messages)]


def _deletes(row: Row) -> str:
    return (
        f"{count(row['deleted'])} messages deleted, half of them within"
        f" {duration(row['send_to_delete_p50'])} of their send and 99 % within"
        f" {duration(row['send_to_delete_p99'])}"
    )


def _timeouts(tables: Tables) -> Iterator[Finding]:
    redelivered = {row["name"]: row["redelivery_rate"] for row in tables["redelivery"]}
    messages = {row["name"]: row["redelivered"] for row in tables["redelivery"]}
    for row in tables["visibility"]:
        name = row["name"]
        rate_text = f"{percent(redelivered.get(name))} redelivered"
        work, timeout = duration(row["processing_p99"]), duration(row["visibility_timeout"])
        suggested = duration(row["suggested_timeout"])
        if row["advice"] == "raise":
            exceeds = row["processing_p99"] > row["visibility_timeout"]
            text = (
                f"{rate_text}, p99 processing {work} {'exceeds' if exceeds else 'is close to'}"
                f" its visibility timeout of {timeout}: raise it to {suggested}"
            )
            yield Finding("bad", name, text, "redelivery", messages.get(name, 0))
        elif row["advice"] == "investigate":
            text = (
                f"{percent(row['timed_out_rate'])} timed out and were redelivered, although p99"
                f" processing is {work} with a visibility timeout of {timeout}: look for consumers"
                " that die or stall"
            )
            yield Finding("bad", name, text, "redelivery", row["timed_out"])
        elif row["advice"] == "lower":
            text = (
                f"p99 processing is {work} with a visibility timeout of {timeout}: with {suggested}"
                " the messages of a consumer that dies are redelivered sooner"
            )
            yield Finding("watch", name, text, "redelivery")


def _dead_letters(tables: Tables) -> Iterator[Finding]:
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
            text += (
                f"; {percent(likely['rate'])} of {likely['kind']} “{likely['cause']}” are"
                f" dead-lettered, {figures(likely['lift'])} times as often as in the whole queue"
                if likely["rate"] < 1
                else f"; {likely['kind']} “{likely['cause']}” is always dead-lettered"
                f" ({count(likely['dead_lettered'])} of {count(likely['settled'])})"
            )
        is_bad = likely or dead / row["settled"] >= _DEAD_LETTER_RATE
        yield Finding("bad" if is_bad else "watch", row["name"], text, "dead-letters", dead)


def _expired(tables: Tables) -> Iterator[Finding]:
    for row in tables["summary"]:
        if row["expired"]:
            text = (
                f"{count(row['expired'])} messages ({percent(row['expired'] / row['settled'])})"
                " expired: they were not deleted within their retention period"
            )
            yield Finding("bad", row["name"], text, "traffic", row["expired"])


def _backlogs(tables: Tables) -> Iterator[Finding]:
    for row in tables["forecast"]:
        waiting, age = row["waiting"], row["oldest_age_seconds"]
        is_small = waiting <= max(row["in_per_second"] * _BACKLOG_SECONDS, 1)
        if is_small and age <= _BACKLOG_SECONDS:
            continue
        text = f"{count(waiting)} waiting, the oldest for {duration(age)}"
        growth = row["in_per_second"] - row["out_per_second"]
        recent_growth = growth * row["recent_seconds"]
        if row["drains_in_seconds"] is not None:
            text += f"; empty in {duration(row['drains_in_seconds'])} at the present rates"
            yield Finding("watch", row["name"], text, "backlog", waiting)
        elif recent_growth >= max(_GROWTH, waiting * _GROWTH_SHARE):
            text += f"; it grows by {rate(growth)}, with {rate(row['out_per_second'])} settled"
            yield Finding("bad", row["name"], text, "backlog", waiting)
        else:
            state = "the backlog is steady" if row["in_per_second"] else "no activity"
            yield Finding("watch", row["name"], f"{text}; {state}", "backlog", waiting)


def _groups(tables: Tables) -> Iterator[Finding]:
    for row in tables["groups"]:
        share = f"has {percent(row['in_flight_share'])} of the time in flight"
        among = f"of {count(row['groups'])}"
        if row["noisy"] and not row["fifo"]:
            text = f"tenant “{row['group_id']}” {share} (one {among})"
            yield Finding("watch", row["name"], text, "groups", row["messages"])
        elif (
            row["fifo"]
            and row["in_flight_share"] >= _HOT_SHARE
            and row["in_flight_share"] >= row["even_share"] * _HOT_FACTOR
        ):
            text = (
                f"hot group “{row['group_id']}” {share} (one {among}): its messages wait for one"
                f" another (p99 {duration(row['wait_p99'])})"
            )
            yield Finding("watch", row["name"], text, "groups", row["messages"])

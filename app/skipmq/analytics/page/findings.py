"""What a report says in words, the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from skipmq.analytics.page.numbers import count, duration, figures, percent, rate

Row: TypeAlias = Mapping[str, Any]
Tables: TypeAlias = Mapping[str, Sequence[Row]]
Weight: TypeAlias = Literal["bad", "watch", "good"]
_WEIGHTS: Sequence[Weight] = ("bad", "watch", "good")
# A FIFO group is hot with so many times an even share, and a fifth of all that is in flight.
_HOT_TIMES, _HOT_SHARE = 5, 0.2
# A backlog is worth a word when it is more than so many seconds of arrivals, or as old.
_BACKLOG_SECONDS = 60
# It grows when in the last minutes so many more came than went, and so much of what waits.
_GROWTH, _GROWTH_SHARE = 10, 0.01
# A cause is named when it is at least twice as likely and explains this share of the dead letters.
_LIFT, _EXPLAINS = 2, 0.2
_MANY = 0.01
# Findings of each weight that have a line of their own, and queues that the last line names.
_MOST: Mapping[Weight, int] = {"bad": 20, "watch": 8, "good": 4}
_NAMED = 10
_SAID: Mapping[Weight, str] = {"bad": "about", "watch": "about", "good": "all is well with"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence on a queue; `section` is the part of the page that shows it.

    `messages` is how many messages it is about: what it costs.
    """

    weight: Weight
    queue: str
    text: str
    section: str
    messages: int = 0


def findings(tables: Tables, *, live: bool) -> list[Finding]:
    """Return what there is to say, the worst and most costly first; rows have their queue's `name`.

    Without live messages (`live` false) nothing can be said of what waits.
    """
    found = [
        *_timeouts(tables),
        *_dead_letters(tables),
        *_expired(tables),
        *(_backlogs(tables) if live else ()),
        *_groups(tables),
    ]
    quiet = [
        Finding("good", row["name"], _well(row), "latency", row["deleted"])
        for row in tables["summary"]
        if row["deleted"] and row["name"] not in {f.queue for f in found}
    ]
    return sorted([*found, *quiet], key=lambda f: (_WEIGHTS.index(f.weight), -f.messages))


def folded(found: Sequence[Finding]) -> list[Finding]:
    """Return findings of which, of each weight, one stands for those beyond the first."""
    return [each for weight in _WEIGHTS for each in _folded(weight, found)]


def _folded(weight: Weight, ordered: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings of a weight, of which the last stands for those that are too many."""
    found = [finding for finding in ordered if finding.weight == weight]
    most = _MOST[weight]
    if len(found) <= most + 1:
        return found
    rest = found[most:]
    names = list(dict.fromkeys(finding.queue for finding in rest))
    text = f"{', '.join(names[:_NAMED])}{' and others' if names[_NAMED:] else ''}"
    about = sum(finding.messages for finding in rest)
    said = f"{_SAID[weight]} {count(about)} messages, the tables have all: {text}"
    return [*found[:most], Finding(weight, f"{len(rest)} more", said, rest[0].section, about)]


def _well(row: Row) -> str:
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
        again = f"{percent(redelivered.get(name))} redelivered"
        work, timeout = duration(row["processing_p99"]), duration(row["visibility_timeout"])
        better = duration(row["suggested_timeout"])
        if row["advice"] == "raise":
            over = row["processing_p99"] > row["visibility_timeout"]
            text = (
                f"{again}, p99 processing {work} {'exceeds' if over else 'comes near'}"
                f" its visibility timeout of {timeout}: raise it to {better}"
            )
            yield Finding("bad", name, text, "redelivery", messages.get(name, 0))
        elif row["advice"] == "investigate":
            text = (
                f"{percent(row['timed_out_rate'])} timed out and came again, though work takes"
                f" {work} (p99) of a visibility timeout of {timeout}: look for consumers that die"
                " or stall"
            )
            yield Finding("bad", name, text, "redelivery", row["timed_out"])
        elif row["advice"] == "lower":
            text = (
                f"work takes {work} (p99) of a visibility timeout of {timeout}: with {better} the"
                " messages of a consumer that dies come back sooner"
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
            (c for c in causes if c["lift"] >= _LIFT and c["excess"] >= dead * _EXPLAINS), None
        )
        if likely:
            text += (
                f"; {percent(likely['rate'])} of {likely['kind']} “{likely['cause']}” are"
                f" dead-lettered, {figures(likely['lift'])} times as often as in the whole queue"
                if likely["rate"] < 1
                else f"; {likely['kind']} “{likely['cause']}” is always dead-lettered"
                f" ({count(likely['dead_lettered'])} of {count(likely['settled'])})"
            )
        weight: Weight = "bad" if likely or dead / row["settled"] >= _MANY else "watch"
        yield Finding(weight, row["name"], text, "dead-letters", dead)


def _expired(tables: Tables) -> Iterator[Finding]:
    for row in tables["summary"]:
        if row["expired"]:
            text = (
                f"{count(row['expired'])} messages ({percent(row['expired'] / row['settled'])})"
                " expired: their retention period was over before they were deleted"
            )
            yield Finding("bad", row["name"], text, "traffic", row["expired"])


def _backlogs(tables: Tables) -> Iterator[Finding]:
    for row in tables["forecast"]:
        waiting, age = row["waiting"], row["oldest_age_seconds"]
        few = waiting <= max(row["in_per_second"] * _BACKLOG_SECONDS, 1)
        if few and age <= _BACKLOG_SECONDS:
            continue
        text = f"{count(waiting)} waiting, the oldest for {duration(age)}"
        grows = row["in_per_second"] - row["out_per_second"]
        more = grows * row["recent_seconds"]
        if row["drains_in_seconds"] is not None:
            text += f"; empty in {duration(row['drains_in_seconds'])} as things go"
            yield Finding("watch", row["name"], text, "backlog", waiting)
        elif more >= max(_GROWTH, waiting * _GROWTH_SHARE):
            text += f"; it grows by {rate(grows)}, with {rate(row['out_per_second'])} settled"
            yield Finding("bad", row["name"], text, "backlog", waiting)
        else:
            moves = "as much comes as goes" if row["in_per_second"] else "nothing comes or goes"
            yield Finding("watch", row["name"], f"{text}; {moves}", "backlog", waiting)


def _groups(tables: Tables) -> Iterator[Finding]:
    for row in tables["groups"]:
        held = f"holds {percent(row['in_flight_share'])} of what is in flight"
        among = f"of {count(row['groups'])}"
        if row["noisy"] and not row["fifo"]:
            text = f"tenant “{row['group_id']}” {held} (one {among})"
            yield Finding("watch", row["name"], text, "groups", row["messages"])
        elif (
            row["fifo"]
            and row["in_flight_share"] >= _HOT_SHARE
            and row["in_flight_share"] >= row["even_share"] * _HOT_TIMES
        ):
            text = (
                f"hot group “{row['group_id']}” {held} (one {among}): its messages wait for one"
                f" another (p99 {duration(row['wait_p99'])})"
            )
            yield Finding("watch", row["name"], text, "groups", row["messages"])

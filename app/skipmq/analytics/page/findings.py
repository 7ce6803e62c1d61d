"""What a report says in words, the worst first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from skipmq.analytics.page.numbers import count, duration, percent, rate

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


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence on a queue; `section` is the part of the page that shows it."""

    weight: Weight
    queue: str
    text: str
    section: str


def findings(tables: Tables, *, live: bool) -> list[Finding]:
    """Return what there is to say, the worst first; each row has its queue's `name`.

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
        Finding("good", row["name"], _well(row), "latency")
        for row in tables["summary"]
        if row["deleted"] and row["name"] not in {f.queue for f in found}
    ]
    return sorted([*found, *quiet], key=lambda finding: _WEIGHTS.index(finding.weight))


def _well(row: Row) -> str:
    return (
        f"{count(row['deleted'])} messages deleted, half of them within"
        f" {duration(row['send_to_delete_p50'])} of their send and 99 % within"
        f" {duration(row['send_to_delete_p99'])}"
    )


def _timeouts(tables: Tables) -> Iterator[Finding]:
    redelivered = {row["name"]: row["redelivery_rate"] for row in tables["redelivery"]}
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
            yield Finding("bad", name, text, "redelivery")
        elif row["advice"] == "investigate":
            text = (
                f"{percent(row['timed_out_rate'])} timed out and came again, though work takes"
                f" {work} (p99) of a visibility timeout of {timeout}: look for consumers that die"
                " or stall"
            )
            yield Finding("bad", name, text, "redelivery")
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
                f"; {likely['kind']} “{likely['cause']}” dies {percent(likely['rate'])} of the"
                f" time, {likely['lift']:.2g} times as often as the rest of the queue"
                if likely["rate"] < 1
                else f"; {likely['kind']} “{likely['cause']}” always dies"
                f" ({count(likely['dead_lettered'])} of {count(likely['settled'])})"
            )
        weight: Weight = "bad" if likely or dead / row["settled"] >= _MANY else "watch"
        yield Finding(weight, row["name"], text, "dead-letters")


def _expired(tables: Tables) -> Iterator[Finding]:
    for row in tables["summary"]:
        if row["expired"]:
            text = (
                f"{count(row['expired'])} messages ({percent(row['expired'] / row['settled'])})"
                " expired: their retention period was over before they were deleted"
            )
            yield Finding("bad", row["name"], text, "traffic")


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
            yield Finding("watch", row["name"], text, "backlog")
        elif more >= max(_GROWTH, waiting * _GROWTH_SHARE):
            text += f"; it grows by {rate(grows)}, with {rate(row['out_per_second'])} settled"
            yield Finding("bad", row["name"], text, "backlog")
        else:
            moves = "as much comes as goes" if row["in_per_second"] else "nothing comes or goes"
            yield Finding("watch", row["name"], f"{text}; {moves}", "backlog")


def _groups(tables: Tables) -> Iterator[Finding]:
    for row in tables["groups"]:
        held = f"holds {percent(row['in_flight_share'])} of what is in flight"
        among = f"of {count(row['groups'])}"
        if row["noisy"] and not row["fifo"]:
            text = f"tenant “{row['group_id']}” {held} (one {among})"
            yield Finding("watch", row["name"], text, "groups")
        elif (
            row["fifo"]
            and row["in_flight_share"] >= _HOT_SHARE
            and row["in_flight_share"] >= row["even_share"] * _HOT_TIMES
        ):
            text = (
                f"group “{row['group_id']}” {held} (one {among}): its messages wait for one another"
                f" (p99 {duration(row['wait_p99'])})"
            )
            yield Finding("watch", row["name"], text, "groups")

"""The order of FIFO messages within their group."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from cluster.history import Op
from cluster.record import Record, is_fifo


class Interval(NamedTuple):
    """Something happened to a message at some time between two."""

    number: int
    begin: float
    end: float
    value: str


def disordered(record: Record) -> Iterator[str]:
    """Within a group messages come in the order of their sending, none while an earlier is out."""
    groups: dict[tuple[str, str], list[Op]] = defaultdict(list)
    for (queue, _), deliveries in record.deliveries.items():
        if is_fifo(queue):
            for op in deliveries:
                groups[queue, op.group].append(op)
    yield from _sends(record)
    for (queue, group), deliveries in groups.items():
        where = f"{queue} {group}"
        yield from _first_deliveries(where, deliveries)
        yield from together(where, deliveries)
        yield from _ahead(where, record, deliveries)


def _sends(record: Record) -> Iterator[str]:
    accepted: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for (queue, value), sends in record.sends.items():
        answers = [op for op in sends if op.type == "ok"]
        if is_fifo(queue) and answers:
            # Who publishes to a topic is not told the number in a queue.
            known = [*answers, *record.by_value.get((queue, value), [])]
            number = min((op.sequence_number for op in known if op.sequence_number), default=0)
            if not number:
                continue
            # The first was accepted after some had begun and before any had been answered.
            begin, end = sends[0].t_invoke, min(op.t_ok for op in answers)
            accepted[queue, sends[0].group].append(Interval(number, begin, end, value))
    for (queue, group), intervals in accepted.items():
        yield from over_before(f"{queue} {group}", "was sent", intervals)


def _first_deliveries(where: str, deliveries: Iterable[Op]) -> Iterator[str]:
    numbers: dict[int, list[Op]] = defaultdict(list)
    for op in deliveries:
        numbers[op.sequence_number].append(op)
    # Whichever was the first, it was not before any had begun, nor after one was over.
    intervals = [
        Interval(number, min(op.t_invoke for op in ops), min(op.t_ok for op in ops), ops[0].value)
        for number, ops in numbers.items()
    ]
    yield from over_before(where, "came first", intervals)


def over_before(where: str, what: str, intervals: Iterable[Interval]) -> Iterator[str]:
    """Give each that began after one with a greater number was over."""
    earliest: Interval | None = None
    for interval in sorted(intervals, reverse=True):
        if earliest is not None and interval.begin > earliest.end:
            yield (
                f"{where}: {interval.value}, number {interval.number}, {what} after"
                f" {earliest.value}, number {earliest.number}"
            )
        if earliest is None or interval.end < earliest.end:
            earliest = interval


def together(where: str, deliveries: Iterable[Op]) -> Iterator[str]:
    receives: dict[tuple[str, float], list[Op]] = defaultdict(list)
    for op in deliveries:
        receives[op.process, op.t_invoke].append(op)
    for ops in receives.values():
        for one, other in pairwise(sorted(ops, key=lambda op: op.place)):
            if one.sequence_number >= other.sequence_number:
                yield f"{where}: {one.value} came before {other.value} in one receive"


def _ahead(where: str, record: Record, deliveries: Iterable[Op]) -> Iterator[str]:
    """Give each that came while one with a smaller number was in flight."""
    given = sorted(deliveries, key=lambda op: op.t_invoke)
    times = [op.t_invoke for op in given]
    for message in {(op.queue, op.message_id) for op in given}:
        for hold in record.holds(message):
            for op in given[bisect_right(times, hold.begin) :]:
                if op.t_invoke >= hold.end:
                    break
                if op.sequence_number > hold.delivery.sequence_number and op.t_ok < hold.end:
                    yield f"{where}: {op.value} came while {hold.delivery.value} was in flight"

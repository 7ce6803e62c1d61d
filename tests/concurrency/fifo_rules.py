"""What a history must not show of a FIFO queue besides: order, groups, deduplication."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from cluster.history import Op
from cluster.order import Interval, over_before, together
from cluster.record import is_fifo
from concurrency.past import NEVER, Past

# By the queue and the group: the messages, by their ids.
_Groups = dict[tuple[str, str], dict[str, int]]


def misnumbered(past: Past) -> Iterator[str]:
    """Within a group numbers grow from one send to the next."""
    accepted: dict[tuple[str, str], list[Interval]] = defaultdict(list)
    for (queue, value), sends in past.sends.items():
        if not is_fifo(queue):
            continue
        begin = min((op.t_invoke for op in sends if op.type != "fail"), default=NEVER)
        for message_id, answers in _answers(sends).items():
            numbers = {op.sequence_number for op in answers}
            numbers |= {op.sequence_number for op in past.deliveries.get((queue, message_id), [])}
            # A transaction is not told the number of what it sends.
            numbers.discard(0)
            if len(numbers) > 1:
                yield f"{queue}: {value} ({message_id}) has the numbers {sorted(numbers)}"
            elif numbers:
                interval = Interval(*numbers, begin, min(op.t_ok for op in answers), value)
                accepted[queue, sends[0].group].append(interval)
    for (queue, group), intervals in accepted.items():
        yield from over_before(f"{queue} {group}", "was sent", intervals)


def disordered(past: Past) -> Iterator[str]:
    """Nothing comes before what is ahead in its group has gone, but in one receive with it."""
    for (queue, group), numbers in _groups(past).items():
        where = f"{queue} {group}"
        deliveries = [op for message in numbers for op in past.deliveries.get((queue, message), [])]
        yield from together(where, deliveries)
        there = {message: _surely_there(past, queue, message) for message in numbers}
        receives: dict[tuple[str, float], set[str]] = defaultdict(set)
        for op in deliveries:
            receives[op.process, op.t_invoke].add(op.message_id)
        for op in deliveries:
            for message, number in numbers.items():
                if (
                    number < op.sequence_number
                    and op.t_ok < there[message]
                    and message not in receives[op.process, op.t_invoke]
                ):
                    yield (
                        f"{where}: {op.value}, number {op.sequence_number}, came while {message},"
                        f" number {number}, was ahead of it"
                    )


def overtaken(past: Past) -> Iterator[str]:
    """Nothing comes while a message ahead of it in its group is in flight."""
    for (queue, group), numbers in _groups(past).items():
        deliveries = [op for message in numbers for op in past.deliveries.get((queue, message), [])]
        for message, number in numbers.items():
            for hold in past.holds((queue, message)):
                for op in deliveries:
                    if (
                        op.sequence_number > number
                        and hold.begin < op.t_invoke
                        and op.t_ok < hold.end
                    ):
                        yield (
                            f"{queue} {group}: {op.value} came to {op.process} while"
                            f" {hold.delivery.process} had {hold.delivery.value}"
                        )


def repeated(past: Past) -> Iterator[str]:
    """What is sent again under its deduplication id is one message, until a purge."""
    for (queue, value), sends in past.sends.items():
        if not past.deduplicates(queue):
            continue
        answers = _answers(sends)
        unknown = [op for op in sends if op.type == "info"]
        stored = sorted(
            (min(op.t_ok for op in ops), min(op.t_invoke for op in [*ops, *unknown]), message)
            for message, ops in answers.items()
        )
        for (_, begin, one), (end, _, other) in pairwise(stored):
            if not any(op.t_ok > begin and op.t_invoke < end for op in past.purges(queue)):
                yield f"{queue}: {value} became {one} and {other}"
        for purge in past.purges(queue) if (queue, value) not in past.published else ():
            for message, ops in answers.items():
                if (
                    purge.type == "ok"
                    and min(op.t_ok for op in ops) < purge.t_invoke
                    and any(op.t_invoke > purge.t_ok for op in ops)
                ):
                    yield f"{queue}: {value} was sent after a purge and is {message} of before"


def _answers(sends: list[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = defaultdict(list)
    for op in sends:
        if op.type == "ok":
            found[op.message_id].append(op)
    return found


def _groups(past: Past) -> _Groups:
    groups: _Groups = defaultdict(dict)
    for (queue, message_id), deliveries in past.deliveries.items():
        if is_fifo(queue):
            groups[queue, deliveries[0].group][message_id] = deliveries[0].sequence_number
    for (queue, _), sends in past.sends.items():
        for op in sends:
            if op.type == "ok" and op.sequence_number:
                groups[queue, op.group].setdefault(op.message_id, op.sequence_number)
    return groups


def _surely_there(past: Past, queue: str, message_id: str) -> float:
    """Return until when a message was in a queue, at least: it came then, or nothing took it."""
    deliveries = past.deliveries.get((queue, message_id), [])
    born = past.born(deliveries[0]) if deliveries else 0.0
    takers = [op.t_invoke for op in past.touches(message_id) if op.op == "delete"]
    takers += [op.t_invoke for op in past.purges(queue) if op.t_ok > born]
    takers += [op.t_invoke for op in past.moves(queue)]
    if (policy := past.policies.get(queue)) is not None:
        claims = [op.t_invoke for op in deliveries]
        claims += [op.t_invoke for op in past.unclear(queue, born, NEVER)]
        takers += sorted(claims)[policy.receive_count - 1 :][:1]
    return max([min(takers, default=NEVER), *(op.t_invoke for op in deliveries)])

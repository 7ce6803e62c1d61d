"""The sixteen rules. Each is a function of a history that gives what broke it, a line each.

Whatever is called wrong is wrong however the calls went in between: a rule only goes by what was
certain, so that a slow machine breaks none.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from cluster import effects, order, outages
from cluster.client import PATIENCE
from cluster.history import Op
from cluster.queues import QUEUES
from cluster.record import Message, Record, is_fifo

Checker = Callable[[Record], Iterator[str]]
# The answer to a sending is remembered for five minutes: no rule of deduplication goes beyond.
_REMEMBERED = 290
_REQUESTS = ("send", "receive", "delete", "hide")


def lost(record: Record) -> Iterator[str]:
    """No acknowledged send is lost."""
    empty = {queue for queue, left in left_over(record).items() if not left}
    for (queue, value), sends in record.sends.items():
        if not any(op.type == "ok" for op in sends):
            continue
        deliveries = record.by_value.get((queue, value), [])
        if not deliveries:
            yield f"{queue}: {value} was acknowledged and never came"
        elif queue in empty and not any(
            op.type != "fail"
            for delivery in deliveries
            for op in record.deletes[queue, delivery.message_id]
        ):
            yield f"{queue}: {value} came, nobody deleted it, and it is gone"


def invented(record: Record) -> Iterator[str]:
    """Nothing is received that was not sent, or more than once sent."""
    for (queue, value), deliveries in record.by_value.items():
        sends = record.sends.get((queue, value), [])
        if not sends:
            yield f"{queue}: {value} came and was never sent"
        elif all(op.type == "fail" for op in sends):
            yield f"{queue}: {value} was refused and came"
        elif is_fifo(queue) and {op.group for op in deliveries} - {op.group for op in sends}:
            yield f"{queue}: {value} came in another group than it was sent to"
        elif not is_fifo(queue) and len(ids := _ids(sends, deliveries)) > len(sends):
            yield f"{queue}: {value} was sent once and became {', '.join(sorted(ids))}"


def undeleted(record: Record) -> Iterator[str]:
    """What was deleted does not come again."""
    for message, deliveries in record.deliveries.items():
        gone = record.surely_deleted(message)
        for op in deliveries:
            if op.t_invoke > gone:
                late = op.t_ok - gone
                yield f"{_name(message, op)} came {late:.1f} s after its delete was acknowledged"


def shared(record: Record) -> Iterator[str]:
    """A message in flight is given to nobody else."""
    for message, deliveries in record.deliveries.items():
        if len(deliveries) < 2:
            continue
        for hold in record.holds(message):
            for op in deliveries:
                if hold.begin < op.t_invoke and op.t_ok < hold.end:
                    early = hold.end - op.t_ok
                    yield (
                        f"{_name(message, op)} came to {op.process} at least {early:.1f} s before"
                        f" it was free: {hold.delivery.process} had it"
                    )


def repeated(record: Record) -> Iterator[str]:
    """What is sent again under its deduplication id within five minutes is one message."""
    for (queue, value), sends in record.sends.items():
        deliveries = record.by_value.get((queue, value), [])
        if not is_fifo(queue) or sends[-1].t_ok - sends[0].t_invoke > _REMEMBERED:
            continue
        ids = _ids(sends, deliveries)
        numbers = {op.sequence_number for op in [*sends, *deliveries] if op.sequence_number}
        if len(ids) > 1 or len(numbers) > 1:
            yield f"{queue}: {value} became {', '.join(sorted(ids))} with numbers {sorted(numbers)}"


def exceeded(record: Record) -> Iterator[str]:
    """No more messages of a queue are in flight at a time than its limit."""
    for queue, limit in record.limits.items():
        moments: list[tuple[float, int, str]] = []
        for message, deliveries in record.deliveries.items():
            for hold in record.holds(message) if message[0] == queue else ():
                if hold.begin < hold.end:
                    moments += [(hold.begin, 1, deliveries[0].value), (hold.end, -1, "")]
        flying = 0
        for at, change, value in sorted(moments):
            flying += change
            if change > 0 and flying > limit:
                yield f"{queue}: {value} was one of {flying} in flight at {at:.1f}, of {limit}"


def divided(record: Record) -> Iterator[str]:
    """What is published comes from all queues of its topic, once from each, or from none."""
    for queue in QUEUES:
        values = [value for name, value in record.sends if name == queue.name and queue.copies]
        for value in values:
            came = {
                name: {op.message_id for op in record.by_value.get((name, value), ())}
                for name in (queue.name, *queue.copies)
            }
            numbers = {name: len(ids) for name, ids in came.items()}
            if any(numbers.values()) and set(numbers.values()) != {1}:
                yield f"{value} came as so many messages: {numbers}"


def miscounted(record: Record) -> Iterator[str]:
    """The receive count is the number of receives, seen or of unknown outcome."""
    unclear: dict[str, list[float]] = defaultdict(list)
    for op in record.of("receive"):
        if op.place == 0 and (op.type == "info" or record.troubled(op)):
            unclear[op.queue].append(op.t_invoke)
    for message, deliveries in record.deliveries.items():
        sends = record.sends.get((message[0], deliveries[0].value), [])
        # A poll that began before the send may still have taken it, none longer than a request is.
        since = sends[0].t_invoke - 60 if sends else 0.0
        times = unclear[message[0]]
        for place, op in enumerate(deliveries):
            hidden = bisect_left(times, op.t_ok) - bisect_left(times, since)
            most = hidden + sum(other.t_invoke < op.t_ok for other in deliveries)
            if op.receive_count > most:
                yield f"{_name(message, op)} has the count {op.receive_count}, at most {most}"
            if _as_one_before(record, deliveries[:place], op) and not record.doubled(message):
                yield f"{_name(message, op)} has the count {op.receive_count}, as one before had"


def left(record: Record) -> Iterator[str]:
    """At the end every queue is empty and its attributes say so."""
    for queue, counts in left_over(record).items():
        if counts is None:
            yield f"{queue}: nobody looked at its attributes at the end"
        elif counts:
            yield f"{queue}: {', '.join(f'{name} {n}' for name, n in counts.items())}"


def unanswered(record: Record) -> Iterator[str]:
    """Every request is answered before its client gives up."""
    for op in record.ops:
        waited = op.t_ok - op.t_invoke
        if op.op in _REQUESTS and op.type == "info" and op.place == 0 and waited >= PATIENCE:
            yield f"{op.queue}: {op.process} had no answer to a {op.op} in {waited:.0f} s"


def differing(record: Record) -> Iterator[str]:
    """At the end all servers hold the same rows."""
    contents = {op.process: json.loads(op.value) for op in record.of("content")}
    if len(contents) < 2:
        yield f"the rows of {len(contents)} servers were compared"
    for table in sorted({table for content in contents.values() for table in content}):
        found = {server: content.get(table) for server, content in contents.items()}
        if len(set(map(str, found.values()))) > 1:
            yield f"{table}: {', '.join(f'{server} has {rows}' for server, rows in found.items())}"


CHECKERS: Mapping[str, Checker] = {
    "no acknowledged send lost": lost,
    "nothing invented": invented,
    "no deleted message back": undeleted,
    "visibility exclusive": shared,
    "order within a group": order.disordered,
    "deduplication": repeated,
    "limits in flight": exceeded,
    "published to all or none": divided,
    "receive counts": miscounted,
    "empty at the end": left,
    "every request answered": unanswered,
    "progress resumes": outages.stalled,
    "same rows on all servers": differing,
    "workers' effects exactly once": effects.undone,
    "workers' effects elsewhere": effects.unseen,
    "workers' order within a group": effects.disordered,
}


def left_over(record: Record) -> dict[str, dict[str, int] | None]:
    """Return, by queue, the attributes that were not 0 at the end; None where nobody looked."""
    found: dict[str, dict[str, int] | None] = {queue: None for queue, _ in record.sends}
    for op in record.of("attributes"):
        if op.type == "ok":
            counts = json.loads(op.value)
            found[op.queue] = {name: int(n) for name, n in counts.items() if int(n)}
    return found


def second_copies(record: Record) -> int:
    """Return how many messages were stored again because a node had to send a second time."""
    return sum(
        record.doubled(message)
        and any(_as_one_before(record, ops[:place], op) for place, op in enumerate(ops))
        for message, ops in record.deliveries.items()
    )


def _as_one_before(record: Record, before: list[Op], op: Op) -> bool:
    """Tell whether a count is one that was given before, and that no failover has undone."""
    known = [other for other in before if not record.loose(other)]
    return any(
        other.receive_count >= op.receive_count
        if other.t_ok < op.t_invoke
        else other.receive_count == op.receive_count and not record.loose(op)
        for other in known
    )


def _ids(sends: list[Op], deliveries: list[Op]) -> set[str]:
    return {op.message_id for op in [*sends, *deliveries] if op.message_id}


def _name(message: Message, op: Op) -> str:
    return f"{message[0]}: {op.value} ({message[1]})"

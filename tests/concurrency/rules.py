"""What a history must not show of any queue; each rule gives what broke it, a line each.

Whatever is called wrong is wrong however the calls went in between: a rule goes only by what was
certain.
"""

from collections.abc import Callable, Iterator, Mapping

from cluster.history import Op
from cluster.record import is_fifo
from concurrency import fifo_rules, limit_rules
from concurrency.past import NEVER, Past

Rule = Callable[[Past], Iterator[str]]


def lost(past: Past) -> Iterator[str]:
    """What was acknowledged is delivered and deleted, or purged, or there at the end."""
    for (queue, value), sends in past.sends.items():
        begun = min((op.t_invoke for op in sends if op.type != "fail"), default=NEVER)
        if not any(op.type == "ok" for op in sends) or past.may_be_gone((queue, value), begun):
            continue
        deliveries = past.by_value.get((queue, value), [])
        if not deliveries:
            yield f"{queue}: {value} was acknowledged and never came"
        elif not any(_may_have_deleted(past, op) for op in _deletes(past, deliveries)):
            yield f"{queue}: {value} came, nobody deleted it, and it is gone"


def _deletes(past: Past, deliveries: list[Op]) -> Iterator[Op]:
    for message_id in {op.message_id for op in deliveries}:
        yield from (op for op in past.touches(message_id) if op.op == "delete")


def _may_have_deleted(past: Past, delete: Op) -> bool:
    """Tell whether its receipt may have been that of the last receive."""
    return not any(
        op.receive_count > delete.receive_count and op.t_ok < delete.t_invoke
        for op in past.by_id.get(delete.message_id, [])
    )


def invented(past: Past) -> Iterator[str]:
    """Nothing comes that was not sent, or that a transaction rolled back, or before its commit."""
    for (queue, value), deliveries in past.by_value.items():
        sends = past.sends.get((queue, value), [])
        tried = [op for op in sends if op.type != "fail"]
        if not sends:
            yield f"{queue}: {value} came and was never sent"
        elif not tried:
            yield f"{queue}: {value} was refused or rolled back, and came"
        else:
            groups = {op.group for op in tried}
            for op in deliveries:
                if op.t_ok < past.born(op):
                    yield f"{queue}: {value} came before it was sent, or committed"
                elif is_fifo(queue) and op.group not in groups:
                    yield f"{queue}: {value} came in the group {op.group}, sent to {groups}"
    for message_id, deliveries in past.by_id.items():
        if len(values := {op.value for op in deliveries}) > 1:
            yield f"{message_id} came with the bodies {sorted(values)}"


def undeleted(past: Past) -> Iterator[str]:
    """What was deleted does not come again."""
    for message_id, deliveries in past.by_id.items():
        gone = surely_deleted(past, message_id)
        rivals = deliveries
        home = past.home(deliveries[0].queue)
        if not past.deduplicates(home):
            # A copy of it that a task moved back would have to be made of what was deleted.
            rivals = past.by_value[home, deliveries[0].value]
        for op in rivals:
            if op.t_invoke > gone:
                yield f"{named(op)} came {op.t_ok - gone:.1f} s after its delete was acknowledged"


def surely_deleted(past: Past, message_id: str) -> float:
    """Return when a message was gone for good; infinity where it may not be.

    A standard queue answers a delete by an old receipt with success and does nothing.
    """
    found = NEVER
    for delete in past.touches(message_id):
        if delete.op != "delete" or delete.type != "ok":
            continue
        message = (delete.queue, message_id)
        if is_fifo(delete.queue) or any(
            hold.delivery.receipt == delete.receipt
            and hold.begin <= delete.t_invoke
            and delete.t_ok < hold.end
            for hold in past.holds(message, despite_deletes=True)
        ):
            found = min(found, delete.t_ok)
    return found


def purged(past: Past) -> Iterator[str]:
    """What an acknowledged purge took does not come again."""
    for (queue, message_id), deliveries in past.deliveries.items():
        sends = past.sends.get((queue, deliveries[0].value), [])
        known = [op.t_ok for op in sends if op.type == "ok" and op.message_id == message_id]
        known += [op.t_ok for op in deliveries]
        for purge in past.purges(queue):
            if purge.type != "ok" or min(known) > purge.t_invoke:
                continue
            for op in deliveries:
                if op.t_invoke > purge.t_ok:
                    late = op.t_ok - purge.t_ok
                    yield f"{named(op)} came {late:.1f} s after a purge was acknowledged"


def shared(past: Past) -> Iterator[str]:
    """A message in flight is given to nobody else."""
    for message, deliveries in past.deliveries.items():
        if len(deliveries) < 2:
            continue
        for hold in past.holds(message):
            for op in deliveries:
                if hold.begin < op.t_invoke and op.t_ok < hold.end:
                    early = hold.end - op.t_ok
                    yield (
                        f"{named(op)} came to {op.process} at least {early:.1f} s before it was"
                        f" free: {hold.delivery.process} had it"
                    )


def refused(past: Past) -> Iterator[str]:
    """The receipt of a message in flight is taken."""
    for op in past.refusals:
        if any(
            hold.delivery.receipt == op.receipt and hold.begin <= op.t_invoke and op.t_ok < hold.end
            for hold in past.holds((op.queue, op.message_id))
        ):
            yield f"{named(op)}, in flight to {op.process}: its {op.op} was refused: {op.error}"


def doubled(past: Past) -> Iterator[str]:
    """A message is another one only when it was moved back, or sent again after a purge."""
    for (queue, value), deliveries in past.by_value.items():
        ids = {op.message_id: past.by_id[op.message_id] for op in deliveries}
        if len(ids) < 2:
            continue
        policy = past.policies.get(queue)
        seen = max(min(op.t_ok for op in ops) for ops in ids.values())
        causes = list(past.moves(policy.value)) if policy else []
        if past.deduplicates(queue):
            causes += past.purges(queue)
        if not any(op.t_invoke < seen for op in causes):
            yield f"{queue}: {value} became {', '.join(sorted(ids))}"
        if past.deduplicates(queue) and past.purges(queue):
            continue  # The one may be in the dead-letter queue when the other is sent.
        for message_id, ops in ids.items():
            first, last = min(op.t_ok for op in ops), max(op.t_invoke for op in ops)
            for op in deliveries:
                if op.message_id != message_id and first < op.t_invoke and op.t_ok < last:
                    yield f"{named(op)} came while there was {message_id}"


def miscounted(past: Past) -> Iterator[str]:
    """The receive count is the number of receives, seen or of unknown outcome."""
    for deliveries in past.by_id.values():
        queues = {op.queue for op in deliveries} | {past.home(deliveries[0].queue)}
        for op in deliveries:
            others = [other for other in deliveries if other is not op]
            least = 1 + sum(other.t_ok < op.t_invoke for other in others)
            most = 1 + sum(other.t_invoke < op.t_ok for other in others)
            most += sum(len(past.unclear(queue, past.born(op), op.t_ok)) for queue in queues)
            if not least <= op.receive_count <= most:
                yield f"{named(op)} has the count {op.receive_count}, not {least} to {most}"
            elif any(
                other.receive_count == op.receive_count
                or (other.t_ok < op.t_invoke and other.receive_count > op.receive_count)
                for other in others
            ):
                yield f"{named(op)} has the count {op.receive_count}, as one before had"


def dead_lettered(past: Past) -> Iterator[str]:
    """A message is in the dead-letter queue when it was received too often, and not before."""
    for queue, policy in past.policies.items():
        most = policy.receive_count
        for deliveries in past.by_id.values():
            here = [op for op in deliveries if op.queue == queue]
            there = [op for op in deliveries if op.queue == policy.value]
            for op in here:
                if op.receive_count > most:
                    yield f"{named(op)} came for the {op.receive_count}th time, of {most}"
                if any(other.t_ok < op.t_invoke for other in there):
                    yield f"{named(op)} came after it was in {policy.value}"
            for op in there:
                if op.receive_count <= most:
                    yield f"{named(op)} came after {op.receive_count - 1} receives, of {most}"


def left(past: Past) -> Iterator[str]:
    """At the end everything can be received."""
    for op in past.of("left"):
        if op.receive_count:
            yield f"{op.queue}: {op.receive_count} messages cannot be received"


def named(op: Op) -> str:
    """Return how a message is called."""
    return f"{op.queue}: {op.value} ({op.message_id})"


RULES: Mapping[str, Rule] = {
    "no acknowledged message lost": lost,
    "nothing invented": invented,
    "no deleted message back": undeleted,
    "no purged message back": purged,
    "visibility exclusive": shared,
    "receipts in time are taken": refused,
    "one message stays one": doubled,
    "receive counts": miscounted,
    "dead letters in time": dead_lettered,
    "everything can be received": left,
    "numbers in the order of sends": fifo_rules.misnumbered,
    "deliveries in the order of numbers": fifo_rules.disordered,
    "a group in flight waits": fifo_rules.overtaken,
    "deduplication": fifo_rules.repeated,
    "limits in flight": limit_rules.exceeded,
    "rates": limit_rules.hurried,
    "priorities": limit_rules.overlooked,
    "published to all or none": limit_rules.divided,
}


def broken(ops: list[Op]) -> dict[str, list[str]]:
    """Return what each rule says of a history, where it says anything."""
    past = Past(ops)
    found = {name: list(rule(past)) for name, rule in RULES.items()}
    return {name: findings for name, findings in found.items() if findings}

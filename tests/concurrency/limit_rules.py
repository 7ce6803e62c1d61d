"""What a history must not show of queues with limits or priorities, and of topics."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, pairwise

from cluster.history import Op
from concurrency.past import AFTERWARDS, NEVER, Past
from concurrency.queues import priority_of

# Seconds between the moment that a claim goes by and the one that is written down for it.
_NOTED_WITHIN = 0.02
_LIMITS_OF_GROUPS = ("MaximumInFlightPerGroup", "MaximumReceiveRatePerGroup")


def exceeded(past: Past) -> Iterator[str]:
    """No message begins to be in flight, by a claim or otherwise, beyond a limit."""
    for queue, attributes in past.attributes.items():
        most = int(attributes.get("MaximumInFlight", 10**9))
        most_of_group = int(attributes.get("MaximumInFlightPerGroup", 10**9))
        until: dict[tuple[int, str], float] = {}
        group_of: dict[tuple[int, str], str] = {}
        for op in past.flights(queue):
            message = op.sequence_number, op.message_id
            flew = until.get(message, 0) > op.t_ok and not op.receive_count
            group_of[message] = op.group
            until[message] = op.t_ok + op.visibility if op.visibility else 0
            if flew or not op.visibility:
                continue
            flying = [
                each
                for each, end in until.items()
                if end > op.t_ok and each[0] == op.sequence_number
            ]
            if len(flying) > most:
                yield f"{queue}: {len(flying)} in flight, of {most}, at {op.t_ok:.3f}"
            number = Counter(group_of[each] for each in flying)[op.group]
            if op.group and number > most_of_group:
                yield f"{queue} {op.group}: {number} in flight, of {most_of_group}"


def hurried(past: Past) -> Iterator[str]:
    """In no time T are more than burst + rate x T messages claimed, by the database's clock.

    Each generation is judged alone: a claim that meets a purge may count for the old one.
    """
    for queue, attributes in past.attributes.items():
        by_group: dict[tuple[int, str], list[Op]] = defaultdict(list)
        for op in past.flights(queue):
            if op.receive_count and "MaximumReceiveRate" in attributes:
                by_group[op.sequence_number, ""].append(op)
            if op.receive_count and op.group and "MaximumReceiveRatePerGroup" in attributes:
                by_group[op.sequence_number, op.group].append(op)
        for (_, group), claims in by_group.items():
            name = "MaximumReceiveRatePerGroup" if group else "MaximumReceiveRate"
            burst, rate = float(attributes["ReceiveBurst"]), float(attributes[name])
            yield from _too_many(f"{queue} {group}".rstrip(), claims, rate, burst)


def _too_many(where: str, claims: list[Op], rate: float, burst: float) -> Iterator[str]:
    """Go by how far the clock went on: that it is set back makes nobody wait for less."""
    # How far it was by each claim.
    far = [*accumulate(max(other.t_ok - one.t_ok, 0) for one, other in pairwise(claims))]
    far = [0.0, *far]
    for first, op in enumerate(claims):
        # What a claim went by was a moment after it began, and before it was written down.
        since = far[first] - (op.t_ok - op.t_invoke) - _NOTED_WITHIN
        for last in range(first + int(burst), len(claims)):
            number, allowed = last - first + 1, burst + rate * (far[last] - since)
            if number > allowed:
                yield f"{where}: {number} came in a time for {allowed:.1f}"
                return


def overlooked(past: Past) -> Iterator[str]:
    """Where the highest priority comes first, none comes while one of a higher is there."""
    if next(past.of("clock"), None):
        return
    for queue, attributes in past.attributes.items():
        if attributes.get("PriorityMode") != "strict" or any(
            name in attributes for name in _LIMITS_OF_GROUPS
        ):
            continue
        waits = list(_waits(past, queue))
        taken = [
            (op.t_invoke, op.t_ok + (AFTERWARDS if op.type == "info" else 0))
            for op in past.of("receive")
            if op.queue == queue and op.type != "ok"
        ]
        for op in past.of("receive"):
            if op.queue != queue or not op.message_id:
                continue
            if any(begin < op.t_ok and op.t_invoke < end for begin, end in taken):
                # Others may have had locks.
                continue
            priority = priority_of(op.value) or 0
            for value, higher, begin, end in waits:
                if higher > priority and begin < op.t_invoke and op.t_ok < end:
                    yield f"{queue}: {op.value} came while {value} waited"


def _waits(past: Past, queue: str) -> Iterator[tuple[str, int, float, float]]:
    """Give when a message surely waited for its first receive."""
    first: dict[str, float] = {}
    for op in past.flights(queue):
        first.setdefault(op.message_id, op.t_invoke - _NOTED_WITHIN)
    for (name, value), sends in past.sends.items():
        deliveries = past.by_value.get((name, value), [])
        if name != queue or not deliveries or len({op.message_id for op in deliveries}) > 1:
            continue
        end = first.get(deliveries[0].message_id, 0.0)
        purges = [op.t_invoke for op in past.purges(queue)]
        begin = min((op.t_ok for op in sends if op.type == "ok"), default=NEVER)
        if purges and min(purges) < end:
            continue
        yield value, priority_of(value) or 0, begin, end


def divided(past: Past) -> Iterator[str]:
    """What is published to a topic comes from all queues that it is for, or from none."""
    for (topic, value), publishes in past.publishes.items():
        if any(op.type == "ok" for op in publishes):
            # Then each queue has it, or "no acknowledged message lost" is broken.
            continue
        queues = [queue for queue, _ in past.targets(topic, value)]
        came = [queue for queue in queues if past.by_value.get((queue, value))]
        for queue in queues if came else []:
            begun = min(op.t_invoke for op in publishes)
            if queue not in came and not past.may_be_gone((queue, value), begun):
                yield f"{topic}: {value} came from {', '.join(came)} and not from {queue}"

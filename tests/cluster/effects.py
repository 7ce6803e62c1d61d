"""What workers of the Python client did: the rules of their effects."""

from collections import Counter
from collections.abc import Iterator

from cluster.history import Op
from cluster.record import Record, is_fifo

Job = tuple[str, str, int]


def undone(record: Record) -> Iterator[str]:
    """What was sent is worked exactly once, where the work and its delete are one transaction."""
    offered, worked = jobs(record, "offered"), Counter(jobs(record, "worked"))
    for job in sorted({*offered} - {*worked}):
        yield f"{_name(job)} was sent and never worked"
    for job in sorted({*worked} - {*offered}):
        yield f"{_name(job)} was worked and never sent"
    for job, times in worked.items():
        if times > 1:
            yield f"{_name(job)} was worked {times} times"


def unseen(record: Record) -> Iterator[str]:
    """What is worked here is worked elsewhere at least once."""
    seen = {*jobs(record, "elsewhere")}
    for job in jobs(record, "worked"):
        if job not in seen:
            yield f"{_name(job)} was worked here and not elsewhere"


def disordered(record: Record) -> Iterator[str]:
    """The messages of a FIFO group are worked in the order in which they were sent."""
    last: dict[tuple[str, str], int] = {}
    for queue, group, number in jobs(record, "worked"):
        if is_fifo(queue):
            if number < (before := last.get((queue, group), 0)):
                yield f"{_name((queue, group, number))} was worked after {before}"
            last[queue, group] = number


def jobs(record: Record, kind: str) -> list[Job]:
    """Return what was offered, worked or seen elsewhere, in its order."""
    found = sorted(record.of(kind), key=_place)
    return [(op.queue, op.group, int(op.value)) for op in found]


def repeats(record: Record) -> int:
    """Return how many messages were worked elsewhere more than once."""
    return sum(times > 1 for times in Counter(jobs(record, "elsewhere")).values())


def _place(op: Op) -> int:
    return op.place


def _name(job: Job) -> str:
    return f"{job[0]}: {job[2]} of {job[1]}"

"""How long nobody's send was acknowledged, around each fault."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from cluster.record import Record, Window

# Nobody may learn at once that the last standby is gone.
_NOTICE = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The longest time without an acknowledged send that a fault caused; infinite if for good."""

    window: Window
    seconds: float

    @property
    def met(self) -> bool:
        return self.seconds <= self.window.bound.most


def measure(record: Record) -> list[Outage]:
    """Return the outage of each fault."""
    times = [op.t_ok for op in record.acknowledged]
    found = []
    for window in record.windows:
        begin = window.healed if window.bound.stops else window.begin
        end = min(window.healthy, record.end)
        first = max(bisect_left(times, begin) - 1, 0)
        last = bisect_right(times, end) + 1
        near = times[first:last]
        if window.bound.stops:
            near = [begin, *(at for at in near if at > begin)]
        gaps = [b - a for a, b in pairwise(near)]
        # Nothing came after the cluster was healthy, and there were those who tried.
        for_good = not near or near[-1] < end
        found.append(Outage(window, float("inf") if for_good else max(gaps, default=0)))
    return found


def stalled(record: Record) -> Iterator[str]:
    """Sends are acknowledged again soon after each fault, and none where none may be."""
    for outage in measure(record):
        window, most = outage.window, outage.window.bound.most * record.slack
        if window.healthy == float("inf"):
            yield f"{window.fault} of {window.target}: the cluster was not healthy again"
        elif outage.seconds > most:
            told = f"{outage.seconds:.1f} s without an acknowledged send, at most {most:g}"
            yield f"{window.fault} of {window.target}: {told}"
        if window.bound.stops:
            for op in record.acknowledged:
                if window.struck + _NOTICE < op.t_invoke and op.t_ok < window.healed:
                    after = op.t_invoke - window.struck
                    yield f"{window.fault}: {op.queue} {op.value} acknowledged, {after:.1f} s after"

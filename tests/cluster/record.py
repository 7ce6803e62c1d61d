"""A history in the order in which questions are asked of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

from cluster.bounds import BOUNDS, UNDONE, Bound
from cluster.history import Op

Message = tuple[str, str]
# What one process calls a second another may call a little less.
NEARLY = 0.9
# A send that a node has tried again took longer than others, in seconds, where it had to wait.
_TRIED_AGAIN = 0.5


@dataclass(frozen=True, slots=True)
class Window:
    """A fault: when it struck, when it was healed, when the cluster was healthy again."""

    fault: str
    target: str
    begin: float
    struck: float
    healed: float
    healthy: float

    @property
    def bound(self) -> Bound:
        return BOUNDS[self.fault]

    def troubles(self, op: Op) -> bool:
        """Return whether a call met the fault, or what it left."""
        return self.begin - 1 <= op.t_ok and op.t_invoke <= self.healthy + 1


@dataclass(frozen=True, slots=True)
class Hold:
    """A time in which a message was for certain in flight to one consumer."""

    delivery: Op
    begin: float
    end: float


class Record:
    """What a history says of messages.

    With slack, a fault may take so many times as long as its bound says: on a machine that others
    use too.
    """

    def __init__(self, ops: Iterable[Op], slack: float = 1.0) -> None:
        self.slack = slack
        self.ops: Sequence[Op] = sorted(ops, key=lambda op: op.t_invoke)
        self.sends: dict[Message, list[Op]] = defaultdict(list)
        self.deliveries: dict[Message, list[Op]] = defaultdict(list)
        self.deletes: dict[Message, list[Op]] = defaultdict(list)
        self._settled: dict[str, list[Op]] = defaultdict(list)
        for op in self.ops:
            if op.op == "send":
                self.sends[op.queue, op.value].append(op)
            elif op.op == "receive" and op.message_id:
                self.deliveries[op.queue, op.message_id].append(op)
            elif op.op in ("delete", "hide"):
                self._settled[op.receipt].append(op)
                if op.op == "delete":
                    self.deletes[op.queue, op.message_id].append(op)

    def of(self, kind: str) -> Iterator[Op]:
        """Give the ops of a kind."""
        return (op for op in self.ops if op.op == kind)

    @cached_property
    def limits(self) -> dict[str, int]:
        """How many messages of a queue may be in flight, where that is limited."""
        return {op.queue: op.receive_count for op in self.of("queue") if op.receive_count}

    @cached_property
    def end(self) -> float:
        """When the last producer stopped, or the last thing happened."""
        stops = [op.t_invoke for op in self.of("phase") if op.value == "drain"]
        return min(stops) if stops else max((op.t_ok for op in self.ops), default=0)

    @cached_property
    def by_value(self) -> dict[Message, list[Op]]:
        """The deliveries of each body."""
        found: dict[Message, list[Op]] = defaultdict(list)
        for deliveries in self.deliveries.values():
            for op in deliveries:
                found[op.queue, op.value].append(op)
        return found

    @cached_property
    def acknowledged(self) -> list[Op]:
        """Sends that were answered, in the order of their answers."""
        return sorted((op for op in self.of("send") if op.type == "ok"), key=lambda op: op.t_ok)

    @cached_property
    def windows(self) -> list[Window]:
        """The faults, in order; one that was not healed lasts to the end."""
        ends = {(op.op, op.place): op.t_ok for kind in ("heal", "healthy") for op in self.of(kind)}
        never = float("inf")
        return [
            Window(
                op.value,
                op.process,
                op.t_invoke,
                op.t_ok,
                ends.get(("heal", op.place), never),
                ends.get(("healthy", op.place), never),
            )
            for op in self.of("strike")
        ]

    @cached_property
    def _loose(self) -> list[tuple[float, float]]:
        ends = {"strike": lambda w: w.struck + UNDONE, "healthy": lambda w: w.healthy}
        known = [w for w in self.windows if w.bound.loose in ends]
        return [
            *((w.begin - UNDONE, ends[w.bound.loose](w)) for w in known),
            *(
                (begin - UNDONE, end)
                for begin, end in self.changes
                if not any(begin <= w.begin <= end for w in known)
            ),
        ]

    @cached_property
    def changes(self) -> list[tuple[float, float]]:
        """Times in which there came to be another primary, whatever the reason."""
        looks = list(self.of("timeline"))
        return [
            (one.t_invoke, other.t_ok)
            for one, other in pairwise(looks)
            if one.sequence_number != other.sequence_number
        ]

    def loose(self, op: Op) -> bool:
        """Tell whether a failover may have undone what was answered."""
        return any(begin <= op.t_ok and op.t_invoke <= end for begin, end in self._loose)

    def troubled(self, op: Op) -> bool:
        """Tell whether a node may have tried it more than once."""
        return any(w.troubles(op) for w in self.windows)

    def _tried_again(self, op: Op) -> bool:
        """Return whether a node may have sent it again, by the time that this takes."""
        slow = op.t_ok - op.t_invoke > _TRIED_AGAIN
        return any(w.troubles(op) and (slow or w.bound.at_once) for w in self.windows)

    def doubled(self, message: Message) -> bool:
        """Tell whether a message may have been stored a second time.

        A node whose connection breaks in a send to a standard queue sends again under the same id,
        and looks for the first; it does not find what was received and deleted meanwhile.
        """
        values = {op.value for op in self.deliveries[message]}
        return not is_fifo(message[0]) and any(
            self._tried_again(op)
            for value in values
            for op in self.sends.get((message[0], value), ())
        )

    def holds(self, message: Message) -> Iterator[Hold]:
        """Give the times in which a message was for certain in flight, by whom it was received.

        What was received twice under one count was received again after a failover had undone the
        first time: either one's receipt then serves for both.
        """
        deliveries = self.deliveries[message]
        counts = [op.receive_count for op in deliveries]
        for op in deliveries:
            if counts.count(op.receive_count) == 1 and not self.loose(op):
                yield from self._holds(op)

    def _holds(self, delivery: Op) -> Iterator[Hold]:
        sends = self.sends.get((delivery.queue, delivery.value), ())
        # It was not received before it was sent, however long the receiver had waited for it.
        begun = max([delivery.t_invoke, *(op.t_invoke for op in sends[:1])])
        hold = Hold(delivery, delivery.t_ok, begun + delivery.visibility * NEARLY)
        for op in self._settled[delivery.receipt]:
            yield Hold(delivery, hold.begin, min(hold.end, op.t_invoke))
            if op.op == "delete" or op.type != "ok" or self.loose(op):
                return
            hold = Hold(delivery, op.t_ok, op.t_invoke + op.visibility * NEARLY)
        yield hold

    def surely_deleted(self, message: Message) -> float:
        """Return when a message was gone for good; infinity where it may not be.

        A standard queue answers a delete by an old receipt with success and does nothing.
        """
        deletes = [op for op in self.deletes[message] if op.type == "ok"]
        if not is_fifo(message[0]):
            held = list(self.holds(message))
            deletes = [
                op
                for op in deletes
                if not self.loose(op)
                and any(h.delivery.receipt == op.receipt and self._in_time(h, op) for h in held)
            ]
        return min((op.t_ok for op in deletes), default=float("inf"))

    def _in_time(self, hold: Hold, delete: Op) -> bool:
        settled = self._settled[hold.delivery.receipt]
        before = list(takewhile(lambda op: op is not delete, settled))
        given = hold.delivery.visibility * NEARLY + hold.delivery.t_invoke
        return not before and delete.t_ok < given


def is_fifo(queue: str) -> bool:
    return queue.endswith(".fifo")

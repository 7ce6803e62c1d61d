"""A history, in the order in which the rules ask for it.

Its ops are those of `cluster.history`: a send, a receive, a delete and a hide (a change of
visibility) of each message. Of a queue: `queue` (its dead-letter queue is the value, what it
allows the receive count), `purge`, `move` (a message move task begins), `leave` (a receiver hung
up; ok when nothing can have been counted for it), `left` (as many messages were left at the
end), `set` (its attributes are the value, in JSON) and `flight` (of `flights`). Of a topic:
`topic` (its queues, with the kind of messages that each gets, are the value, in JSON) and
`publish`, of each message. And `kill`, of the node that is the value, from its death until
another has its place, and `clock`, when that of the database is moved.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cluster.history import Op
from cluster.record import NEARLY, is_fifo
from concurrency.queues import kind_of

# How long after a client had lost interest something may still have been done for it, in seconds.
AFTERWARDS = 5.0
NEVER = float("inf")
# What a broker says of a receipt that is worth nothing any more.
_REFUSALS = ("ReceiptHandleIsInvalid", "InvalidParameterValue", "AWS.SimpleQueueService.Message")

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Hold:
    """A time in which a message was hidden for certain, by a receive or a change of visibility."""

    delivery: Op
    begin: float
    end: float


class Past:
    """What a history says."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops: Sequence[Op] = sorted(ops, key=lambda op: op.t_invoke)
        self.policies = {op.queue: op for op in self.of("queue") if op.value}
        self._homes = {op.value: name for name, op in self.policies.items()}
        self.attributes: dict[str, dict[str, str]] = {
            op.queue: json.loads(op.value) for op in self.of("set")
        }
        self._topics: dict[str, dict[str, str]] = {
            op.queue: json.loads(op.value) for op in self.of("topic")
        }
        # By the queue that it was sent to and the body; and by the topic that it was published to.
        self.sends: dict[Key, list[Op]] = defaultdict(list)
        self.publishes: dict[Key, list[Op]] = defaultdict(list)
        self.by_value: dict[Key, list[Op]] = defaultdict(list)
        # By the queue that it came from and the id; and by the id alone.
        self.deliveries: dict[Key, list[Op]] = defaultdict(list)
        self.by_id: dict[str, list[Op]] = defaultdict(list)
        self._touches: dict[str, list[Op]] = defaultdict(list)
        self._unclear: dict[str, list[Op]] = defaultdict(list)
        self.refusals: list[Op] = []
        for op in self.ops:
            if op.op == "send":
                self.sends[op.queue, op.value].append(op)
            elif op.op == "publish":
                self.publishes[op.queue, op.value].append(op)
            elif op.op == "receive" and op.message_id:
                self.by_value[self.home(op.queue), op.value].append(op)
                self.deliveries[op.queue, op.message_id].append(op)
                self.by_id[op.message_id].append(op)
            elif op.op in ("delete", "hide") and op.type != "fail":
                self._touches[op.message_id].append(op)
            elif op.op in ("delete", "hide") and op.error.startswith(_REFUSALS):
                self.refusals.append(op)
            elif op.op in ("leave", "receive") and self._may_count(op):
                self._unclear[op.queue].append(op)
        # What topics deliver, which remember it longer than a purge of a queue.
        self.published: set[Key] = set()
        for (topic, value), publishes in self.publishes.items():
            for queue, message_id in self.targets(topic, value):
                self.published.add((queue, value))
                self.sends[queue, value] += [
                    replace(op, op="send", queue=queue, message_id=message_id) for op in publishes
                ]

    def targets(self, topic: str, value: str) -> Iterator[tuple[str, str]]:
        """Give each queue that a published message is for, and the message's id there, if known.

        Where messages are moved, the first that came may be another one.
        """
        for queue, kind in self._topics[topic].items():
            if not kind or kind == kind_of(value):
                came = [] if queue in self.policies else self.by_value.get((queue, value), [])
                yield queue, came[0].message_id if came else ""

    def of(self, kind: str) -> Iterator[Op]:
        """Give the ops of a kind."""
        return (op for op in self.ops if op.op == kind)

    def deduplicates(self, queue: str) -> bool:
        """Tell whether a body is stored once in a queue, however often it is sent."""
        return is_fifo(queue) or "DeduplicationSeconds" in self.attributes.get(queue, {})

    def flights(self, queue: str) -> list[Op]:
        """Return what the database wrote down of a queue, in its order."""
        return self._flights.get(queue, [])

    @cached_property
    def _flights(self) -> dict[str, list[Op]]:
        found: dict[str, list[Op]] = defaultdict(list)
        for op in sorted(self.of("flight"), key=lambda op: op.place):
            found[op.queue].append(op)
        return found

    def home(self, queue: str) -> str:
        """Return the queue that messages were sent to which are now in this one."""
        return self._homes.get(queue, queue)

    def purges(self, queue: str) -> list[Op]:
        """Return the purges of a queue that may have been done."""
        return self._purges.get(queue, [])

    @cached_property
    def _purges(self) -> dict[str, list[Op]]:
        return self._tried("purge")

    def moves(self, queue: str) -> list[Op]:
        """Return the tasks that may have moved messages back from a dead-letter queue."""
        return self._moves.get(queue, [])

    @cached_property
    def _clocks(self) -> list[Op]:
        return [*self.of("clock")]

    @cached_property
    def _moves(self) -> dict[str, list[Op]]:
        return self._tried("move")

    def _tried(self, kind: str) -> dict[str, list[Op]]:
        found: dict[str, list[Op]] = defaultdict(list)
        for op in self.of(kind):
            if op.type != "fail":
                found[op.queue].append(op)
        return found

    def _may_count(self, op: Op) -> bool:
        """Tell whether a receive may have counted of which nobody saw a message."""
        if op.type == "ok" and op.op == "leave":
            # A node that is killed gives nothing back.
            return any(
                kill.value == op.value
                and op.t_invoke < kill.t_ok
                and kill.t_invoke < op.t_ok + AFTERWARDS
                for kill in self.of("kill")
            )
        return op.type == "info"

    def touches(self, message_id: str) -> list[Op]:
        """Return the deletes and changes of visibility of a message that may have been done."""
        return self._touches.get(message_id, [])

    def unclear(self, queue: str, begin: float, end: float) -> list[Op]:
        """Return the receives that may have counted, of messages born then, before a time."""
        return [
            op
            for op in self._unclear.get(queue, [])
            if op.t_invoke < end and op.t_ok + AFTERWARDS > begin
        ]

    def may_be_gone(self, message: Key, begun: float) -> bool:
        """Tell whether a message may have been purged, or be there at the end."""
        queue = message[0]
        if any(op.receive_count for op in self.of("left") if self.home(op.queue) == queue):
            return True
        if any(op.t_ok > begun for op in self.purges(queue)):
            return True
        policy = self.policies.get(queue)
        if policy is None:
            return False
        claims = [op.t_invoke for op in self.by_value.get(message, []) if op.queue == queue]
        claims += [op.t_invoke for op in self.unclear(queue, begun, NEVER)]
        came = [op for op in self.by_value.get(message, []) if op.queue == policy.value]
        return (bool(came) or len(claims) >= policy.receive_count) and any(
            op.t_ok > begun for op in self.purges(policy.value)
        )

    def born(self, delivery: Op) -> float:
        """Return the time before which a message that came was not there.

        A transaction may receive what it has sent before others can see it.
        """
        sends = self.sends.get((self.home(delivery.queue), delivery.value), ())
        times = [op.t_invoke for op in sends if op.type != "fail"]
        own = any(op.process == delivery.process for op in sends)
        return 0.0 if own else min(times, default=0.0)

    def holds(self, message: Key, *, despite_deletes: bool = False) -> Iterator[Hold]:
        """Give the times in which a message in a queue was hidden for certain.

        A change of visibility counts by any receipt on a standard queue, and only by that of the
        receive which holds the message on a FIFO queue.
        """
        queue = message[0]
        touches = [op for op in self.touches(message[1]) if op.queue == queue]
        if despite_deletes:
            touches = [op for op in touches if op.op == "hide"]
        for delivery in self.deliveries.get(message, []):
            begun = max(delivery.t_invoke, self.born(delivery))
            delay = self._delay(delivery)
            setter, end = delivery, begun + (delivery.visibility + delay) * NEARLY
            yield self._hold(delivery, setter, end, touches)
            for op in touches:
                if op.op != "hide" or op.type != "ok" or op.receipt != delivery.receipt:
                    continue
                others = [other for other in touches if other is not op]
                held = self._hold(delivery, setter, end, others)
                if not (is_fifo(queue) or op.t_ok < held.end):
                    # Somebody else may have it, and give it back.
                    break
                setter, end = op, op.t_invoke + (op.visibility + delay) * NEARLY
                yield self._hold(delivery, setter, end, others)

    def _delay(self, delivery: Op) -> float:
        """Return the least delay of the queue's RetryBackoff after a delivery."""
        text = self.attributes.get(delivery.queue, {}).get("RetryBackoff")
        if not text:
            return 0.0
        backoff = json.loads(text)
        grown = backoff["base"] * backoff["factor"] ** (delivery.receive_count - 1)
        return float(min(grown, backoff["maximum"]) * (1 - backoff["jitter"]))

    def _hold(self, delivery: Op, setter: Op, end: float, touches: Iterable[Op]) -> Hold:
        """Return a hold, up to what may have ended it: what was not over when it began."""
        strict = is_fifo(delivery.queue)
        ends = [
            op.t_invoke
            for op in touches
            if op.t_ok > setter.t_invoke
            and (op.receipt == delivery.receipt or (op.op == "hide" and not strict))
        ]
        others = [*self.purges(delivery.queue), *self._clocks]
        ends += [op.t_invoke for op in others if op.t_ok > setter.t_invoke]
        return Hold(delivery, setter.t_ok, min([end, *ends]))

"""Those who send, receive, purge and move over HTTP, from one node to the other."""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.client import Client, Refused, Unknown
from cluster.history import History, Op, Type
from concurrency.queues import Queue, Topic, arn, attributes_of
from support.http import ACCOUNT, NodeProcess

# What refusals say of which nothing came.
NOT_DONE, NOT_CONNECTED = "nothing has been done", "not connected"
ATTRIBUTES = ["ApproximateReceiveCount", "MessageGroupId", "SequenceNumber"]
# What a node shows of a number, less this, is what SQL shows.
SHOWN = 10**19

Received = tuple[Op, str]


@dataclass(slots=True)
class World:
    """What all clients of a history share."""

    seed: int
    database: str
    nodes: list[NodeProcess]
    history: History
    queues: list[Queue]
    topics: list[Topic]
    stop: float
    # Bodies for queues and topics that deduplicate, to be sent again.
    sent: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=30))

    def open(self) -> bool:
        return time.monotonic() < self.stop

    def all_queues(self) -> list[str]:
        return [name for queue in self.queues for name in (queue.name, queue.dead) if name]


def url(queue: str) -> str:
    return f"/{ACCOUNT}/{queue}"


class User:
    """Somebody with a name, chances of its own and a connection to each node."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.chance = random.Random(f"{world.seed} {name}")  # noqa: S311 - no secret.
        self._clients = [Client(node.url) for node in world.nodes]
        self._made = 0

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def ask(self, action: str, **parameters: Any) -> tuple[Type, str, dict[str, Any]]:
        """Ask a node that can be reached; return the outcome, the error and the answer."""
        return self.tried(lambda client: client.call(action, **parameters))

    def tried(self, ask: Callable[[Client], dict[str, Any]]) -> tuple[Type, str, dict[str, Any]]:
        """Do the same with any request."""
        found: tuple[Type, str, dict[str, Any]] = "fail", "", {}
        for client in self.chance.sample(self._clients, len(self._clients)):
            try:
                return "ok", "", ask(client)
            except Refused as error:
                found = "fail", str(error), {}
                if NOT_CONNECTED not in found[1]:
                    break
            except Unknown as error:
                return ("fail" if NOT_DONE in str(error) else "info"), str(error), {}
        return found

    def note(self, kind: str, begun: float, outcome: Type, queue: str, **more: Any) -> Op:
        """Write down what has ended now."""
        op = Op(kind, outcome, self.name, begun, time.monotonic(), queue, **more)
        self.world.history.add(op)
        return op

    def new_value(self) -> str:
        self._made += 1
        return f"{self.name}-{self._made}"

    def a_queue(self) -> Queue:
        """Return a queue: often the one at which all are for this second."""
        queues = self.world.queues
        if self.chance.random() < 0.5:
            return self.chance.choice(queues)
        return queues[int(time.monotonic()) % len(queues)]

    def a_queue_or_its_dead(self) -> str:
        queue = self.a_queue()
        return queue.dead if queue.dead and self.chance.random() < 0.2 else queue.name

    def a_message(self, place: Queue | Topic) -> tuple[str, str]:
        """Return a body and its group: where ids are known sometimes one that was sent before."""
        if not place.deduplicates:
            return self.new_value() + place.ending(self.chance), place.a_group(self.chance)
        known = [(value, group) for name, value, group in self.world.sent if name == place.name]
        if known and self.chance.random() < 0.25:
            return self.chance.choice(known)
        value = self.new_value() + place.ending(self.chance)
        group = place.a_group(self.chance)
        self.world.sent.append((place.name, value, group))
        return value, group

    def nap(self, longest: float) -> None:
        time.sleep(self.chance.uniform(0, longest))


class Producer(User):
    """Sends a few messages at a time."""

    def run(self) -> None:
        while self.world.open():
            self._send(self.a_queue())
            self.nap(0.06)
        self.close()

    def _send(self, queue: Queue) -> None:
        messages = [self.a_message(queue) for _ in range(self.chance.choice([1, 1, 2, 4]))]
        entries = [
            {"Id": str(place), "MessageBody": value, "MessageAttributes": attributes_of(value)}
            | ({"MessageGroupId": group} if group else {})
            | ({"MessageDeduplicationId": value} if queue.deduplicates else {})
            for place, (value, group) in enumerate(messages)
        ]
        begun = time.monotonic()
        outcome, error, answer = self.ask(
            "SendMessageBatch", QueueUrl=url(queue.name), Entries=entries
        )
        stored = {entry["Id"]: entry for entry in answer.get("Successful", [])}
        failed = outcomes(answer)
        for place, (value, group) in enumerate(messages):
            one = stored.get(str(place), {})
            kind, why = failed.get(str(place), (outcome, error))
            self.note(
                "send",
                begun,
                kind,
                queue.name,
                value=value,
                group=group,
                message_id=one.get("MessageId", ""),
                sequence_number=int(one.get("SequenceNumber", 0)),
                place=place,
                error=why,
            )


class Consumer(User):
    """Receives, and does with it one of many things, at once or when it is too late."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._old: deque[Received] = deque(maxlen=8)
        self._ways: dict[Callable[[list[Received]], object], int] = {
            self.delete: 45,
            self._delete_half_and_show_the_rest: 10,
            self._show: 10,
            self._hide: 10,
            self._let_pass: 15,
            self._show_and_delete_too_late: 10,
        }

    def run(self) -> None:
        while self.world.open():
            wait, limit = self.chance.choice([0, 0, 0, 1]), self.chance.randint(1, 5)
            if received := self.receive(self.a_queue_or_its_dead(), limit, wait):
                (way,) = self.chance.choices([*self._ways], [*self._ways.values()])
                way(received)
            if self._old and self.chance.random() < 0.25:
                self._come_late()
            self.nap(0.02)
        self.close()

    def receive(self, queue: str, limit: int, wait: int) -> list[Received]:
        timeout = self.chance.choice([1, 2, 4])
        begun = time.monotonic()
        outcome, error, answer = self.ask(
            "ReceiveMessage",
            QueueUrl=url(queue),
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=wait,
            VisibilityTimeout=timeout,
            MessageSystemAttributeNames=ATTRIBUTES,
        )
        received = self.note_received(begun, queue, timeout, answer)
        if outcome != "ok":
            self.note("receive", begun, outcome, queue, visibility=timeout, error=error)
        return received

    def note_received(
        self, begun: float, queue: str, timeout: int, answer: dict[str, Any]
    ) -> list[Received]:
        ended = time.monotonic()
        receive = Op("receive", "ok", self.name, begun, ended, queue, visibility=timeout)
        received = [
            (shown(receive, place, message), message["ReceiptHandle"])
            for place, message in enumerate(answer.get("Messages", []))
        ]
        self.world.history.add(*(op for op, _ in received))
        return received

    def delete(self, received: Sequence[Received]) -> None:
        self._each("delete", "DeleteMessageBatch", received)

    def _delete_half_and_show_the_rest(self, received: list[Received]) -> None:
        self.chance.shuffle(received)
        half = (len(received) + 1) // 2
        self.delete(received[:half])
        self._show(received[half:])

    def _show(self, received: Sequence[Received]) -> None:
        self._hide(received, 0)

    def _hide(self, received: Sequence[Received], timeout: int | None = None) -> None:
        seconds = self.chance.choice([1, 3]) if timeout is None else timeout
        action = "ChangeMessageVisibilityBatch"
        self._each("hide", action, received, VisibilityTimeout=seconds)
        self._old += received

    def _let_pass(self, received: Sequence[Received]) -> None:
        """Keep the receipts: they may be used when they are worth nothing any more."""
        self._old += received

    def _show_and_delete_too_late(self, received: Sequence[Received]) -> None:
        """Show what somebody else will have by the time of the delete."""
        self._show(received)
        self.nap(0.2)
        self.delete(received)

    def _come_late(self) -> None:
        one = self.chance.choice(self._old)
        self.chance.choice([self.delete, self._show, self._hide])([one])

    def _each(self, kind: str, action: str, received: Sequence[Received], **more: int) -> None:
        """Do something to each message; they are of one queue."""
        if not received:
            return
        entries = [
            {"Id": str(place), "ReceiptHandle": handle, **more}
            for place, (_, handle) in enumerate(received)
        ]
        begun = time.monotonic()
        outcome, error, answer = self.ask(
            action, QueueUrl=url(received[0][0].queue), Entries=entries
        )
        ended = time.monotonic()
        failed = outcomes(answer)
        for place, (op, _) in enumerate(received):
            one, why = failed.get(str(place), (outcome, error))
            made = replace(op, op=kind, process=self.name, type=one, t_invoke=begun, t_ok=ended)
            hidden = more.get("VisibilityTimeout", 0)
            self.world.history.add(replace(made, visibility=hidden, error=why))


class Purger(User):
    """Purges a queue now and then."""

    def run(self) -> None:
        while self.world.open():
            self.nap(1.5)
            queue = self.a_queue_or_its_dead()
            begun = time.monotonic()
            outcome, error, _ = self.ask("PurgeQueue", QueueUrl=url(queue))
            self.note("purge", begun, outcome, queue, error=error)
        self.close()


class Mover(User):
    """Moves the messages of a dead-letter queue back, now and then."""

    def run(self) -> None:
        while self.world.open():
            self.nap(1)
            queue = self.chance.choice([queue for queue in self.world.queues if queue.dead])
            begun = time.monotonic()
            outcome, error, _ = self.ask("StartMessageMoveTask", SourceArn=arn(queue.dead))
            self.note("move", begun, outcome, queue.dead, error=error)
        self.close()


def shown(receive: Op, place: int, message: dict[str, Any]) -> Op:
    """Return the delivery of a message that is shown in an answer."""
    attributes = message["Attributes"]
    return replace(
        receive,
        place=place,
        value=message["Body"],
        message_id=message["MessageId"],
        receipt=message["ReceiptHandle"],
        group=attributes.get("MessageGroupId", ""),
        sequence_number=int(attributes.get("SequenceNumber", 0)),
        receive_count=int(attributes["ApproximateReceiveCount"]),
    )


def outcomes(answer: dict[str, Any]) -> dict[str, tuple[Type, str]]:
    """Return what is known of those entries of a batch that were not done."""
    return {
        entry["Id"]: (
            "fail" if entry["SenderFault"] or NOT_DONE in entry["Message"] else "info",
            f"{entry['Code']}: {entry['Message']}",
        )
        for entry in answer.get("Failed", [])
    }

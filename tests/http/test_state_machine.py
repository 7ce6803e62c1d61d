"""Queues driven at random over HTTP, against a model of the rules of SQS.

The node connects as the owner of the schema, so that the clock of its database can be moved.
"""

import hashlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from support import servers
from support.clock import MovedClock, connect
from support.fifo_model import FifoQueue
from support.http import NodeProcess, client
from support.machine import IN_DEAD, LIMITS, STARTS, TIMEOUTS, WIRES, QueueMachine, Start, World
from support.model import Message, Queue, StandardQueue
from support.postgres import Databases

EXAMPLES = 6
STEPS = 50

DELAYS = st.sampled_from([None, None, 0, 60, 120])
TEXTS = st.sampled_from(["", " <&>\"'", " é😀", "\r\n\t ]]>"])
ATTRIBUTES = st.sampled_from(
    [
        {},
        {"kind": {"DataType": "String.label", "StringValue": "a <&> b"}},
        {
            "number": {"DataType": "Number", "StringValue": "-1.5e3"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
        },
    ]
)
GROUPS = st.sampled_from(["a", "b", "c"])
# The last is what the body "a" stands for where ids are taken from bodies.
IDS = st.sampled_from(["new", "new", "new", None, "x", "y", hashlib.sha256(b"a").hexdigest()])
BODIES = st.sampled_from(["new", "new", "a", "b"])
ATTEMPTS = st.sampled_from([None, None, "first", "second"])


@pytest.fixture(scope="module")
def world(server_folder: Path) -> Iterator[World]:
    with servers.start(server_folder / "state-machine", ephemeral=True, migrated=True) as server:
        url = Databases(server).migrated()
        node = NodeProcess(
            database_url=url, workers=1, connections=1, purge_cooldown=0, name_cooldown=0
        )
        with connect(url) as connection, node:
            node.ready()
            clients = {wire: client(node.url, wire) for wire in ("json", "query")}
            yield World(clients, connection, MovedClock(connection, clients["json"]), count(1))


class StandardMachine(QueueMachine):
    """Standard queues."""

    @initialize(wire=WIRES, start=STARTS, number=st.integers(1, 10))
    def begin(self, wire: str, start: Start, number: int) -> None:
        self.start(wire, start)
        self.send_batch(dead=False, delays=[None] * number)

    def model(self, url: str, arn: str) -> Queue:
        return StandardQueue(url, arn)

    @rule(
        dead=IN_DEAD,
        delay=DELAYS,
        text=TEXTS,
        attributes=ATTRIBUTES,
        group=st.sampled_from([None, None, "tenant"]),
    )
    def send(
        self, dead: bool, delay: int | None, text: str, attributes: Any, group: str | None
    ) -> None:
        queue, body = self.queue(dead=dead), f"{next(self.bodies)}{text}"
        answer, refusal = self.ask(
            "send_message",
            queue,
            MessageBody=body,
            DelaySeconds=delay,
            MessageAttributes=attributes,
            MessageGroupId=group,
        )
        assert not refusal
        message = Message(answer["MessageId"], body, attributes, self.now, self.now, group=group)
        queue.send(message, delay)

    @rule(dead=IN_DEAD, delays=st.lists(DELAYS, min_size=1, max_size=5))
    def send_batch(self, dead: bool, delays: list[int | None]) -> None:
        queue = self.queue(dead=dead)
        entries = [
            {"Id": str(n), "MessageBody": str(next(self.bodies))}
            | ({} if delay is None else {"DelaySeconds": delay})
            for n, delay in enumerate(delays)
        ]
        answer, refusal = self.ask("send_message_batch", queue, Entries=entries)
        assert not refusal
        assert "Failed" not in answer
        ids = {entry["Id"]: entry["MessageId"] for entry in answer["Successful"]}
        for entry, delay in zip(entries, delays, strict=True):
            message = Message(ids[entry["Id"]], entry["MessageBody"], {}, self.now, self.now)
            queue.send(message, delay)

    @rule(dead=IN_DEAD, limit=LIMITS, timeout=TIMEOUTS)
    def receive(self, dead: bool, limit: int, timeout: int | None) -> None:
        self.take(self.queue(dead=dead), limit, timeout)


class FifoMachine(QueueMachine):
    """FIFO queues."""

    @initialize(
        wire=WIRES,
        start=STARTS,
        by_content=st.booleans(),
        by_group=st.booleans(),
        groups=st.lists(GROUPS, min_size=1, max_size=10),
    )
    def begin(
        self, wire: str, start: Start, by_content: bool, by_group: bool, groups: list[str]
    ) -> None:
        self.by_content, self.by_group = by_content, by_group
        self.start(
            wire,
            start,
            suffix=".fifo",
            FifoQueue="true",
            ContentBasedDeduplication=str(by_content).lower(),
            DeduplicationScope="messageGroup" if by_group else "queue",
        )
        self.send_batch(dead=False, entries=[(group, "new", "new") for group in groups])

    def model(self, url: str, arn: str) -> Queue:
        return FifoQueue(url, arn, by_group=self.by_group)

    def entry(self, group: str, identifier: str | None, body: str) -> dict[str, str]:
        """Return a message to be sent."""
        number = next(self.bodies)
        entry = {
            "MessageBody": f"{number}" if body == "new" else body,
            "MessageGroupId": group,
        }
        if identifier is not None:
            entry["MessageDeduplicationId"] = f"{number}" if identifier == "new" else identifier
        return entry

    def note(self, queue: Queue, entry: dict[str, str], answer: dict[str, Any]) -> None:
        assert isinstance(queue, FifoQueue)
        digest = hashlib.md5(entry["MessageBody"].encode()).hexdigest()  # noqa: S324
        assert answer["MD5OfMessageBody"] == digest
        message = Message(
            answer["MessageId"],
            entry["MessageBody"],
            {},
            self.now,
            self.now,
            group=entry["MessageGroupId"],
            number=answer["SequenceNumber"],
        )
        queue.send(message, entry.get("MessageDeduplicationId"))

    @rule(dead=IN_DEAD, group=GROUPS, identifier=IDS, body=BODIES)
    def send(self, dead: bool, group: str, identifier: str | None, body: str) -> None:
        queue, entry = self.queue(dead=dead), self.entry(group, identifier, body)
        answer, refusal = self.ask("send_message", queue, **entry)
        if identifier is None and not self.by_content:
            assert "MessageDeduplicationId provided explicitly" in refusal
            return
        assert not refusal
        self.note(queue, entry, answer)

    @rule(
        dead=IN_DEAD,
        entries=st.lists(st.tuples(GROUPS, IDS, BODIES), min_size=1, max_size=5),
    )
    def send_batch(self, dead: bool, entries: list[tuple[str, str | None, str]]) -> None:
        queue = self.queue(dead=dead)
        sent = {str(n): self.entry(*entry) for n, entry in enumerate(entries)}
        answer, refusal = self.ask(
            "send_message_batch", queue, Entries=[{"Id": n} | entry for n, entry in sent.items()]
        )
        if not self.by_content and any(
            "MessageDeduplicationId" not in entry for entry in sent.values()
        ):
            assert "MessageDeduplicationId provided explicitly" in refusal
            return
        assert not refusal
        assert "Failed" not in answer
        answers = {entry["Id"]: entry for entry in answer["Successful"]}
        assert answers.keys() == sent.keys()
        for n, entry in sent.items():
            self.note(queue, entry, answers[n])

    @rule(dead=IN_DEAD, which=st.integers(0, 20), group=GROUPS)
    def send_again(self, dead: bool, which: int, group: str) -> None:
        """Send under a deduplication id that was used before, of late or long ago."""
        queue = self.queue(dead=dead)
        assert isinstance(queue, FifoQueue)
        if used := list(queue.sent):
            first_group, identifier = used[which % len(used)]
            self.send(dead=dead, group=first_group or group, identifier=identifier, body="new")

    @rule(
        dead=IN_DEAD,
        limit=LIMITS,
        timeouts=st.tuples(TIMEOUTS, TIMEOUTS),
        attempt=st.sampled_from(["first", "second"]),
        between=st.sampled_from([None, None, "wait", "change", "delete"]),
    )
    def receive_twice(
        self,
        dead: bool,
        limit: int,
        timeouts: tuple[int | None, int | None],
        attempt: str,
        between: str | None,
    ) -> None:
        """Receive as one whose connection broke before the answer, or who asks too late."""
        queue, (timeout, again) = self.queue(dead=dead), timeouts
        receipts = self.take(queue, limit, timeout, attempt)
        if between == "wait":
            self.clock.move(310)
        elif between == "change" and receipts:
            self.change_all(receipts[-1:], 900)
        elif between == "delete" and receipts:
            self.delete_all(receipts[-1:])
        self.take(queue, limit, again, attempt)

    @rule(
        dead=IN_DEAD,
        limit=LIMITS,
        timeout=TIMEOUTS,
        attempt=ATTEMPTS,
    )
    def receive(self, dead: bool, limit: int, timeout: int | None, attempt: str | None) -> None:
        self.take(self.queue(dead=dead), limit, timeout, attempt)


def run(machine: Callable[[], RuleBasedStateMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            # Requests take their time, and one that stalls ends its example without a verdict.
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(params=[EXAMPLES, pytest.param(40 * EXAMPLES, marks=pytest.mark.slow)])
def examples(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_standard_queue_keeps_the_rules_of_sqs(world: World, examples: int) -> None:
    run(lambda: StandardMachine(world), examples)


def test_fifo_queue_keeps_the_rules_of_sqs(world: World, examples: int) -> None:
    run(lambda: FifoMachine(world), examples)

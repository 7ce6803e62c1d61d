"""The state machine that drives a queue and its dead-letter queue against a model."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from botocore.exceptions import ClientError
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from support.clock import PATIENCE, MovedClock
from support.http import ACCOUNT
from support.model import LONGEST_TIMEOUT, Message, Queue, Receipt
from support.postgres import Connection

WIRES = st.sampled_from(["json", "query"])
TIMEOUTS = st.sampled_from([None, 0, 20, 60, 300])
CHANGES = st.sampled_from([0, 20, 100, LONGEST_TIMEOUT])
LIMITS = st.sampled_from([1, 2, 3, 10])
MOST = st.sampled_from([1, 2, 3, None])
# Most of what happens is to happen in one queue.
IN_DEAD = st.sampled_from([False, False, False, True])


@dataclass(frozen=True, slots=True)
class World:
    """A node on a server of its own, and the ways to it."""

    clients: dict[str, Any]
    connection: Connection
    clock: MovedClock
    numbers: Iterator[int]


class QueueMachine(RuleBasedStateMachine):
    """A queue and its dead-letter queue, with the rules that both kinds of queues share."""

    receipts = Bundle("receipts")

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.clock = world.clock
        self.queues: list[Queue] = []
        self.bodies = count(1)

    def start(self, wire: str, most: int | None, suffix: str = "", **attributes: str) -> None:
        """Make the queues."""
        self.sqs = self.world.clients[wire]
        for role in ("dead", "source"):
            name = f"{role}-{next(self.world.numbers)}{suffix}"
            url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            self.queues.append(self.model(url, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"))
        self.dead, self.source = self.queues
        self.redrive(most)

    def model(self, url: str, arn: str) -> Queue:
        """Return the model of a new queue."""
        raise NotImplementedError

    def queue(self, *, dead: bool) -> Queue:
        return self.dead if dead else self.source

    def ask(self, action: str, queue: Queue, **parameters: Any) -> tuple[dict[str, Any], str]:
        """Send a request at a time that is clear of the model's moments.

        Returns its answer, and what it was refused with.
        """
        self.clock.keep_clear(m for each in self.queues for m in each.moments())
        begun = self.clock.now()
        given = {name: value for name, value in parameters.items() if value is not None}
        refusal = ""
        try:
            answer = getattr(self.sqs, action)(QueueUrl=queue.url, **given)
        except ClientError as error:
            answer, refusal = {}, str(error)
        self.now = self.clock.now()
        assume(self.now - begun < PATIENCE)
        return answer, refusal

    def departed(self, messages: Sequence[Message]) -> set[Message]:
        """Tell which messages are in the dead-letter queue: SQS leaves open when they move."""
        rows = self.world.connection.execute(
            "select m.message_id::text from skipmq.message m join skipmq.queue q using (queue_id)"
            " where q.name = %s and m.message_id = any (%s::uuid[])",
            (self.dead.arn.rpartition(":")[2], [message.id for message in messages]),
        ).fetchall()
        found = {message_id for (message_id,) in rows}
        return {message for message in messages if message.id in found}

    def take(
        self, queue: Queue, limit: int, timeout: int | None, attempt: str | None = None
    ) -> list[Receipt]:
        """Receive; what upkeep may hold just now is asked for again."""
        for _ in range(5):
            answer, refusal = self.ask(
                "receive_message",
                queue,
                MaxNumberOfMessages=limit,
                VisibilityTimeout=timeout,
                ReceiveRequestAttemptId=attempt,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            assert not refusal
            shown = answer.get("Messages", [])
            if shown or not queue.may_be_busy(self.now):
                break
        return queue.receive(shown, limit, timeout, self.now, self.departed, attempt)

    def each(
        self,
        action: str,
        receipts: Sequence[Receipt],
        note: Callable[[Receipt, str], None],
        **options: Any,
    ) -> None:
        """Run a batch of deletes or changes and note what became of each."""
        entries = [
            {"Id": str(n), "ReceiptHandle": receipt.handle, **options}
            for n, receipt in enumerate(receipts)
        ]
        answer, refusal = self.ask(action, receipts[0].queue, Entries=entries)
        assert not refusal
        outcomes = {entry["Id"]: "" for entry in answer.get("Successful", [])}
        for entry in answer.get("Failed", []):
            assert entry["Id"] not in outcomes
            outcomes[entry["Id"]] = f"{entry['Code']}: {entry['Message']}"
        assert len(outcomes) == len(entries)
        for n, receipt in enumerate(receipts):
            note(receipt, outcomes[str(n)])

    def delete_all(self, receipts: Sequence[Receipt]) -> None:
        self.each(
            "delete_message_batch",
            receipts,
            lambda receipt, outcome: receipt.queue.delete(receipt, outcome, self.now),
        )

    @rule(dead=IN_DEAD, limit=LIMITS)
    def consume(self, dead: bool, limit: int) -> None:
        if receipts := self.take(self.queue(dead=dead), limit, None):
            self.delete_all(receipts)

    @rule(dead=IN_DEAD, times=st.integers(1, 3))
    def receive_in_vain(self, dead: bool, times: int) -> None:
        for _ in range(times):
            self.take(self.queue(dead=dead), 10, 0)

    @rule(receipt=receipts)
    def delete(self, receipt: Receipt) -> None:
        _, refusal = self.ask("delete_message", receipt.queue, ReceiptHandle=receipt.handle)
        receipt.queue.delete(receipt, refusal, self.now)

    @rule(receipts=st.lists(receipts, min_size=1, max_size=4, unique=True))
    def delete_batch(self, receipts: list[Receipt]) -> None:
        self.delete_all([r for r in receipts if r.queue is receipts[0].queue])

    @rule(receipt=receipts, timeout=CHANGES)
    def change(self, receipt: Receipt, timeout: int) -> None:
        _, refusal = self.ask(
            "change_message_visibility",
            receipt.queue,
            ReceiptHandle=receipt.handle,
            VisibilityTimeout=timeout,
        )
        receipt.queue.change(receipt, timeout, refusal, self.now)

    @rule(receipts=st.lists(receipts, min_size=1, max_size=4, unique=True), timeout=CHANGES)
    def change_batch(self, receipts: list[Receipt], timeout: int) -> None:
        self.each(
            "change_message_visibility_batch",
            [r for r in receipts if r.queue is receipts[0].queue],
            lambda receipt, outcome: receipt.queue.change(receipt, timeout, outcome, self.now),
            VisibilityTimeout=timeout,
        )

    @rule(dead=IN_DEAD)
    def purge(self, dead: bool) -> None:
        queue = self.queue(dead=dead)
        _, refusal = self.ask("purge_queue", queue)
        assert not refusal
        queue.purge()

    @rule(
        dead=IN_DEAD,
        timeout=st.sampled_from([None, 0, 20, 60]),
        delay=st.sampled_from([None, 0, 20, 60]),
        # Only ever shorter: whether upkeep has seen what was past a former period is not told.
        retention=st.sampled_from([None, None, 600, 60]),
    )
    def set_attributes(
        self, dead: bool, timeout: int | None, delay: int | None, retention: int | None
    ) -> None:
        queue = self.queue(dead=dead)
        queue_timeout = queue.timeout if timeout is None else timeout
        queue_delay = queue.delay if delay is None else delay
        queue_retention = min(retention or queue.retention, queue.retention)
        values = {
            "VisibilityTimeout": str(queue_timeout),
            "DelaySeconds": str(queue_delay),
            "MessageRetentionPeriod": str(queue_retention),
        }
        _, refusal = self.ask("set_queue_attributes", queue, Attributes=values)
        assert not refusal
        queue.timeout, queue.delay, queue.retention = queue_timeout, queue_delay, queue_retention

    @rule(most=MOST)
    def redrive(self, most: int | None) -> None:
        policy = {"deadLetterTargetArn": self.dead.arn, "maxReceiveCount": most}
        text = json.dumps(policy) if most else ""
        _, refusal = self.ask(
            "set_queue_attributes", self.source, Attributes={"RedrivePolicy": text}
        )
        assert not refusal
        self.source.dead_letters = self.dead if most else None
        self.source.most_receives = most or 0

    @rule(dead=IN_DEAD)
    def count(self, dead: bool) -> None:
        queue = self.queue(dead=dead)
        answer, refusal = self.ask("get_queue_attributes", queue, AttributeNames=["All"])
        assert not refusal
        shown = answer["Attributes"]
        found = {
            "visible": int(shown["ApproximateNumberOfMessages"]),
            "in flight": int(shown["ApproximateNumberOfMessagesNotVisible"]),
            "delayed": int(shown["ApproximateNumberOfMessagesDelayed"]),
        }
        expected = queue.counts(self.now)
        for state, number in found.items():
            least, most = expected[state]
            assert least <= number <= most, (found, expected)

    @rule(seconds=st.sampled_from([15, 35, 310]))
    def wait(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule(which=st.integers(0, 3), after=st.booleans())
    def wait_for_a_moment(self, which: int, after: bool) -> None:
        """Move the clock to shortly before or after something changes by itself."""
        now = self.clock.now()
        # Those of minutes: no retention period of days.
        moments = {m for queue in self.queues for m in queue.moments() if now < m < now + 1000}
        if not moments:
            return
        moment = sorted(moments)[which % len(moments)]
        target = moment + 1 if after else moment - 3 * PATIENCE
        if (seconds := target - self.clock.now()) > 0:
            self.clock.move(seconds)

    def teardown(self) -> None:
        """Receive and delete all that is left, and see that it is all there should be."""
        if sys.exc_info()[0] is not None or not self.queues:
            return
        last = max(queue.last_hidden() for queue in self.queues)
        if (seconds := last + 1 - self.clock.now()) > 0:
            self.clock.move(seconds)
        for queue in (self.source, self.dead):
            while receipts := self.take(queue, 10, 600):
                self.delete_all(receipts)
            for message in queue.messages:
                assert queue.is_old(message, self.now), f"lost: {message}"
        self.count(dead=False)
        self.count(dead=True)
        for queue in (self.source, self.dead):
            self.sqs.delete_queue(QueueUrl=queue.url)

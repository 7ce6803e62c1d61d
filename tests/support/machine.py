"""The state machine that drives a queue and its dead-letter queue against a model."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, NamedTuple

from botocore.exceptions import ClientError
from hypothesis import assume, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from support.clock import PATIENCE, MovedClock
from support.http import ACCOUNT
from support.model import LONGEST_TIMEOUT, Message, Queue, Receipt
from support.postgres import Connection

WIRES = st.sampled_from(["json", "query"])
# All times are longer than what the clock is kept clear of.
TIMEOUTS = st.sampled_from([None, None, 0, 60, 300, 900])
CHANGES = st.sampled_from([0, 60, 200, LONGEST_TIMEOUT])
QUEUE_TIMEOUTS = [60, 120, 600]
QUEUE_DELAYS = [0, 0, 60, 120]
# Which of the receipts that are held, from the last one on.
WHICH = st.integers(0, 12)
SOME = st.lists(WHICH, min_size=1, max_size=4, unique=True)
# What becomes of messages in turn: None deletes, a number is a change of visibility.
DEEDS = st.lists(st.sampled_from([None, None, 0, 200]), min_size=1, max_size=4)
LIMITS = st.sampled_from([1, 2, 3, 10])
MOST = st.sampled_from([1, 2, 3, None])
# Most of what happens is to happen in one queue.
IN_DEAD = st.sampled_from([False, False, False, True])


class Start(NamedTuple):
    """How a queue begins."""

    most: int | None
    timeout: int
    delay: int
    # That of the dead-letter queue.
    retention: int | None


STARTS = st.builds(
    Start,
    most=MOST,
    timeout=st.sampled_from(QUEUE_TIMEOUTS),
    delay=st.sampled_from(QUEUE_DELAYS),
    retention=st.sampled_from([None, None, 600]),
)


@dataclass(frozen=True, slots=True)
class World:
    """A node on a server of its own, and the ways to it."""

    clients: dict[str, Any]
    connection: Connection
    clock: MovedClock
    numbers: Iterator[int]


class QueueMachine(RuleBasedStateMachine):
    """A queue and its dead-letter queue, with the rules that both kinds of queues share."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.clock = world.clock
        self.queues: list[Queue] = []
        self.bodies = count(1)
        self.held: list[Receipt] = []

    def start(self, wire: str, start: Start, suffix: str = "", **attributes: str) -> None:
        """Make the queues."""
        self.sqs = self.world.clients[wire]
        for role in ("dead", "source"):
            name = f"{role}-{next(self.world.numbers)}{suffix}"
            url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
            self.queues.append(self.model(url, f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"))
        self.dead, self.source = self.queues
        self.redrive(start.most)
        self.set_attributes(dead=True, timeout=start.timeout, delay=None, retention=start.retention)
        self.set_attributes(dead=False, timeout=start.timeout, delay=start.delay, retention=None)

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
        note(f"  {action} of {queue.arn}: {given} gave {refusal or answer}")
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
        receipts = queue.receive(shown, limit, timeout, self.now, self.departed, attempt)
        self.held += [receipt for receipt in receipts if receipt not in self.held]
        return receipts

    def each(
        self,
        action: str,
        receipts: Sequence[Receipt],
        judge: Callable[[Receipt, str], None],
        **options: Any,
    ) -> None:
        """Run a batch of deletes or changes and judge what became of each."""
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
        # The entries know nothing of each other: an old receipt was one before the batch, too.
        for n, receipt in sorted(enumerate(receipts), key=lambda entry: entry[1].is_last):
            judge(receipt, outcomes[str(n)])

    def delete_all(self, receipts: Sequence[Receipt]) -> None:
        self.each(
            "delete_message_batch",
            receipts,
            lambda receipt, outcome: receipt.queue.delete(receipt, outcome, self.now),
        )

    def change_all(self, receipts: Sequence[Receipt], timeout: int) -> None:
        self.each(
            "change_message_visibility_batch",
            receipts,
            lambda receipt, outcome: receipt.queue.change(receipt, timeout, outcome, self.now),
            VisibilityTimeout=timeout,
        )

    @rule(dead=IN_DEAD, limit=LIMITS, deeds=DEEDS)
    def handle(self, dead: bool, limit: int, deeds: list[int | None]) -> None:
        """Receive, and at once delete what has no timeout and change the visibility of the rest."""
        received = self.take(self.queue(dead=dead), limit, None)
        changes = dict(zip(received, cycle(deeds), strict=False))
        for timeout in dict.fromkeys(changes.values()):
            some = [receipt for receipt in received if changes[receipt] == timeout]
            if timeout is None:
                self.delete_all(some)
            else:
                self.change_all(some, timeout)

    @rule(dead=IN_DEAD, times=st.integers(1, 3))
    def receive_in_vain(self, dead: bool, times: int) -> None:
        for _ in range(times):
            self.take(self.queue(dead=dead), 10, 0)

    def some(self, which: Sequence[int]) -> list[Receipt]:
        """Return receipts that are held, of one queue, from the last one on."""
        held = self.held[::-1]
        found = list(dict.fromkeys(held[n % len(held)] for n in which)) if held else []
        return [receipt for receipt in found if receipt.queue is found[0].queue]

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        for receipt in self.some([which]):
            _, refusal = self.ask("delete_message", receipt.queue, ReceiptHandle=receipt.handle)
            receipt.queue.delete(receipt, refusal, self.now)

    @rule(which=SOME)
    def delete_batch(self, which: list[int]) -> None:
        if receipts := self.some(which):
            self.delete_all(receipts)

    @rule(which=WHICH, timeout=CHANGES)
    def change(self, which: int, timeout: int) -> None:
        for receipt in self.some([which]):
            _, refusal = self.ask(
                "change_message_visibility",
                receipt.queue,
                ReceiptHandle=receipt.handle,
                VisibilityTimeout=timeout,
            )
            receipt.queue.change(receipt, timeout, refusal, self.now)

    @rule(which=SOME, timeout=CHANGES)
    def change_batch(self, which: list[int], timeout: int) -> None:
        if receipts := self.some(which):
            self.change_all(receipts, timeout)

    @rule(dead=IN_DEAD, sure=st.sampled_from([False, False, False, True]))
    def purge(self, dead: bool, sure: bool) -> None:
        """Purge seldom: not much is left to be seen in a queue that is purged all the time."""
        if not sure:
            return
        queue = self.queue(dead=dead)
        _, refusal = self.ask("purge_queue", queue)
        assert not refusal
        queue.purge()

    @rule(
        dead=IN_DEAD,
        timeout=st.sampled_from([None, 0, *QUEUE_TIMEOUTS]),
        delay=st.sampled_from([None, *QUEUE_DELAYS]),
        # Only ever shorter: whether upkeep has seen what was past a former period is not told.
        retention=st.sampled_from([None, None, 600, 100]),
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

    @rule(seconds=st.sampled_from([20, 100, 310, 700]))
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

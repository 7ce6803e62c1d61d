"""The moves from other brokers that the pages describe, under load: no message is lost."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from bench import peers
from bench.peers import Broker
from support.http import NodeProcess, client, eventually
from support.imports import run

pytestmark = pytest.mark.slow

# Seconds, short so that the moves wait little.
DELAY, VISIBILITY = 1, 1
FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
COUNTS = [f"ApproximateNumberOfMessages{which}" for which in ("", "Delayed", "NotVisible")]
BROKERS = {"elasticmq": peers.elasticmq, "moto": peers.moto}


@dataclass
class Work:
    """What was sent and what was done, in order, by all threads."""

    sent: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)


class Loop:
    """A thread that repeats something until it is stopped; what it raises, `stop` raises."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn, self._ends = turn, threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> Self:
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                self._turn()
        except Exception as error:  # noqa: BLE001 - raised by `stop`.
            self._error = error

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        if self._error:
            raise self._error


class Place:
    """A broker as its clients know it: by its endpoint, with any keys."""

    def __init__(self, url: str) -> None:
        self.sqs = client(url, key="x", secret="x", tries=3)

    def url(self, name: str) -> str:
        found: str = self.sqs.get_queue_url(QueueName=name)["QueueUrl"]
        return found

    def counts(self, *names: str) -> int:
        """Return how many visible, delayed and in-flight messages these queues have."""
        total = 0
        for name in names:
            asked = {"QueueUrl": self.url(name), "AttributeNames": COUNTS}
            total += sum(map(int, self.sqs.get_queue_attributes(**asked)["Attributes"].values()))
        return total

    def drained(self, *names: str) -> None:
        """Wait until the queues are empty and stay so for longer than delay and visibility."""
        quiet = threading.Event()

        def stayed() -> bool:
            if self.counts(*names):
                return False
            return not any(quiet.wait(0.25) or self.counts(*names) for _ in range(12))

        assert DELAY + VISIBILITY < 12 * 0.25
        eventually(stayed, seconds=90, why=f"{names} empty, not {self.counts(*names)}")


class Producer(Loop):
    """A program that sends numbered messages, to the broker that it is pointed to."""

    def __init__(self, name: str, work: Work, place: Place, queue: str) -> None:
        super().__init__(self._send)
        self.name, self.work, self.count = name, work, 0
        self.point(place, queue)

    def point(self, place: Place, queue: str) -> None:
        self._target = place, place.url(queue)
        self.since = self.count

    def _send(self) -> None:
        place, url = self._target
        body = f"{self.name} {self.count}"
        options: dict[str, Any] = {"DelaySeconds": DELAY} if self.count % 5 == 0 else {}
        if url.endswith(".fifo"):
            options = {"MessageGroupId": self.name}
        place.sqs.send_message(QueueUrl=url, MessageBody=body, **options)
        self.work.sent.append(body)
        self.count += 1
        self._ends.wait(0.05)


class Consumer(Loop):
    """A program that fails for one message in twenty at first, and for another one always."""

    def __init__(self, work: Work, place: Place, queue: str, *, is_last: bool = False) -> None:
        super().__init__(self._receive)
        self.work, self.place, self.queue = work, place, place.url(queue)
        self.is_last, self.is_fifo = is_last, queue.endswith(".fifo")

    def _receive(self) -> None:
        # What follows a message of a FIFO queue must not be done before it.
        most = 1 if self.is_fifo else 10
        asked = {"QueueUrl": self.queue, "MaxNumberOfMessages": most, "WaitTimeSeconds": 1}
        for message in self.place.sqs.receive_message(**asked).get("Messages", []):
            body = message["Body"]
            is_first = body not in self.work.received
            self.work.received.append(body)
            if self._fails(int(body.split()[1]) % 20, is_first=is_first):
                continue
            self.work.done.append(body)
            self.place.sqs.delete_message(
                QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"]
            )

    def _fails(self, number: int, *, is_first: bool) -> bool:
        if number == 11:
            return not (self.is_last or self.is_fifo)
        return number == 7 and is_first


@pytest.fixture(params=["elasticmq", "moto"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Broker, ExitStack]]:
    """Give a broker to move from, and what stops it."""
    with ExitStack() as stack:
        yield stack.enter_context(BROKERS[request.param](tmp_path)), stack


@pytest.fixture
def new(url: str) -> Iterator[NodeProcess]:
    with NodeProcess(database_url=url, workers=1) as node:
        yield node.ready()


@contextmanager
def stopped(loops: list[Any]) -> Iterator[None]:
    """Stop at the end what a failing test left running."""
    try:
        yield
    finally:
        for each in loops:
            each.stop()


def queue(place: Place, name: str, **attributes: str) -> str:
    """Create a queue with a short visibility timeout; return its ARN."""
    given = {"VisibilityTimeout": str(VISIBILITY), **attributes}
    made = place.sqs.create_queue(QueueName=name, Attributes=given)["QueueUrl"]
    asked = {"QueueUrl": made, "AttributeNames": ["QueueArn"]}
    arn: str = place.sqs.get_queue_attributes(**asked)["Attributes"]["QueueArn"]
    return arn


def imported(url: str, broker: Broker) -> Mapping[str, str]:
    """Import the queues of a broker that runs; return what became of each."""
    words = ("--from-sqs", "--endpoint-url", broker.url, "--region", "us-east-1")
    lines = run(url, "import", *words).stdout.splitlines()
    return {line.split()[1]: line.split()[0] for line in lines[:-1]}


def test_standard_queue_moves_with_its_dead_letters(
    url: str, old: tuple[Broker, ExitStack], new: NodeProcess
) -> None:
    broker, ending = old
    before, after, work = Place(broker.url), Place(new.url), Work()
    dead = queue(before, "dead")
    queue(
        before,
        "jobs",
        RedrivePolicy=f'{{"deadLetterTargetArn":"{dead}","maxReceiveCount":"3"}}',
    )
    producers = [Producer(name, work, before, "jobs") for name in ("a", "b", "c")]
    loops: list[Loop] = [*producers]
    with stopped(loops):
        for each in producers:
            each.start()
        earlier = [
            *(Consumer(work, before, "jobs").start() for _ in range(2)),
            Consumer(work, before, "dead", is_last=True).start(),
        ]
        loops += earlier
        eventually(lambda: len(work.done) > 60, why="work at the old broker")

        made = imported(url, broker)
        assert {"jobs": "created", "dead": "created"}.items() <= made.items()
        later = [
            *(Consumer(work, after, "jobs").start() for _ in range(2)),
            Consumer(work, after, "dead", is_last=True).start(),
        ]
        loops += later
        for each in producers:
            each.point(after, "jobs")
            eventually(lambda: each.count - each.since > 20, why="messages to the new broker")  # noqa: B023 - called at once.
        before.drained("jobs", "dead")
        for consumer in earlier:
            consumer.stop()
        ending.close()

        for each in producers:
            each.stop()
        after.drained("jobs", "dead")

    assert len(work.sent) > 100
    assert set(work.sent) == set(work.done)


def test_fifo_queue_moves_in_order(
    url: str, old: tuple[Broker, ExitStack], new: NodeProcess
) -> None:
    broker, ending = old
    before, after, work = Place(broker.url), Place(new.url), Work()
    queue(before, "jobs.fifo", **FIFO)
    loops: list[Loop] = []
    with stopped(loops):
        first = [Producer(name, work, before, "jobs.fifo").start() for name in ("a", "b")]
        earlier = Consumer(work, before, "jobs.fifo").start()
        loops += [*first, earlier]
        eventually(lambda: len(work.done) > 20, why="work at the old broker")

        assert imported(url, broker)["jobs.fifo"] == "created"
        for producer in first:
            producer.stop()
        second = []
        for producer in first:
            follower = Producer(producer.name, work, after, "jobs.fifo")
            follower.count = producer.count
            second.append(follower.start())
        loops += second
        before.drained("jobs.fifo")
        earlier.stop()
        ending.close()
        for producer in second:
            producer.stop()
        loops.append(Consumer(work, after, "jobs.fifo").start())
        after.drained("jobs.fifo")

    assert set(work.sent) == set(work.done)
    assert all(each.count > 30 for each in second)
    for name in ("a", "b"):
        # A message that is done twice, as a lost answer would cause, counts where it was first.
        ours = [body for body in dict.fromkeys(work.done) if body.split()[0] == name]
        assert ours == [f"{name} {number}" for number in range(len(ours))]

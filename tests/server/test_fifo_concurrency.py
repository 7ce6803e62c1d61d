"""The promises of a FIFO queue, kept by two nodes at once, and by one that outlives the other.

Clients note when each call began and when it had ended. What a check calls wrong is wrong however
the calls went in between: nothing depends on how fast they were.
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import psycopg
import pytest

from support.http import NodeProcess, client, eventually
from support.nodes import Client, Nodes, two_nodes
from support.postgres import Databases, as_node

PRODUCERS, CONSUMERS = 4, 6
OWN, COMMON = 120, 40  # Messages of each producer, and ids that all of them send.
TOTAL = PRODUCERS * OWN + COMMON
# Clocks of two processes on one machine: what one calls a second the other may call a little less.
NEARLY = 0.9
PATIENCE = 120


class Interval(NamedTuple):
    number: int
    begin: float
    end: float


class Delivery(NamedTuple):
    body: str
    message_id: str
    group: str
    number: int
    begin: float
    end: float


@dataclass
class Hold:
    """A time in which a message was in flight for certain."""

    delivery: Delivery
    begin: float
    end: float


@dataclass
class Record:
    """What the clients saw; times by the one monotonic clock of this process."""

    # By deduplication id, which is the body as well.
    sends: dict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    deliveries: list[Delivery] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    deleted: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def by_group(self) -> dict[str, list[Delivery]]:
        groups: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            groups[delivery.group].append(delivery)
        return groups


def group_of(producer: int, body: str) -> str:
    """Return where a producer sends a body: some to its own groups, others where all send."""
    kind, number = body.split("-")
    if kind == "common":
        return f"shared-{(int(number) + producer) % 3}"
    return f"own-{producer}-{int(number) % 2}" if int(number) % 3 else f"shared-{int(number) % 4}"


def produce(record: Record, nodes: Nodes, queue: str, producer: int) -> None:
    chance = random.Random(producer)  # noqa: S311 - no secret.
    sqs = Client(nodes, producer)
    bodies = [f"{producer}-{n}" for n in range(OWN)]
    for n in range(COMMON):
        bodies.insert(n * 4, f"common-{n}")
    for start in range(0, len(bodies), 6):
        again = chance.sample(bodies[:start], k=min(start, chance.choice([0, 2, 4])))
        batch = bodies[start : start + 6] + again
        entries = [
            {
                "Id": str(place),
                "MessageBody": body,
                "MessageGroupId": group_of(producer, body),
                "MessageDeduplicationId": body,
            }
            for place, body in enumerate(batch)
        ]
        began = time.monotonic()
        answer = sqs.surely("send_message_batch", QueueUrl=queue, Entries=entries)
        ended = time.monotonic()
        assert not answer.get("Failed")
        with record.lock:
            for entry in answer["Successful"]:
                body, number = batch[int(entry["Id"])], int(entry["SequenceNumber"])
                record.sends[body].append(Interval(number, began, ended))
                record.answers[body].add((entry["MessageId"], number))
        sqs.turn()


class Consumer:
    """Receives, and settles what it has received in one of many ways."""

    def __init__(self, record: Record, nodes: Nodes, queue: str, number: int) -> None:
        self._record = record
        self._queue = queue
        self._chance = random.Random(1000 + number)  # noqa: S311 - no secret.
        self._sqs = Client(nodes, number)
        self._name = f"consumer-{number}"
        self._attempts = 0

    def run(self, done: Callable[[], bool]) -> None:
        ways = {
            self._delete: 70,
            self._delete_some_and_show_the_rest: 15,
            self._show: 10,
            self._hide_for_a_second: 3,
            self._let_pass: 2,
        }
        while not done():
            if received := self._receive():
                (way,) = self._chance.choices([*ways], [*ways.values()])
                way(received)
            self._sqs.turn()

    def _receive(self) -> list[tuple[dict[str, Any], Hold]]:
        self._attempts += 1
        timeout = self._chance.choice([1, 3])
        began = time.monotonic()
        # A try whose answer was lost is tried again, as AWS says, under the same attempt id.
        answer = self._sqs.surely(
            "receive_message",
            QueueUrl=self._queue,
            MaxNumberOfMessages=self._chance.randint(1, 10),
            WaitTimeSeconds=1,
            VisibilityTimeout=timeout,
            ReceiveRequestAttemptId=f"{self._name}-{self._attempts}",
            MessageSystemAttributeNames=["SequenceNumber", "MessageGroupId"],
        )
        ended = time.monotonic()
        received = []
        for message in answer.get("Messages", []):
            attributes = message["Attributes"]
            delivery = Delivery(
                message["Body"],
                message["MessageId"],
                attributes["MessageGroupId"],
                int(attributes["SequenceNumber"]),
                began,
                ended,
            )
            received.append((message, Hold(delivery, ended, began + timeout * NEARLY)))
        with self._record.lock:
            self._record.deliveries += [hold.delivery for _, hold in received]
            self._record.holds += [hold for _, hold in received]
        return received

    def _each(
        self, action: str, received: Iterable[tuple[dict[str, Any], Hold]], **more: Any
    ) -> list[Hold]:
        """Do something to each message; return the holds of those where it could be done."""
        received = list(received)
        entries = [
            {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"], **more}
            for place, (message, _) in enumerate(received)
        ]
        began = time.monotonic()
        for _, hold in received:
            hold.end = min(hold.end, began)
        answer = self._sqs.surely(action, QueueUrl=self._queue, Entries=entries)
        return [received[int(entry["Id"])][1] for entry in answer.get("Successful", [])]

    def _delete(self, received: list[tuple[dict[str, Any], Hold]]) -> None:
        gone = self._each("delete_message_batch", received)
        ended = time.monotonic()
        with self._record.lock:
            for hold in gone:
                self._record.deleted.setdefault(hold.delivery.body, ended)

    def _delete_some_and_show_the_rest(self, received: list[tuple[dict[str, Any], Hold]]) -> None:
        self._chance.shuffle(received)
        half = (len(received) + 1) // 2
        for one in received[:half]:
            self._delete([one])
        if received[half:]:
            self._show(received[half:])

    def _show(self, received: list[tuple[dict[str, Any], Hold]]) -> None:
        self._each("change_message_visibility_batch", received, VisibilityTimeout=0)

    def _hide_for_a_second(self, received: list[tuple[dict[str, Any], Hold]]) -> None:
        began = time.monotonic()
        hidden = self._each("change_message_visibility_batch", received, VisibilityTimeout=1)
        ended = time.monotonic()
        with self._record.lock:
            self._record.holds += [Hold(h.delivery, ended, began + NEARLY) for h in hidden]

    def _let_pass(self, received: list[tuple[dict[str, Any], Hold]]) -> None:
        """Do nothing: they come again by themselves."""


def run(record: Record, nodes: Nodes, queue: str, during: Callable[[], None]) -> None:
    """Run all producers and consumers until every message has been deleted."""
    deadline = time.monotonic() + PATIENCE

    def done() -> bool:
        return len(record.deleted) == TOTAL or time.monotonic() > deadline

    with ThreadPoolExecutor(PRODUCERS + CONSUMERS + 1) as pool:
        futures = [pool.submit(produce, record, nodes, queue, n) for n in range(PRODUCERS)]
        futures += [
            pool.submit(Consumer(record, nodes, queue, n).run, done) for n in range(CONSUMERS)
        ]
        futures.append(pool.submit(during))
        for future in futures:
            future.result()


def check(record: Record) -> None:
    check_each_was_there_once(record)
    check_order_of_sends(record)
    for deliveries in record.by_group().values():
        check_order_of_deliveries(deliveries)
    check_holds(record)


def check_each_was_there_once(record: Record) -> None:
    assert len(record.answers) == TOTAL
    assert set(record.deleted) == set(record.answers), "lost or invented"
    # Whoever sent an id, by whichever node and to whichever group, was told of the same message.
    assert [body for body, answers in record.answers.items() if len(answers) > 1] == []
    for delivery in record.deliveries:
        assert record.answers[delivery.body] == {(delivery.message_id, delivery.number)}
        assert delivery.begin <= record.deleted[delivery.body], "it came again after its delete"


def check_order_of_sends(record: Record) -> None:
    for producer in range(PRODUCERS):
        for own in (0, 1):
            group = f"own-{producer}-{own}"
            bodies = [f"{producer}-{n}" for n in range(OWN)]
            numbers = [
                record.sends[body][0].number for body in bodies if group_of(producer, body) == group
            ]
            assert numbers == sorted(set(numbers))
    groups = {delivery.body: delivery.group for delivery in record.deliveries}
    accepted: dict[str, list[Interval]] = defaultdict(list)
    for body, sends in record.sends.items():
        # The first of them was accepted after one of them began and before any had ended.
        first = Interval(sends[0].number, min(s.begin for s in sends), min(s.end for s in sends))
        accepted[groups[body]].append(first)
    for intervals in accepted.values():
        check_no_later_one_was_over_before(intervals)


def check_order_of_deliveries(deliveries: list[Delivery]) -> None:
    first: dict[int, Delivery] = {}
    together: dict[tuple[float, float], list[int]] = defaultdict(list)
    for delivery in sorted(deliveries, key=lambda d: d.begin):
        first.setdefault(delivery.number, delivery)
    for delivery in deliveries:
        together[delivery.begin, delivery.end].append(delivery.number)
    for numbers in together.values():
        assert all(earlier < later for earlier, later in pairwise(numbers))
    check_no_later_one_was_over_before(Interval(d.number, d.begin, d.end) for d in first.values())


def check_no_later_one_was_over_before(intervals: Iterable[Interval]) -> None:
    earliest_end = float("inf")
    for interval in sorted(intervals, reverse=True):
        assert interval.begin <= earliest_end, interval
        earliest_end = min(earliest_end, interval.end)


def check_holds(record: Record) -> None:
    """While a message is in flight, neither it nor one behind it is given to anybody."""
    groups = record.by_group()
    for hold in record.holds:
        for other in groups[hold.delivery.group]:
            assert not (
                other.number >= hold.delivery.number
                and hold.begin < other.begin
                and other.end < hold.end
            ), (hold, other)


def create(sqs: Any) -> str:
    attributes = {"FifoQueue": "true", "VisibilityTimeout": "30"}
    url: str = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"]
    return url


def assert_nothing_is_left(database: str, sqs: Any, queue: str) -> None:
    counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert {v for key, v in counts.items() if key.startswith("Approximate")} == {"0"}
    with psycopg.connect(database) as connection:
        groups = connection.execute(
            "select count(*) from skipmq.message_group where queue_id > 0"
        ).fetchone()
    assert groups == (0,)


@pytest.mark.slow
def test_two_nodes_keep_the_order_and_the_groups_and_forget_duplicates(
    embedded_databases: Databases,
) -> None:
    database = embedded_databases.migrated()
    with two_nodes(database) as nodes:
        sqs = client(nodes[0].url)
        queue = create(sqs)
        record = Record()

        run(record, nodes, queue, during=lambda: None)

        check(record)
        assert_nothing_is_left(database, sqs, queue)


def test_death_of_a_node_breaks_no_promise_and_its_successor_goes_on_counting(
    embedded_databases: Databases,
) -> None:
    database = embedded_databases.migrated()
    with two_nodes(database) as nodes:
        sqs = client(nodes[0].url)
        queue = create(sqs)
        record = Record()

        def kill_one() -> None:
            eventually(lambda: len(record.deleted) >= TOTAL // 4, PATIENCE)
            nodes[1].kill()

        run(record, nodes, queue, during=kill_one)

        check(record)
        assert_nothing_is_left(database, sqs, queue)

        with NodeProcess(database_url=as_node(database), workers=1, port=nodes[1].port) as again:
            both = [sqs, client(again.ready().url)]
            numbers = [max(send.number for sends in record.sends.values() for send in sends)]
            for n in range(10):
                answer = both[n % 2].send_message(
                    QueueUrl=queue,
                    MessageBody=str(n),
                    MessageGroupId="shared-0",
                    MessageDeduplicationId=f"late-{n}",
                )
                numbers.append(int(answer["SequenceNumber"]))
            assert numbers == sorted(set(numbers))

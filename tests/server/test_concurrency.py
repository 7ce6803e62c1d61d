"""Many producers and consumers on two nodes, and the death of one of them in the middle."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from support.http import client, eventually
from support.nodes import Client, Nodes, two_nodes
from support.postgres import Databases

PRODUCERS = CONSUMERS = 8
# The slow size goes on while autovacuum runs.
SIZES = [1_200, pytest.param(20_000, marks=pytest.mark.slow)]
VISIBILITY = 120
PATIENCE = 300


@dataclass
class Record:
    """What the clients saw of a number of messages; times by one monotonic clock."""

    messages: int
    acknowledged: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    # When each receive began and was answered.
    deliveries: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def produce(record: Record, nodes: Nodes, queue: str, number: int) -> None:
    sqs = Client(nodes, number)
    share = [f"{number}-{n}" for n in range(record.messages // PRODUCERS)]
    for start in range(0, len(share), 10):
        bodies = share[start : start + 10]
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies)]
        while (answer := sqs.call("send_message_batch", QueueUrl=queue, Entries=entries)) is None:
            # Unknown outcome: a standard queue may then hold a message twice.
            record.uncertain.update(bodies)
        assert not answer.get("Failed")
        with record.lock:
            record.acknowledged.update(bodies)


def consume(
    record: Record, nodes: Nodes, queue: str, number: int, done: Callable[[], bool]
) -> None:
    sqs = Client(nodes, number)
    while not done():
        began = time.monotonic()
        answer = sqs.call(
            "receive_message", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1
        )
        received = (answer or {}).get("Messages", [])
        ended = time.monotonic()
        with record.lock:
            for message in received:
                record.deliveries.setdefault(message["Body"], []).append((began, ended))
        if received:
            entries = [
                {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
                for n, message in enumerate(received)
            ]
            while sqs.call("delete_message_batch", QueueUrl=queue, Entries=entries) is None:
                pass
            with record.lock:
                record.deleted.update({m["Body"]: time.monotonic() for m in received})


def run(record: Record, nodes: Nodes, queue: str, during: Callable[[], None]) -> None:
    """Run all producers and consumers until every message has been deleted."""
    deadline = time.monotonic() + PATIENCE

    def done() -> bool:
        everything = len(record.deleted) == record.messages
        return everything or time.monotonic() > deadline

    with ThreadPoolExecutor(PRODUCERS + CONSUMERS + 1) as pool:
        futures = [pool.submit(produce, record, nodes, queue, n) for n in range(PRODUCERS)]
        futures += [pool.submit(consume, record, nodes, queue, n, done) for n in range(CONSUMERS)]
        futures.append(pool.submit(during))
        for future in futures:
            future.result()


def check(record: Record, visibility: float) -> None:
    assert len(record.acknowledged) == record.messages
    assert set(record.deliveries) == record.acknowledged, "lost or invented"
    for body, times in record.deliveries.items():
        # A body whose send had an unknown outcome may be stored twice. No other message comes again
        # sooner than its visibility timeout, by the clock of the clients less a little, however
        # long they took to hear of it.
        if body not in record.uncertain:
            gaps = [later[1] - earlier[0] for earlier, later in pairwise(sorted(times))]
            assert all(gap > visibility * 0.9 for gap in gaps), (body, gaps)


@pytest.mark.parametrize("messages", SIZES)
@pytest.mark.slow
def test_two_nodes_deliver_every_message_once(embedded_databases: Databases, messages: int) -> None:
    with two_nodes(embedded_databases.migrated()) as nodes:
        sqs = client(nodes[0].url)
        queue = sqs.create_queue(
            QueueName="orders", Attributes={"VisibilityTimeout": str(VISIBILITY)}
        )["QueueUrl"]
        record = Record(messages)

        run(record, nodes, queue, during=lambda: None)

        check(record, VISIBILITY)
        assert record.uncertain == set()
        assert Counter(len(times) for times in record.deliveries.values()) == {1: messages}
        counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        assert {v for key, v in counts.items() if key.startswith("Approximate")} == {"0"}


@pytest.mark.parametrize("messages", SIZES)
def test_death_of_a_node_in_the_middle_loses_nothing(
    embedded_databases: Databases, messages: int
) -> None:
    with two_nodes(embedded_databases.migrated()) as nodes:
        sqs = client(nodes[0].url)
        queue = sqs.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "10"})[
            "QueueUrl"
        ]
        record = Record(messages)

        def kill_one() -> None:
            eventually(lambda: len(record.deleted) >= messages // 3, PATIENCE)
            nodes[1].kill()

        run(record, nodes, queue, during=kill_one)

        check(record, 10)
        sent_twice = len(record.uncertain)
        assert sent_twice <= 10 * PRODUCERS

"""Who consumes from a queue, and which workers there are."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import psycopg
import pytest

from support.http import NodeProcess, eventually

Ask = Callable[..., dict[str, Any]]


def test_consumer_has_its_receives_and_deletes(sqs: Any, queue: str, ask: Ask) -> None:
    for n in range(3):
        sqs.send_message(QueueUrl=queue, MessageBody=f"{n}")
    (first, *_) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"]
    sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])

    def totals() -> tuple[int, ...]:
        found = ask("ListConsumers", QueueUrl=queue)["Consumers"]
        assert len(found) <= 1
        names = ("Receives", "Received", "Deleted", "WaitingReceivers")
        return tuple(sum(each[name] for each in found) for name in names)

    # Of two workers, one writes its own within five seconds.
    eventually(lambda: totals() == (2, 3, 1, 0))
    (consumer,) = ask("ListConsumers", QueueUrl=queue)["Consumers"]
    assert (consumer["Interface"], consumer["ClientAddress"]) == ("HTTP", "127.0.0.1")
    assert "otocore/" in consumer["UserAgent"]
    for name in ("LastReceiveSeconds", "SinceSeconds"):
        assert 0 <= consumer[name] < 60


def test_waiting_receiver_is_counted_until_it_ends(sqs: Any, queue: str, ask: Ask) -> None:
    wait = {"QueueUrl": queue, "WaitTimeSeconds": 20}
    waiting = Thread(target=lambda: sqs.receive_message(**wait))
    waiting.start()
    try:
        eventually(lambda: ask("ListConsumers", QueueUrl=queue)["WaitingReceivers"] == 1)
    finally:
        sqs.send_message(QueueUrl=queue, MessageBody="x")
        waiting.join()

    eventually(lambda: ask("ListConsumers", QueueUrl=queue)["WaitingReceivers"] == 0)


def test_sql_session_is_a_consumer(
    broker: NodeProcess, sqs: Any, queue: str, name: str, ask: Ask
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    url = broker.owner_url
    with psycopg.connect(url, autocommit=True, application_name="skipmq work") as session:
        session.execute("select * from skipmq.receive_message(%s)", (name,))

    (consumer,) = ask("ListConsumers", QueueUrl=queue)["Consumers"]

    assert (consumer["Interface"], consumer["Application"]) == ("SQL", "skipmq work")
    assert consumer["Role"]
    assert "Received" not in consumer


def test_workers_of_the_node_have_figures(request: pytest.FixtureRequest, ask: Ask) -> None:
    # gunicorn runs one worker, whatever the node's settings say.
    workers = 1 if request.config.getoption("door") == "wsgi" else 2
    eventually(lambda: len(ask("ListNodes")["Workers"]) >= workers)

    answer = ask("ListNodes")

    # Beside it may be workers of other tests' nodes that were cut off at their end.
    (each,) = [each for each in answer["Workers"] if each["Process"] == answer["ThisProcess"]]
    assert each["MemoryBytes"] > 10_000_000
    assert each["SeenSeconds"] < 60
    assert each["LoopLagMilliseconds"] < 60_000
    # The rate is of the last minute, in which this test has asked.
    eventually(lambda: sum(w["RequestsPerSecond"] for w in ask("ListNodes")["Workers"]) > 0)


def test_absent_queue_has_no_consumers(broker: NodeProcess, ask: Ask) -> None:
    answer = ask("ListConsumers", 400, QueueUrl=f"{broker.url}/000000000000/no-such-queue")

    assert answer["__type"].endswith("QueueDoesNotExist")

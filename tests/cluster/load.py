"""Producers and consumers on all queues, through one address."""

import json
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from cluster.client import Client
from cluster.consumers import Consumer
from cluster.history import History, Op
from cluster.producers import Producer, Publisher
from cluster.queues import QUEUES, Queue
from cluster.sns import HEADS, arn, form
from support.http import ACCOUNT

# Messages a second, of all producers together.
RATE = 120.0
_COUNTS = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
]


class Load:
    """Load on queues whose names begin with a prefix; it runs from the start of the block on."""

    def __init__(
        self, endpoint: str, history: History, *, seed: int, prefix: str = "", rate: float = RATE
    ) -> None:
        self._client = Client(endpoint)
        self._history = history
        self._stop, self._draining, self._done = (threading.Event() for _ in range(3))
        self._failures: list[Exception] = []
        self._queues = {}
        self._producing, self._consuming = [], []
        producers = sum(queue.producers for queue in QUEUES)
        for queue in QUEUES:
            url = self._client.surely(
                "CreateQueue", QueueName=prefix + queue.name, Attributes=queue.attributes
            )["QueueUrl"]
            self._queues[queue.name] = url
            self._note_queue(queue)
            for n in range(1, queue.producers + 1):
                name = f"{queue.name.partition('.')[0]}-{n}"
                make, place = (Publisher, prefix + queue.name) if queue.copies else (Producer, url)
                producer = make(
                    endpoint, history, queue, place, name, seed=seed, rate=rate / producers
                )
                self._producing.append(self._thread(name, producer.run, self._stop))
            for n in range(1, queue.consumers + 1):
                name = f"{queue.name.partition('.')[0]}-consumer-{n}"
                consumer = Consumer(endpoint, history, queue, url, name, seed=seed)
                self._consuming.append(self._thread(name, consumer.run, self._draining, self._done))
        for queue in QUEUES:
            if queue.copies:
                self._create_topic(prefix, queue)

    def drain(self, patience: float) -> bool:
        """Stop sending, and receive and delete until nothing is left; tell whether that came."""
        self._stop.set()
        for thread in self._producing:
            thread.join()
        self._phase("drain")
        self._draining.set()
        deadline = time.monotonic() + patience
        empty = 0
        while empty < 2 and time.monotonic() < deadline:
            time.sleep(0.3)
            empty = empty + 1 if self._look() else 0
        self._end()
        return self._look()

    def _look(self) -> bool:
        """Note what the attributes say; tell whether all queues are empty."""
        empty = True
        for name, url in self._queues.items():
            begun = time.monotonic()
            counts = self._client.surely(
                "GetQueueAttributes", QueueUrl=url, AttributeNames=_COUNTS
            )["Attributes"]
            self._history.add(
                Op(
                    "attributes",
                    "ok",
                    "load",
                    begun,
                    time.monotonic(),
                    name,
                    value=json.dumps(counts),
                )
            )
            empty = empty and set(counts.values()) == {"0"}
        return empty

    def _create_topic(self, prefix: str, queue: Queue) -> None:
        """Create the topic of a FIFO queue, with its name, and subscribe all that get the same."""
        kind = {"Attributes": {"FifoTopic": "true"}}
        self._client.surely_post(form("CreateTopic", kind, Name=prefix + queue.name), HEADS)
        for name in (queue.name, *queue.copies):
            question = form(
                "Subscribe",
                {"Attributes": {"RawMessageDelivery": "true"}},
                TopicArn=arn(prefix + queue.name),
                Protocol="sqs",
                Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:{prefix}{name}",
            )
            self._client.surely_post(question, HEADS)

    def _note_queue(self, queue: Queue) -> None:
        now = time.monotonic()
        self._history.add(
            Op("queue", "ok", "load", now, now, queue.name, receive_count=queue.limit)
        )

    def _phase(self, name: str) -> None:
        now = time.monotonic()
        self._history.add(Op("phase", "ok", "load", now, now, value=name))

    def _thread(
        self, name: str, run: Callable[..., None], *events: threading.Event
    ) -> threading.Thread:
        def guarded() -> None:
            try:
                run(*events)
            except Exception as error:  # noqa: BLE001 - it is raised again at the end.
                self._failures.append(error)

        return threading.Thread(target=guarded, name=name, daemon=True)

    def _end(self) -> None:
        self._stop.set()
        self._done.set()
        for thread in [*self._producing, *self._consuming]:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def __enter__(self) -> Self:
        self._phase("load")
        for thread in [*self._producing, *self._consuming]:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._done.set()
        if kind is None:
            self._end()
        self._client.close()

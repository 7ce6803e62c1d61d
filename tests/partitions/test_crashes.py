"""No acknowledged message is lost while a partition crashes, and the other one notices nothing."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from skipmq import embedded
from support.http import NodeProcess, client, eventually
from support.partitions import Partitions
from support.postgres import Databases, as_node

CRASHES = 3


@pytest.fixture
def made(
    embedded_databases: Databases, router_server: Databases, public_folder: Path
) -> Iterator[Partitions]:
    """Give two partitions, of which the second has a server that may crash."""
    with embedded.start(public_folder / "crashing", ephemeral=True) as server:
        yield Partitions([embedded_databases, Databases(server)], router_server)


class Traffic:
    """A producer and a consumer of each queue, until they are stopped."""

    def __init__(self, endpoint: str, urls: list[str]) -> None:
        self.endpoint, self.urls = endpoint, urls
        self.sent: dict[str, list[str]] = {url: [] for url in urls}
        self.received: dict[str, Counter[str]] = {url: Counter() for url in urls}
        self.errors: dict[str, list[Exception]] = {url: [] for url in urls}
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, args=(client(endpoint), url))
            for url in urls
            for target in (self._produce, self._consume)
        ]
        for thread in self._threads:
            thread.start()

    def _produce(self, sqs: Any, url: str) -> None:
        for number in count():
            if self._stopped.is_set():
                return
            try:
                sqs.send_message(QueueUrl=url, MessageBody=str(number))
            except (ClientError, BotoCoreError) as error:
                self.errors[url].append(error)
            else:
                self.sent[url].append(str(number))

    def _consume(self, sqs: Any, url: str) -> None:
        while not self._stopped.is_set():
            self.consume(sqs, url)

    def consume(self, sqs: Any, url: str) -> None:
        try:
            answer = sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=5, WaitTimeSeconds=1
            )
            for message in answer.get("Messages", []):
                self.received[url][message["Body"]] += 1
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        except (ClientError, BotoCoreError) as error:
            self.errors[url].append(error)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def lost(self, url: str) -> set[str]:
        return set(self.sent[url]) - set(self.received[url])


def test_crashes_of_a_partition_lose_nothing_and_leave_the_other_alone(made: Partitions) -> None:
    with NodeProcess(database_url=as_node(made.router), workers=1) as node:
        node.ready()
        sqs = client(node.url)
        urls = [sqs.create_queue(QueueName=made.name_at(number))["QueueUrl"] for number in (0, 1)]
        traffic = Traffic(node.url, urls)
        for _ in range(CRASHES):
            before = [len(traffic.sent[url]) for url in urls]
            eventually(
                lambda before=before: all(
                    len(traffic.sent[url]) > number + 20
                    for url, number in zip(urls, before, strict=True)
                )
            )
            crash(made.urls[1])
        traffic.stop()

        for url in urls:
            eventually(lambda url=url: traffic.consume(sqs, url) or not traffic.lost(url))
        assert traffic.errors[urls[0]] == []
        # One delivery each: nothing was handed out again where nothing failed.
        assert set(traffic.received[urls[0]].values()) == {1}


def crash(url: str) -> None:
    """Kill the server's processes at once; its keeper starts it again."""
    postmaster = server_of(url)
    postmaster.send_signal(signal.SIGQUIT)
    eventually(lambda: server_of(url).pid != postmaster.pid, why="the server starts again")
    eventually(lambda: is_up(url))


def server_of(url: str) -> psutil.Process:
    host = Path(psycopg.conninfo.conninfo_to_dict(url)["host"])
    file = host.parent / "postgresql" / "postmaster.pid"
    while True:
        with suppress(OSError, IndexError, psutil.NoSuchProcess):
            return psutil.Process(int(file.read_text().split()[0]))
        time.sleep(0.01)


def is_up(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True

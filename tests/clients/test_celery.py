"""A Celery application on kombu's SQS transport, unchanged but for its broker URL."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue

from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node

TASKS = 50
APP = """
import os
from pathlib import Path
from celery import Celery

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "wait_time_seconds": 5,
        "polling_interval": 0.1,  # The client's own pause between polls: a second by default.
    },
    task_default_queue="celery-tasks",
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)

@app.task
def add(a, b):
    Path(os.environ["RESULTS"], f"{a}").write_text(str(a + b))
"""


@pytest.fixture(scope="module")
def broker(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=1) as node:
        yield node.ready()


def test_celery_worker_runs_every_task(broker: NodeProcess, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    results = tmp_path / "results"
    results.mkdir()
    environment = {
        **os.environ,  # noqa: TID251 - the worker is a program of its own.
        "BROKER": f"sqs://key:secret@127.0.0.1:{broker.port}",
        "RESULTS": str(results),
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    send = f"import shop; [shop.add.delay(n, 1) for n in range({TASKS})]"
    subprocess.run(
        [sys.executable, "-c", send], cwd=tmp_path, env=environment, check=True, timeout=120
    )
    worker = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "shop",
            "worker",
            "--concurrency=2",
            "-l",
            "warning",
        ],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: len(list(results.iterdir())) == TASKS, 120, "all tasks have run")
        sqs = client(broker.url)
        queue = sqs.get_queue_url(QueueName="celery-tasks")["QueueUrl"]

        def left() -> int:
            found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
            return sum(int(v) for key, v in found.items() if key.startswith("ApproximateNumber"))

        eventually(lambda: left() == 0, 60, "every task is acknowledged")
    finally:
        worker.terminate()
        worker.wait(timeout=60)

    assert {path.name: path.read_text() for path in results.iterdir()} == {
        str(n): str(n + 1) for n in range(TASKS)
    }


def test_fanout_exchange_of_kombu_reaches_each_queue(broker: NodeProcess) -> None:
    options = {"region": "us-east-1", "is_secure": False, "supports_fanout": True}
    exchange = Exchange("broadcast", type="fanout")
    reached: set[str] = set()

    def take(name: str, _body: Any, message: Any) -> None:
        message.ack()
        reached.add(name)

    address = f"sqs://key:secret@127.0.0.1:{broker.port}"
    with Connection(address, transport_options=options) as connection:
        channel = connection.channel()
        for name in ("first", "second"):
            queue = Queue(name, exchange, channel=channel)
            queue.declare()
            Consumer(channel, [queue], callbacks=[partial(take, name)]).consume()
        producer = Producer(channel, exchange)

        def published() -> bool:
            # A queue is subscribed only when its consumer begins.
            producer.publish({"n": 1})
            connection.drain_events(timeout=20)
            return reached == {"first", "second"}

        eventually(published)

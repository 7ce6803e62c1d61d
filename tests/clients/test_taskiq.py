"""Taskiq tasks on the broker of taskiq-aio-sqs, and the worker that its command starts."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import programs
from support.http import client, eventually

TASKS = 50
INSTALLED = programs.INSTALLED / "taskiq"
APP = """
import asyncio
import os
from taskiq import SimpleRetryMiddleware
from taskiq_aio_sqs import SQSBroker, SQSQueue

broker = (
    SQSBroker(
        "taskiq",
        endpoint_url=os.environ["ENDPOINT"],
        enable_heartbeat=True,
        use_task_id_for_deduplication=True,
    )
    .with_middlewares(SimpleRetryMiddleware())
    .with_queues(SQSQueue(name="taskiq.fifo", is_fifo=True, wait_time_seconds=1))
)

def tell(text):
    with open(os.environ["TOLD"], "a") as file:
        file.write(text + "\\n")

@broker.task
async def add(a: int, b: int):
    tell(f"{a} + {b} = {a + b}")

@broker.task
async def outlast(seconds: float):
    await asyncio.sleep(seconds)
    tell("outlasted")

@broker.task(retry_on_error=True, max_retries=2)
async def fail(text: str):
    tell(text)
    raise ValueError(text)

@broker.task(queue="taskiq.fifo", group_id="lines")
async def follow(n: int):
    tell(f"line {n}")

async def send(tasks):
    await broker.startup()
    for n in range(tasks):
        await add.kiq(n, 1)
    await add.kicker().with_labels(delay=1).kiq(1000, 1)
    await add.kicker().with_labels(delay=900).kiq(2000, 1)
    await outlast.kiq(8)
    await fail.kiq("tried")
    for n in range(5):
        await follow.kiq(n)
    await broker.shutdown()
"""


@pytest.mark.slow
def test_taskiq_worker_runs_retries_delays_extends_and_keeps_order(
    endpoint: str, tmp_path: Path
) -> None:
    assert (INSTALLED / ".installed").exists(), "run `make clients`, which installs it"
    (tmp_path / "shop.py").write_text(APP)
    told = tmp_path / "told"
    told.touch()
    path = f"{INSTALLED}{os.pathsep}{tmp_path}"
    environment = programs.environment(
        {"PYTHONPATH": path, "ENDPOINT": endpoint, "TOLD": str(told)}
    )
    sqs = client(endpoint)
    # Shorter than a task, whose message the worker keeps.
    url = sqs.create_queue(QueueName="taskiq", Attributes={"VisibilityTimeout": "6"})["QueueUrl"]
    fifo = sqs.create_queue(QueueName="taskiq.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]

    def counts(url: str) -> dict[str, int]:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        start = "ApproximateNumberOfMessages"
        return {k.removeprefix(start): int(v) for k, v in found.items() if k.startswith(start)}

    send = f"import asyncio, shop; asyncio.run(shop.send({TASKS}))"
    subprocess.run([sys.executable, "-c", send], env=environment, check=True, timeout=120)
    worker = subprocess.Popen(
        [sys.executable, "-m", "taskiq", "worker", "--workers", "1", "shop:broker"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        none = {"": 0, "Delayed": 0, "NotVisible": 0}
        # All but what is delayed for longer than any test.
        eventually(lambda: counts(url) == none | {"Delayed": 1}, 120, "all tasks are settled")
        eventually(lambda: counts(fifo) == none, 120, "all lines are settled")
    finally:
        worker.terminate()
        worker.wait(timeout=60)

    said = told.read_text().splitlines()
    lines = [f"line {n}" for n in range(5)]
    expected = [f"{n} + 1 = {n + 1}" for n in [*range(TASKS), 1000]]
    assert Counter(said) == Counter([*expected, "tried", "tried", "outlasted", *lines])
    assert [line for line in said if line in lines] == lines

"""Dramatiq actors on the broker of dramatiq-sqs, and the worker that its command starts."""

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from support import programs
from support.http import client, eventually

TASKS = 50
INSTALLED = programs.INSTALLED / "dramatiq"
APP = """
import os
import dramatiq
from dramatiq_sqs import SQSBroker

dramatiq.set_broker(
    SQSBroker(
        namespace="dramatiq",
        dead_letter=True,
        visibility_timeout=None,
        tags={"team": "tea"},
        endpoint_url=os.environ["ENDPOINT"],
    )
)

def tell(text):
    with open(os.environ["TOLD"], "a") as file:
        file.write(text + "\\n")

@dramatiq.actor
def add(a, b):
    tell(f"{a} + {b} = {a + b}")

@dramatiq.actor(max_retries=1, min_backoff=2000, max_backoff=2000)
def fail(text):
    tell(text)
    raise ValueError(text)

def send(tasks):
    for n in range(tasks):
        add.send(n, 1)
    add.send_with_options(args=(1000, 1), delay=1000)
    add.send_with_options(args=(2000, 1), delay=900_000)
    fail.send("tried")
"""


def test_dramatiq_worker_runs_retries_delays_and_gives_up(endpoint: str, tmp_path: Path) -> None:
    assert (INSTALLED / ".installed").exists(), "run `make clients`, which installs it"
    (tmp_path / "shop.py").write_text(APP)
    told = tmp_path / "told"
    told.touch()
    path = f"{INSTALLED}{os.pathsep}{tmp_path}"
    environment = programs.environment(
        {"PYTHONPATH": path, "ENDPOINT": endpoint, "TOLD": str(told)}
    )
    sqs = client(endpoint)

    def counts(name: str) -> dict[str, int]:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        start = "ApproximateNumberOfMessages"
        return {k.removeprefix(start): int(v) for k, v in found.items() if k.startswith(start)}

    send = f"import shop; shop.send({TASKS})"
    subprocess.run([sys.executable, "-c", send], env=environment, check=True, timeout=120)
    worker = subprocess.Popen(
        [sys.executable, "-m", "dramatiq", "shop", "--processes=1", "--threads=4"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # All but what is delayed for longer than any test.
        done = {"": 0, "Delayed": 1, "NotVisible": 0}
        eventually(lambda: counts("dramatiq_default") == done, 120, "all tasks are settled")
    finally:
        worker.terminate()
        code = worker.wait(timeout=60)

    expected = [f"{n} + 1 = {n + 1}" for n in [*range(TASKS), 1000]]
    assert Counter(told.read_text().splitlines()) == Counter([*expected, "tried", "tried"])
    assert code == 0
    dead = sqs.get_queue_url(QueueName="dramatiq_default_dlq")["QueueUrl"]
    assert sqs.list_queue_tags(QueueUrl=dead)["Tags"] == {"team": "tea"}
    [letter] = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10)["Messages"]
    given_up: dict[str, Any] = json.loads(base64.b64decode(letter["Body"]))
    assert (given_up["actor_name"], given_up["args"]) == ("fail", ["tried"])

"""FastStream on faststream-celery, whose broker speaks SQS by Kombu."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import programs
from support.http import client, eventually

MESSAGES = 10
INSTALLED = programs.INSTALLED / "faststream"
APP = """
import asyncio
import os
from faststream import AckPolicy, FastStream
from faststream_celery import CeleryBroker, CeleryTask

broker = CeleryBroker(
    os.environ["BROKER"], transport_options={"region": "us-east-1", "is_secure": False}
)
app = FastStream(broker)

def tell(text):
    with open(os.environ["TOLD"], "a") as file:
        file.write(text + "\\n")

@broker.subscriber("faststream", task="greet", ack_policy=AckPolicy.NACK_ON_ERROR)
async def greet(args: list, kwargs: dict):
    tell(args[0])
    if args[0] == "nobody":
        raise ValueError("nobody is there")

async def send(messages):
    async with broker:
        for n in range(messages):
            await broker.publish(CeleryTask("greet", args=[f"guest {n}"]), queue="faststream")
        await broker.publish(CeleryTask("greet", args=["nobody"]), queue="faststream")
"""


@pytest.mark.slow
def test_faststream_handles_each_message_and_a_failure_is_dead_lettered(
    endpoint: str, tmp_path: Path
) -> None:
    assert (INSTALLED / ".installed").exists(), "run `make clients`, which installs it"
    (tmp_path / "shop.py").write_text(APP)
    told = tmp_path / "told"
    told.touch()
    broker = endpoint.replace("http://", "sqs://any:any@")
    path = f"{INSTALLED}{os.pathsep}{tmp_path}"
    environment = programs.environment({"PYTHONPATH": path, "BROKER": broker, "TOLD": str(told)})
    sqs = client(endpoint)
    dead = sqs.create_queue(QueueName="faststream-dead")["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:000000000000:faststream-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    url = sqs.create_queue(QueueName="faststream", Attributes={"RedrivePolicy": policy})["QueueUrl"]

    def counts(url: str) -> Counter[str]:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return +Counter({k: int(v) for k, v in found.items() if k.startswith("Approximate")})

    send = f"import asyncio, shop; asyncio.run(shop.send({MESSAGES}))"
    subprocess.run([sys.executable, "-c", send], env=environment, check=True, timeout=120)
    worker = subprocess.Popen(
        [sys.executable, "-m", "faststream", "run", "shop:app"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: counts(dead).total() == 1, 120, "the failure is dead-lettered")
        eventually(lambda: counts(url).total() == 0, 120, "all messages are settled")
    finally:
        worker.terminate()
        worker.wait(timeout=60)

    guests = [f"guest {n}" for n in range(MESSAGES)]
    assert Counter(told.read_text().splitlines()) == Counter([*guests, "nobody", "nobody"])

"""How much code of ours a request enters: someone has to read that."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import skipmq
from skipmq.config.settings import Settings
from skipmq.node import Node
from skipmq.server.answer import Broker
from support.postgres import Databases, as_node
from support.wire import request

APP = str(Path(skipmq.__file__).parent)
URL = {"QueueUrl": "http://localhost:9324/000000000000/orders"}
# Files and functions of one warm request, without the door.
MOST = {
    "SendMessage": (31, 75),
    # A claim may first ask how far back it has to look.
    "ReceiveMessage": (32, 93),
    "ChangeMessageVisibility": (25, 66),
    "DeleteMessage": (25, 64),
}


class Walk:
    """Counts the functions of ours that are entered, comprehensions and lambdas apart."""

    def __init__(self) -> None:
        self.entered: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(APP)
            and not code.co_name.startswith("<")
        ):
            self.entered[code.co_filename, code.co_qualname] += 1

    def count(self, function: str) -> int:
        return sum(count for (_, name), count in self.entered.items() if name == function)


async def ask(broker: Broker, action: str, **parameters: Any) -> dict[str, Any]:
    response = await broker.answer(request(action, **parameters))
    assert response.status == 200, response.body
    answer: dict[str, Any] = json.loads(response.body) if response.body else {}
    return answer


async def walk(url: str) -> dict[str, Walk]:
    """Return what each action enters, once all of them are warm."""
    node = Node(Settings(), as_node(url))
    await node.open()
    broker = Broker(node)
    await ask(broker, "CreateQueue", QueueName="orders")
    walks = {}
    for _ in range(3):
        handle = ""
        for action in MOST:
            parameters: dict[str, Any] = {
                "SendMessage": {"MessageBody": "x"},
                "ReceiveMessage": {},
                "ChangeMessageVisibility": {"ReceiptHandle": handle, "VisibilityTimeout": 30},
                "DeleteMessage": {"ReceiptHandle": handle},
            }[action]
            with Walk() as walks[action]:
                answer = await ask(broker, action, **URL, **parameters)
            for message in answer.get("Messages", ()):
                handle = message["ReceiptHandle"]
    await node.close()
    return walks


@pytest.fixture(scope="module")
def walks(embedded_databases: Databases) -> dict[str, Walk]:
    return asyncio.run(walk(embedded_databases.migrated()))


@pytest.mark.parametrize("action", MOST)
def test_request_enters_few_files_and_functions(walks: dict[str, Walk], action: str) -> None:
    entered = walks[action].entered
    files, functions = MOST[action]

    assert len({file for file, _ in entered}) <= files
    assert len(entered) <= functions


@pytest.mark.parametrize("action", MOST)
def test_request_looks_its_queue_up_once(walks: dict[str, Walk], action: str) -> None:
    assert walks[action].count("Queues.find") == 1

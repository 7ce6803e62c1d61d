"""How much code a request enters and runs: someone reads it, and a processor executes it.

Requests arrive at a door on as many connections at once as under load, so that they share their
statements. Opcodes are counted in place of seconds: they are the same on every machine.
"""

import asyncio
import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

import pytest
import uvloop

import skipmq
from skipmq.broker.node import Node
from skipmq.config.settings import Settings
from skipmq.server.answer import Broker
from skipmq.server.http.door import Door
from skipmq.telemetry.metrics import Metrics
from support.postgres import Databases, as_node
from support.wire import request, target

APP = str(Path(skipmq.__file__).parent)
CLIENTS = 64
URL = "http://localhost:9324/000000000000/orders"
BODY = "x" * 256
# The head of a client that signs: what no two requests share comes last.
SIGNED = {
    "User-Agent": "Boto3/1.40.1 md/Botocore#1.40.1 ua/2.1 os/linux lang/python#3.11.7",
    "Accept-Encoding": "identity",
    "amz-sdk-request": "attempt=1",
    "X-Amzn-Query-Mode": "true",
}
EACH = (
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/sqs/"
    "aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={:064x}\r\n"
    "X-Amz-Date: 20260101T0000{:02}Z\r\namz-sdk-invocation-id: 00000000-0000-4000-8000-{:012x}\r\n"
)


# The test's own files, and those that it runs in.
OTHERS = (__file__, "/asyncio/tasks.py", "/asyncio/runners.py", "/socket.py", "/weakref.py")


class Most(NamedTuple):
    """What a warm request may take; the first two are counts of distinct ones.

    A receive alone may first ask how far back it has to look, and is not among them.
    """

    files: int
    functions: int
    frames: float
    opcodes: float


MOST = {
    "SendMessage": Most(30, 81, 55, 1_870),
    "SendMessage, signed": Most(30, 83, 58, 2_020),
    "ReceiveMessage": Most(33, 114, 78, 2_320),
    "ChangeMessageVisibility": Most(29, 80, 54, 1_930),
    "DeleteMessage": Most(28, 73, 48, 1_730),
    "SendMessageBatch": Most(33, 88, 116, 4_900),
    "ReceiveMessage, ten": Most(34, 109, 107, 4_060),
    "DeleteMessageBatch": Most(31, 77, 62, 3_350),
    "SendMessage, alone": Most(30, 78, 131, 3_620),
    "DeleteMessage, alone": Most(28, 70, 109, 3_180),
}


class Walk:
    """Counts the functions that are entered and their opcodes, but not those of tests and asyncio.

    Functions of ours are named, comprehensions and lambdas apart.
    """

    def __init__(self, requests: int) -> None:
        self.requests = requests
        self.entered: Counter[tuple[str, str]] = Counter()
        self.opcodes: Counter[str] = Counter()
        self.frames = 0

    def __enter__(self) -> Self:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, *_: object) -> Any:
        code = frame.f_code
        if code.co_filename.endswith(OTHERS) or _is_in_tick(frame):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        self.frames += 1
        if code.co_filename.startswith(APP) and not code.co_name.startswith("<"):
            self.entered[code.co_filename, code.co_qualname] += 1
        return self._step

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            self.opcodes[frame.f_code.co_qualname] += 1
        return self._step

    def count(self, function: str) -> int:
        return sum(count for (_, name), count in self.entered.items() if name == function)

    def summary(self) -> Most:
        """Return what a request takes."""
        files = {file for file, _ in self.entered}
        frames, opcodes = self.frames / self.requests, self.opcodes.total() / self.requests
        return Most(len(files), len(self.entered), frames, opcodes)

    def report(self) -> str:
        """Return the opcodes of each function, the largest first."""
        each = self.opcodes.most_common()
        return "\n".join(f"{count / self.requests:8.1f}  {name}" for name, count in each)


def _is_in_tick(frame: FrameType | None) -> bool:
    """Return whether the door's tick called it: four times a second, whatever the requests."""
    while frame is not None and not frame.f_code.co_qualname.startswith("Door._tick"):
        frame = frame.f_back
    return frame is not None


def written(action: str, number: int, parameters: dict[str, Any], *, is_signed: bool) -> bytes:
    """Return the bytes of a request; `number` is different for each."""
    body = json.dumps({"QueueUrl": URL, **parameters}).encode()
    headers = {"Host": "localhost:9324", **target(action), "Content-Length": str(len(body))}
    each = ""
    if is_signed:
        headers |= SIGNED
        each = EACH.format(number, number % 60, number)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.1\r\n{lines}{each}\r\n".encode() + body


async def answer(client: socket.socket) -> bytes:
    """Return the body of the answer that a client gets."""
    loop, found, size = asyncio.get_running_loop(), b"", -1
    while len(found) != size:
        found += await loop.sock_recv(client, 65_536)
        head, end, _ = found.partition(b"\r\n\r\n")
        if end:
            assert head.startswith(b"HTTP/1.1 200 "), found
            size = len(head + end) + int(head.partition(b"content-length: ")[2].split()[0])
    return found.partition(b"\r\n\r\n")[2]


class Crowd:
    """Clients of a door that ask at the same time."""

    def __init__(self, clients: list[socket.socket]) -> None:
        self._clients = clients
        self._number = 0
        self._handles: list[list[str]] = [[] for _ in clients]

    async def ask(self, name: str, *, is_walked: bool) -> Walk:
        """Return what a request of each client takes, or one of the first alone."""
        action, _, kind = name.partition(", ")
        clients = self._clients[:1] if kind == "alone" else self._clients
        walk = Walk(len(clients))
        walked: AbstractContextManager[object] = walk if is_walked else nullcontext()
        requests = []
        for handles in self._handles[: len(clients)]:
            self._number += 1
            parameters = _parameters(action, kind, handles)
            requests.append(written(action, self._number, parameters, is_signed=kind == "signed"))
        with walked:
            for client, each in zip(clients, requests, strict=True):
                client.sendall(each)
            answers = [await answer(client) for client in clients]
        for handles, body in zip(self._handles, answers, strict=False):
            found = json.loads(body or "{}")
            if "Messages" in found:
                handles[:] = [each["ReceiptHandle"] for each in found["Messages"]]
            assert "Failed" not in found
        return walk


def _parameters(action: str, kind: str, handles: list[str]) -> dict[str, Any]:
    match action:
        case "SendMessage":
            return {"MessageBody": BODY}
        case "SendMessageBatch":
            return {"Entries": [{"Id": str(n), "MessageBody": BODY} for n in range(10)]}
        case "ReceiveMessage":
            return {"MaxNumberOfMessages": 10} if kind == "ten" else {}
        case "ChangeMessageVisibility":
            return {"ReceiptHandle": handles[0], "VisibilityTimeout": 30}
        case "DeleteMessage":
            return {"ReceiptHandle": handles[0]}
    return {"Entries": [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(handles)]}


async def walk(url: str) -> dict[str, Walk]:
    """Return what each action takes, the least of several, once all of them are warm."""
    node = Node(Settings(), as_node(url), Metrics())
    await node.open()
    broker = Broker(node)
    await broker.answer(request("CreateQueue", QueueName="orders"))
    door = Door(broker, list, 2 * CLIENTS)
    walks: dict[str, Walk] = {}
    with socket.create_server(("127.0.0.1", 0), backlog=CLIENTS) as listening:
        await door.listen(listening)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(CLIENTS)]
        for client in clients:
            client.settimeout(0)
        crowd = Crowd(clients)
        try:
            for turn in range(6):
                for name in MOST:
                    found = await crowd.ask(name, is_walked=turn > 2)
                    least = walks.get(name, found).opcodes.total()
                    if turn > 2 and found.opcodes.total() <= least:
                        walks[name] = found
        finally:
            for client in clients:
                client.close()
            door.drain()
            await door.close(10)
            await node.close()
    return walks


@pytest.fixture(scope="module")
def walks(embedded_databases: Databases) -> Iterator[dict[str, Walk]]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.run(walk(embedded_databases.migrated()))


@pytest.mark.parametrize("name", MOST)
def test_request_takes_little_code(walks: dict[str, Walk], name: str) -> None:
    found, most = walks[name].summary(), MOST[name]
    # Shown if the test fails, or by pytest -rP.
    print(name, found, walks[name].report(), sep="\n")  # noqa: T201

    assert found.files <= most.files
    assert found.functions <= most.functions
    assert found.frames <= most.frames
    assert found.opcodes <= most.opcodes


@pytest.mark.parametrize("name", MOST)
def test_request_looks_its_queue_up_once(walks: dict[str, Walk], name: str) -> None:
    assert walks[name].count("Queues.known") == walks[name].requests


def test_the_readme_walks_through_these_files_and_no_others(walks: dict[str, Walk]) -> None:
    text = (Path(APP).parent / "README.md").read_text()
    named = re.findall(r"^\| `([a-z_/]+\.py)` \|", text, re.MULTILINE)

    entered = {file.removeprefix(f"{APP}/") for file, _ in walks["SendMessage"].entered}

    assert sorted(named) == sorted(entered)

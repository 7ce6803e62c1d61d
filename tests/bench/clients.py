"""Clients on one event loop: sends at a fixed rate, wake-ups, and thousands that wait or stall."""

import asyncio
import json
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from statistics import quantiles
from typing import Any, Literal, Self

from bench.load import Failed
from bench.machine import FOLDER
from bench.wire import PATIENCE, Client, request

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LONGEST_POLL = 20
_CONNECTIONS = 32
# What is refused is refused by then, and no poll has ended.
_SETTLED = 2
# Fewer than the backlog of any listener here: a connection that finds it full comes a second later.
_AT_ONCE = 50
# Room for the files of a process besides its clients.
_FILES = 200


def percentile(samples: Sequence[float], percent: int) -> float:
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


async def _connect(url: str) -> Streams:
    host, _, port = url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(PATIENCE):
        return await asyncio.open_connection(host, int(port))


async def answered(streams: Streams, question: bytes) -> bytes:
    """Send a request on a kept connection; return the body of its response.

    Raises Failed.
    """
    reader, writer = streams
    writer.write(question)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    _, found, length = head.partition("content-length:")
    body = await reader.readexactly(int(length.split("\r\n")[0])) if found else b""
    if head.split(" ", 2)[1] != "200":
        raise Failed(f"{head.splitlines()[0]} {body[:200].decode(errors='replace')}")
    return body


def sends(url: str, queue: str, rate: int, seconds: float) -> list[float]:
    """Send at a fixed rate; return each send's milliseconds from when it was due.

    An open loop: the times of the sends are fixed before the first, so that a stall counts for all
    sends that it held up. A closed loop would leave those out (coordinated omission).
    """
    question = request(url, "SendMessage", QueueUrl=queue, MessageBody="x" * 256)
    return asyncio.run(_sends(url, question, rate, int(rate * seconds)))


async def _sends(url: str, question: bytes, rate: int, number: int) -> list[float]:
    idle: asyncio.Queue[Streams] = asyncio.Queue()
    async with asyncio.timeout(number / rate + PATIENCE):
        for _ in range(_CONNECTIONS):
            idle.put_nowait(await _connect(url))
        loop = asyncio.get_running_loop()
        start = loop.time() + 0.05

        async def send(due: float) -> float:
            await asyncio.sleep(due - loop.time())
            streams = await idle.get()
            await answered(streams, question)
            idle.put_nowait(streams)
            return (loop.time() - due) * 1e3

        try:
            return list(await asyncio.gather(*(send(start + n / rate) for n in range(number))))
        finally:
            while not idle.empty():
                idle.get_nowait()[1].close()


def wake_ups(sender_url: str, receiver_url: str, queue: str, samples: int) -> list[float]:
    """Return milliseconds from a send to the response that a waiting receiver gets.

    Each receiver waits for a random time before the message is sent.
    """
    with closing(Client(sender_url)) as client:
        # The sender's node looks the queue up before.
        client.call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=0)
    return asyncio.run(_wake_ups(sender_url, receiver_url, queue, samples))


async def _wake_ups(sender_url: str, receiver_url: str, queue: str, samples: int) -> list[float]:
    loop = asyncio.get_running_loop()
    sender, receiver = await _connect(sender_url), await _connect(receiver_url)
    poll = request(receiver_url, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST_POLL)
    message = request(sender_url, "SendMessage", QueueUrl=queue, MessageBody="wake up")

    async def receive() -> tuple[float, dict[str, Any]]:
        body = await answered(receiver, poll)
        return loop.time(), json.loads(body)

    found = []
    try:
        for _ in range(samples):
            async with asyncio.timeout(PATIENCE):
                receiving = asyncio.create_task(receive())
                await asyncio.sleep(random.uniform(0.1, 0.2))  # noqa: S311 - no secret.
                sent = loop.time()
                await answered(sender, message)
                at, response = await receiving
                if not response.get("Messages"):
                    raise Failed("a waiting receiver was not given the message")
                handle = response["Messages"][0]["ReceiptHandle"]
                settle = request(sender_url, "DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
                await answered(sender, settle)
            found.append((at - sent) * 1e3)
    finally:
        for _, writer in (sender, receiver):
            writer.close()
    return found


def one_after_another(url: str, queue: str, seconds: float) -> dict[str, list[float]]:
    """Return the milliseconds of each send, receive and delete of one client on one connection."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    ends = time.perf_counter() + seconds
    found: dict[str, list[float]] = {"send": [], "receive": [], "delete": []}
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < ends:
            send = request(url, "SendMessage", QueueUrl=queue, MessageBody="x" * 256)
            found["send"].append(_timed(connection, send)[0])
            took, body = _timed(connection, request(url, "ReceiveMessage", QueueUrl=queue))
            found["receive"].append(took)
            (message,) = json.loads(body)["Messages"]
            handle = message["ReceiptHandle"]
            delete = request(url, "DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
            found["delete"].append(_timed(connection, delete)[0])
    return found


def _timed(connection: socket.socket, question: bytes) -> tuple[float, bytes]:
    """Send a request; return how many milliseconds its answer took, and the answer's body."""
    began = time.perf_counter()
    connection.sendall(question)
    answer = connection.recv(65_536)
    while (head := answer.find(b"\r\n\r\n")) < 0:
        answer += connection.recv(65_536)
    lines = answer[:head].lower().split(b"\r\n")
    if not lines[0].endswith(b" 200 ok"):
        raise Failed(answer[:300].decode(errors="replace"))
    length = next(int(line[16:]) for line in lines if line.startswith(b"content-length: "))
    while len(answer) < head + 4 + length:
        answer += connection.recv(65_536)
    return 1e3 * (time.perf_counter() - began), answer[head + 4 :]


class Crowd:
    """Thousands of clients in a process of their own, for as long as its block.

    Entering raises Failed when one was refused, leaving when one failed meanwhile. Of those that
    wait, each has a connection of its own and asks again when its long poll ends, which must not be
    early. Those that stall send one byte of a body, those that are half open half of the headers;
    one that is cut off connects again.
    """

    def __init__(
        self, kind: Literal["wait", "stall", "half-open"], url: str, number: int, *queues: str
    ) -> None:
        self.number = number
        # How many were cut off; known after the block.
        self.ended = 0
        words = [sys.executable, "-m", "bench.clients", kind, url, str(number), *queues]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, cwd=FOLDER.parent, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise self._failed(self._process.communicate()[1])
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        output, errors = self._process.communicate()
        if self._process.returncode and kind is None:
            raise self._failed(errors)
        self.ended = int(output or 0)

    def _failed(self, errors: str) -> Failed:
        return Failed(f"{self.number:,} clients: {' '.join(errors.split())[-300:]}")


def raise_file_limit(files: int) -> None:
    """Let this process and those that it starts open so many files.

    Raises Failed when the system forbids it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files + _FILES:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files + _FILES, max(hard, files + _FILES)))
        except (OSError, ValueError) as error:
            raise Failed(f"{files:,} connections need a higher limit of open files") from error


async def _wait(url: str, queue: str, connected: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    question = request(url, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST_POLL)
    streams = await _connect(url)
    connected()
    while True:
        asked = loop.time()
        await answered(streams, question)
        if loop.time() - asked < LONGEST_POLL - 1:
            raise Failed("a long poll was not left waiting")


async def _stall(
    kind: str, url: str, connected: Callable[[], None], ended: Callable[[], None]
) -> None:
    head, _, _ = request(url, "SendMessage", MessageBody="x" * 1000).partition(b"\r\n\r\n")
    while True:
        reader, writer = await _connect(url)
        writer.write(head + b"\r\n\r\n{" if kind == "stall" else head[: len(head) // 2])
        connected()
        # Until the server ends it: by a response, or by a reset.
        with suppress(ConnectionResetError):
            while await reader.read(1000):
                pass
        ended()
        writer.close()


async def _run(kind: str, url: str, number: int, queues: Sequence[str]) -> None:
    left, cut = number, 0
    places, complete = asyncio.Semaphore(_AT_ONCE), asyncio.Event()

    def connected() -> None:
        nonlocal left
        left -= 1
        places.release()
        if left == 0:
            complete.set()

    def ended() -> None:
        nonlocal cut
        cut += 1

    async with asyncio.TaskGroup() as group:
        tasks = []
        for n in range(number):
            await places.acquire()
            client = (
                _wait(url, queues[n % len(queues)], connected)
                if kind == "wait"
                else _stall(kind, url, connected, ended)
            )
            tasks.append(group.create_task(client))
        await complete.wait()
        await asyncio.sleep(_SETTLED)
        print("ready", flush=True)  # noqa: T201 - read by Crowd.
        await asyncio.to_thread(sys.stdin.read)
        print(cut, flush=True)  # noqa: T201
        for task in tasks:
            task.cancel()


def _main(kind: str, url: str, number: str, *queues: str) -> None:
    raise_file_limit(int(number))
    try:
        asyncio.run(_run(kind, url, int(number), queues))
    except* (OSError, EOFError, Failed) as group:
        sys.exit(f"{len(group.exceptions)} errors, the first: {group.exceptions[0]}")


if __name__ == "__main__":
    _main(*sys.argv[1:])

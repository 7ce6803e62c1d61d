"""How long requests take: sends at a fixed rate, and from a send to the receiver that waits."""

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from statistics import quantiles

from bench.load import Failed
from bench.programs import FOLDER
from bench.wire import PATIENCE, Client, request

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_CONNECTIONS = 32
LONGEST_POLL = 20


def percentile(samples: Sequence[float], percent: int) -> float:
    return quantiles(samples, n=100, method="inclusive")[percent - 1]


async def answered(streams: Streams, question: bytes) -> bytes:
    """Send a request on a kept connection; return the body of its answer.

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

    An open loop: the times of the sends are fixed before the first, so that a send that finds the
    broker, or every connection, busy is not sent later at the cost of nobody. A closed loop would
    leave out what all those had to wait that it did not send meanwhile (coordinated omission).
    """
    question = request(url, "SendMessage", QueueUrl=queue, MessageBody="x" * 256)
    return asyncio.run(_sends(url, question, rate, int(rate * seconds)))


async def _sends(url: str, question: bytes, rate: int, number: int) -> list[float]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    idle: asyncio.Queue[Streams] = asyncio.Queue()
    for _ in range(_CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection(host, int(port)))
    loop = asyncio.get_running_loop()
    start = loop.time() + 0.05

    async def send(due: float) -> float:
        await asyncio.sleep(due - loop.time())
        streams = await idle.get()
        await answered(streams, question)
        idle.put_nowait(streams)
        return (loop.time() - due) * 1e3

    try:
        async with asyncio.timeout(number / rate + PATIENCE):
            return list(await asyncio.gather(*(send(start + n / rate) for n in range(number))))
    finally:
        while not idle.empty():
            idle.get_nowait()[1].close()


@contextmanager
def parked(url: str, queue: str, polls: int) -> Iterator[None]:
    """Keep so many long polls waiting, from a process of its own.

    Raises Failed when one was not left waiting.
    """
    words = [sys.executable, "-m", "bench.parked", url, queue, str(polls)]
    process = subprocess.Popen(
        words, cwd=FOLDER.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "parked\n":
                raise Failed(f"long polls: {' '.join(process.communicate()[1].split())[-300:]}")
            yield
            if process.poll() is not None:
                raise Failed(f"long polls: {' '.join(process.communicate()[1].split())[-300:]}")
        finally:
            process.kill()


def wake_ups(sender_url: str, receiver_url: str, queue: str, samples: int) -> list[float]:
    """Return milliseconds from a send to the answer that a waiting receiver gets.

    Each receiver waits for some time, which is not always the same, before the message is sent.
    """
    with ExitStack() as stack:
        sender = stack.enter_context(closing(Client(sender_url)))
        receiver = stack.enter_context(closing(Client(receiver_url)))
        sender.call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=0)
        return [_wake_up(sender, receiver, queue) for _ in range(samples)]


def _wake_up(sender: Client, receiver: Client, queue: str) -> float:
    answers: list[tuple[float, str]] = []

    def receive() -> None:
        answer = receiver.call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST_POLL)
        if messages := answer.get("Messages"):
            answers.append((time.perf_counter(), messages[0]["ReceiptHandle"]))

    thread = threading.Thread(target=receive)
    thread.start()
    time.sleep(random.uniform(0.1, 0.2))  # noqa: S311 - no secret.
    sent = time.perf_counter()
    sender.call("SendMessage", QueueUrl=queue, MessageBody="wake up")
    thread.join(PATIENCE)
    if not answers:
        raise Failed("a waiting receiver was not given the message")
    at, handle = answers[0]
    sender.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    return (at - sent) * 1e3

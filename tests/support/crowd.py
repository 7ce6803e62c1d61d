"""Crowds of receivers: raw requests from one thread, as many as there are files to open."""

import asyncio
import resource
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec

from support.http import NodeProcess, eventually

PATIENCE = 60
# Seconds that a receive may wait.
LONGEST = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer on the JSON wire, and how long it took."""

    status: int
    headers: dict[str, str]
    result: dict[str, Any]
    seconds: float

    @property
    def bodies(self) -> list[str]:
        return [message["Body"] for message in self.result.get("Messages", [])]


async def ask(node: NodeProcess, action: str, **parameters: Any) -> Reply:
    """Make one request on a connection of its own."""
    began = monotonic()
    body = msgspec.json.encode(parameters)
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    try:
        head = (
            f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{node.port}\r\nContent-Length: {len(body)}\r\n"
            f"X-Amz-Target: AmazonSQS.{action}\r\nContent-Type: application/x-amz-json-1.0\r\n\r\n"
        )
        writer.write(head.encode() + body)
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        answer = await reader.readexactly(int(headers["content-length"]))
    finally:
        writer.close()
    result = msgspec.json.decode(answer) if answer else {}
    return Reply(int(status.split()[1]), headers, result, monotonic() - began)


async def _receive(node: NodeProcess, queue: str) -> Reply:
    """Wait for a message; who has waited in vain for as long as one may asks again."""
    while True:
        reply = await ask(node, "ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=LONGEST)
        if reply.status != 200 or reply.bodies or reply.seconds < LONGEST - 1:
            return reply


class Crowd:
    """Receivers that wait on one queue, the first on the first node, the next on the next."""

    def __init__(self, nodes: list[NodeProcess], queue: str, size: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = size + 500
        if soft != resource.RLIM_INFINITY and soft < needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        self._nodes = nodes
        self._tasks = [
            asyncio.create_task(_receive(nodes[n % len(nodes)], queue)) for n in range(size)
        ]

    async def parked(self) -> None:
        """Wait until all of them wait at their nodes."""
        share = len(self._tasks) // len(self._nodes)

        def all_wait() -> bool:
            return all(waiting(node) >= share for node in self._nodes)

        await asyncio.to_thread(eventually, all_wait, PATIENCE, "every receiver waits")

    async def answered(self, enough: Callable[[list[Reply]], bool]) -> list[Reply]:
        """Return the replies so far, once they are enough; fail when that does not happen."""
        async with asyncio.timeout(PATIENCE):
            while not enough(replies := self.replies()):
                pending = [task for task in self._tasks if not task.done()]
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        return replies

    def replies(self) -> list[Reply]:
        return [task.result() for task in self._tasks if task.done()]

    async def leave(self) -> None:
        """Hang up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def waiting(node: NodeProcess) -> float:
    """Return how many receivers wait at a node."""
    return node.metric("skipmq_waiting_receivers")


def bodies(replies: list[Reply]) -> list[str]:
    """Return what was received, in all replies; fail when one is an error or has no message."""
    for reply in replies:
        assert reply.status == 200, reply
        assert reply.bodies, reply
    return [body for reply in replies for body in reply.bodies]

"""Receivers that hang up: with a close, a reset, or a half-close and an ear for what comes."""

import contextlib
import http.client
import json
import socket
import struct
import time
import urllib.request
from threading import Lock
from typing import Any

import psycopg

from bench.wire import request
from concurrency.clients import ATTRIBUTES, Consumer, World, url

_PATIENCE = 20
# Long enough for what was claimed to be given back, however slow the machine is.
_HIDDEN = 10


class Leaver(Consumer):
    """Leaves while its receive runs: what was claimed may just have been sent to it."""

    def run(self) -> None:
        while self.world.open():
            self.nap(1)
            queue = self.a_queue_or_its_dead()
            begun = time.monotonic()
            number, asker = self.asked(queue, wait=self.chance.choice([0, 0, 1, 20]), timeout=3)
            if asker is None:
                continue
            self.nap(self.chance.choice([0.005, 0.05, 0.5]))
            way = self.chance.choice([half_close, close, reset, mid_answer])
            answer = way(asker)
            if answer is None:
                self.note("leave", begun, "info", queue, value=str(number), visibility=3)
            else:
                self.note_received(begun, queue, 3, answer)
        self.close()

    def asked(self, queue: str, wait: int, timeout: int) -> tuple[int, socket.socket | None]:
        """Send a receive; return the number of its node and the connection, if there is one."""
        number = self.chance.randrange(len(self.world.nodes))
        node = self.world.nodes[number]
        question = request(
            node.url,
            "ReceiveMessage",
            QueueUrl=url(queue),
            MaxNumberOfMessages=self.chance.randint(1, 3),
            WaitTimeSeconds=wait,
            VisibilityTimeout=timeout,
            MessageSystemAttributeNames=ATTRIBUTES,
        )
        try:
            asker = socket.create_connection(("127.0.0.1", node.port), timeout=_PATIENCE)
            asker.sendall(question)
        except OSError:
            return number, None
        return number, asker


class SureLeaver(Leaver):
    """Leaves while the claims are held up, and lets them go on when the nodes know of it.

    For that it locks the whole table of messages, and asks each node twice whether it lives: what
    a node answers then it answers after it has seen who is gone.
    """

    def __init__(self, world: World, name: str, one_at_a_time: Lock) -> None:
        super().__init__(world, name)
        self._one_at_a_time = one_at_a_time

    def run(self) -> None:
        with psycopg.connect(self.world.database) as holder:
            while self.world.open():
                self.nap(2)
                with self._one_at_a_time:
                    self._leave_all(holder)
        self.close()

    def _leave_all(self, holder: psycopg.Connection[Any]) -> None:
        try:
            holder.execute("set local lock_timeout = '1s'")
            holder.execute("lock table skipmq.message in access exclusive mode")
        except psycopg.errors.LockNotAvailable:
            holder.rollback()
            return
        askers = []
        for _ in range(4):
            queue, begun = self.a_queue_or_its_dead(), time.monotonic()
            wait = self.chance.choice([0, 20])
            askers.append((queue, begun, *self.asked(queue, wait, timeout=_HIDDEN)))
        time.sleep(0.1)
        answers = [None if asker is None else half_close(asker) for *_, asker in askers]
        known = [self._has_noticed(number) for number in range(len(self.world.nodes))]
        holder.rollback()
        for (queue, begun, number, asker), answer in zip(askers, answers, strict=True):
            if answer:
                self.note_received(begun, queue, _HIDDEN, answer)
            elif asker is not None:
                outcome = "ok" if known[number] else "info"
                self.note("leave", begun, outcome, queue, value=str(number), visibility=_HIDDEN)

    def _has_noticed(self, number: int) -> bool:
        try:
            for _ in range(2):
                address = f"{self.world.nodes[number].url}/health/live"
                with urllib.request.urlopen(address, timeout=_PATIENCE) as response:
                    response.read()
        except OSError:
            return False
        return True


def close(asker: socket.socket) -> None:
    asker.close()


def reset(asker: socket.socket) -> None:
    asker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    asker.close()


def mid_answer(asker: socket.socket) -> None:
    """Go when the first byte of the answer is there."""
    with contextlib.suppress(OSError):
        asker.settimeout(1)
        asker.recv(1)
    reset(asker)


def half_close(asker: socket.socket) -> dict[str, Any] | None:
    """End the writing side; return the answer, if one came all the same."""
    with asker:
        try:
            asker.shutdown(socket.SHUT_WR)
            response = http.client.HTTPResponse(asker)
            response.begin()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        if response.status != http.client.OK:
            return None
        answer: dict[str, Any] = json.loads(body or b"{}")
        return answer

"""Those who receive."""

import hashlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cluster.client import Client, Refused, Unknown
from cluster.history import History, Op, Type
from cluster.producers import failed
from cluster.queues import Queue, value_of

_ATTRIBUTES = ["ApproximateReceiveCount", "MessageGroupId", "SequenceNumber"]
_TIMEOUTS = (2, 4)
_LONGEST_WAIT = 1
# After a receive that failed, as every SDK makes one.
_PAUSE = 0.2

Received = tuple[Op, str]


class Consumer:
    """Receives, and does with what it has received one of many things."""

    def __init__(
        self, endpoint: str, history: History, queue: Queue, url: str, name: str, *, seed: int
    ) -> None:
        self._client = Client(endpoint)
        self._history = history
        self._queue = queue
        self._url = url
        self._name = name
        self._chance = random.Random(f"{seed} {name}")  # noqa: S311 - no secret.
        self._ways: dict[Callable[[Sequence[Received]], None], int] = {
            self._delete: 70,
            self._delete_after_a_while: 6,
            self._delete_half: 8,
            self._show: 6,
            self._hide: 5,
            self._let_pass: 5,
        }

    def run(self, draining: threading.Event, done: threading.Event) -> None:
        """Receive until all is done; when draining, delete whatever comes."""
        while not done.is_set():
            received = self._receive()
            if not received:
                continue
            (way,) = self._chance.choices([*self._ways], [*self._ways.values()])
            (self._delete if draining.is_set() else way)(received)
        self._client.close()

    def _receive(self) -> list[Received]:
        timeout = self._chance.choice(_TIMEOUTS)
        outcome: Type = "ok"
        error, messages = "", []
        begun = time.monotonic()
        try:
            messages = self._client.call(
                "ReceiveMessage",
                QueueUrl=self._url,
                MaxNumberOfMessages=self._chance.randint(1, 10),
                WaitTimeSeconds=_LONGEST_WAIT,
                VisibilityTimeout=timeout,
                MessageSystemAttributeNames=_ATTRIBUTES,
            ).get("Messages", [])
        except Refused as refused:
            outcome, error = "fail", str(refused)
        except Unknown as unknown:
            outcome, error = "info", str(unknown)
        ended = time.monotonic()
        receive = Op("receive", outcome, self._name, begun, ended, self._queue.name, error=error)
        found = [
            (_of(receive, place, message, timeout), message["ReceiptHandle"])
            for place, message in enumerate(messages)
        ]
        self._history.add(*([op for op, _ in found] or [receive]))
        if outcome != "ok":
            time.sleep(_PAUSE)
        return found

    def _delete(self, received: Sequence[Received]) -> None:
        unknown = self._each("delete", "DeleteMessageBatch", received)
        self._each("delete", "DeleteMessageBatch", unknown)

    def _delete_after_a_while(self, received: Sequence[Received]) -> None:
        time.sleep(self._chance.uniform(0.1, 1.5))
        self._delete(received)

    def _delete_half(self, received: Sequence[Received]) -> None:
        self._delete(received[: (len(received) + 1) // 2])

    def _show(self, received: Sequence[Received]) -> None:
        self._each("hide", "ChangeMessageVisibilityBatch", received, VisibilityTimeout=0)

    def _hide(self, received: Sequence[Received]) -> None:
        self._each(
            "hide",
            "ChangeMessageVisibilityBatch",
            received,
            VisibilityTimeout=self._chance.choice((1, 5)),
        )

    def _let_pass(self, received: Sequence[Received]) -> None:
        """Do nothing: they come again by themselves."""

    def _each(
        self, kind: str, action: str, received: Sequence[Received], **more: int
    ) -> list[Received]:
        """Do something to each message; return those where nobody knows the outcome."""
        if not received:
            return []
        entries = [
            {"Id": str(place), "ReceiptHandle": handle, **more}
            for place, (_, handle) in enumerate(received)
        ]
        begun = time.monotonic()
        try:
            answer = self._client.call(action, QueueUrl=self._url, Entries=entries)
            outcomes = {
                one["Id"]: {"type": "ok", "error": ""} for one in answer.get("Successful", [])
            }
            outcomes |= {one["Id"]: failed(one) for one in answer.get("Failed", [])}
        except Refused as error:
            outcomes = {entry["Id"]: {"type": "fail", "error": str(error)} for entry in entries}
        except Unknown as error:
            outcomes = {entry["Id"]: {"type": "info", "error": str(error)} for entry in entries}
        ended = time.monotonic()
        ops = [
            replace(
                op,
                op=kind,
                t_invoke=begun,
                t_ok=ended,
                visibility=more.get("VisibilityTimeout", 0),
                place=place,
                **outcomes[str(place)],
            )
            for place, (op, _) in enumerate(received)
        ]
        self._history.add(*ops)
        return [one for one, op in zip(received, ops, strict=True) if op.type == "info"]


def _of(receive: Op, place: int, message: dict[str, Any], timeout: int) -> Op:
    attributes = message["Attributes"]
    return replace(
        receive,
        place=place,
        group=attributes.get("MessageGroupId", ""),
        value=value_of(message["Body"]),
        message_id=message["MessageId"],
        # Handles are long, and only ever compared.
        receipt=hashlib.blake2b(message["ReceiptHandle"].encode(), digest_size=8).hexdigest(),
        sequence_number=int(attributes.get("SequenceNumber", 0)),
        receive_count=int(attributes["ApproximateReceiveCount"]),
        visibility=timeout,
    )

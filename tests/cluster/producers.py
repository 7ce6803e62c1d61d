"""Those who send."""

import random
import threading
import time
from collections.abc import Sequence
from typing import Any

from cluster.client import Client, Refused, Unknown
from cluster.history import History, Op
from cluster.queues import Queue, body
from cluster.sns import HEADS, arn, form

# Of a FIFO queue: how often all of its producers send the same, and how often one sends again what
# was answered already.
_COMMON, _AGAIN = 0.1, 0.15
# How far back that is, in sends: far less than the five minutes of deduplication.
_RECENT = 200


class Producer:
    """Sends values that are its name and a number, each until somebody knows the outcome.

    A standard queue knows no duplicates: there what is unknown stays so, and no value goes twice.
    """

    def __init__(
        self,
        endpoint: str,
        history: History,
        queue: Queue,
        url: str,
        name: str,
        *,
        seed: int,
        rate: float,
    ) -> None:
        self._client = Client(endpoint)
        self._history = history
        self._queue = queue
        self._url = url
        self._name = name
        self._rate = rate
        self._chance = random.Random(f"{seed} {name}")  # noqa: S311 - no secret.
        self._next = 0
        self._next_common = 0
        self._answered: list[str] = []
        self._unknown: list[str] = []

    def run(self, stop: threading.Event) -> None:
        """Send until told to stop."""
        while not stop.is_set():
            values = self._values()
            self._send(values)
            stop.wait(self._chance.expovariate(self._rate / len(values)))
        self._client.close()

    def _values(self) -> list[str]:
        number = self._chance.randint(1, 10)
        if not self._queue.fifo:
            return [self._new() for _ in range(number)]
        values = self._unknown[:number]
        recent = self._answered[-_RECENT:]
        while len(values) < number:
            way = self._chance.random()
            if way < _COMMON:
                self._next_common += 1
                value = f"common-{self._next_common}"
            elif way < _COMMON + _AGAIN and recent:
                value = self._chance.choice(recent)
            else:
                value = self._new()
            values.append(value)
        return list(dict.fromkeys(values))

    def _new(self) -> str:
        self._next += 1
        return f"{self._name}-{self._next}"

    def _group(self, value: str) -> str:
        if not self._queue.fifo:
            return ""
        return f"group-{int(value.rpartition('-')[2]) % self._queue.groups}"

    def _send(self, values: Sequence[str]) -> None:
        begun = time.monotonic()
        answers = self._answers(values)
        ended = time.monotonic()
        self._history.add(
            *(
                Op(
                    "send",
                    process=self._name,
                    t_invoke=begun,
                    t_ok=ended,
                    queue=queue,
                    group=self._group(value),
                    value=value,
                    place=place,
                    **answer,
                )
                for queue in (self._queue.name, *self._queue.copies)
                for place, (value, answer) in enumerate(zip(values, answers, strict=True))
            )
        )
        if self._queue.fifo:
            for value, answer in zip(values, answers, strict=True):
                if answer["type"] == "ok":
                    self._answered.append(value)
                    if value in self._unknown:
                        self._unknown.remove(value)
                elif value not in self._unknown:
                    self._unknown.append(value)

    def _answers(self, values: Sequence[str]) -> list[dict[str, Any]]:
        """Send; return for each what is to be noted of its outcome."""
        entries = [self._entry(value) for value in values]
        try:
            if len(entries) == 1:
                answer = self._client.call("SendMessage", QueueUrl=self._url, **entries[0])
                return [_acknowledged(answer)]
            entries = [{"Id": str(place), **entry} for place, entry in enumerate(entries)]
            answer = self._client.call("SendMessageBatch", QueueUrl=self._url, Entries=entries)
        except Refused as error:
            return [{"type": "fail", "error": str(error)}] * len(values)
        except Unknown as error:
            return [{"type": "info", "error": str(error)}] * len(values)
        found = {one["Id"]: _acknowledged(one) for one in answer.get("Successful", [])}
        found |= {one["Id"]: failed(one) for one in answer.get("Failed", [])}
        return [found[entry["Id"]] for entry in entries]

    def _entry(self, value: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"MessageBody": body(value)}
        if self._queue.fifo:
            entry |= {"MessageGroupId": self._group(value), "MessageDeduplicationId": value}
        return entry


class Publisher(Producer):
    """Sends through the topic that its URL names, a message at a time, to several queues."""

    def _values(self) -> list[str]:
        return super()._values()[:1]

    def _answers(self, values: Sequence[str]) -> list[dict[str, Any]]:
        (value,) = values
        question = form(
            "Publish",
            TopicArn=arn(self._url),
            Message=body(value),
            MessageGroupId=self._group(value),
            MessageDeduplicationId=value,
        )
        try:
            self._client.post(question, HEADS)
        except Refused as error:
            return [{"type": "fail", "error": str(error)}]
        except Unknown as error:
            return [{"type": "info", "error": str(error)}]
        return [{"type": "ok"}]


def _acknowledged(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "ok",
        "message_id": answer["MessageId"],
        "sequence_number": int(answer.get("SequenceNumber", 0)),
    }


def failed(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be noted of an entry of a batch that was not done."""
    refused = answer["SenderFault"]
    return {
        "type": "fail" if refused else "info",
        "error": f"{answer['Code']}: {answer['Message']}",
    }

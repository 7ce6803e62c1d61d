"""The queues and topics of a history: plain ones, or with what its seed draws for each."""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster import sns
from support.http import ACCOUNT
from support.inbox import RAW

_GROUPS = 2
# What filter policies ask for.
KINDS = ("a", "b")
# A body ends in its priority and its kind, where it has them.
_BODY = re.compile(r"[\w-]+(?:!(\d))?(?:/(\w))?")
# Small enough for the clients of a history to reach them, large enough to end it.
_LIMITS = (
    {"MaximumInFlight": "4"},
    {"MaximumInFlight": "6", "MaximumInFlightPerGroup": "1"},
    {"MaximumInFlightPerGroup": "2"},
    {"MaximumReceiveRate": "25", "ReceiveBurst": "5"},
    {"MaximumReceiveRatePerGroup": "15", "ReceiveBurst": "3"},
    {"MaximumInFlight": "8", "MaximumReceiveRate": "40", "ReceiveBurst": "8"},
)
_BACKOFF = {"RetryBackoff": '{"base": 1, "factor": 2, "maximum": 2, "jitter": 0.2}'}


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, and the dead-letter queue of what was received too often."""

    name: str
    dead: str = ""
    most: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def deduplicates(self) -> bool:
        return self.fifo or "DeduplicationSeconds" in self.attributes

    def a_group(self, chance: random.Random) -> str:
        groups = [f"g{number}" for number in range(_GROUPS)]
        if self.fifo:
            return chance.choice(groups)
        return chance.choice([*groups, ""]) if self.attributes else ""

    def ending(self, chance: random.Random) -> str:
        return f"!{chance.randrange(10)}" if "PriorityMode" in self.attributes else ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the kind of messages that each queue gets, or all."""

    name: str
    queues: Mapping[str, str]

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    @property
    def deduplicates(self) -> bool:
        return self.fifo

    @property
    def arn(self) -> str:
        return sns.arn(self.name)

    def a_group(self, chance: random.Random) -> str:
        return f"g{chance.randrange(_GROUPS)}" if self.fifo else chance.choice(["g0", ""])

    def ending(self, chance: random.Random) -> str:
        return f"!{chance.randrange(10)}/{chance.choice(KINDS)}"


def priority_of(value: str) -> int | None:
    found = _BODY.fullmatch(value)
    return int(found[1]) if found and found[1] else None


def kind_of(value: str) -> str:
    found = _BODY.fullmatch(value)
    return (found[2] or "") if found else ""


def attributes_of(value: str) -> dict[str, dict[str, str]]:
    """Return the message attributes that a body stands for."""
    found: dict[str, dict[str, str]] = {}
    if (priority := priority_of(value)) is not None:
        found["SkipMQ.Priority"] = {"DataType": "Number", "StringValue": str(priority)}
    if kind := kind_of(value):
        found["kind"] = {"DataType": "String", "StringValue": kind}
    return found


def queues_of(seed: int, *, drawn: bool = False) -> list[Queue]:
    """Return the queues of a seed: of each kind one with a dead-letter queue and one without."""
    chance = random.Random(f"{seed} queues")  # noqa: S311 - no secret.
    found = (
        (f"plain-{seed}", ""),
        (f"orders-{seed}", f"dead-{seed}"),
        (f"plain-{seed}.fifo", ""),
        (f"orders-{seed}.fifo", f"dead-{seed}.fifo"),
    )
    return [
        Queue(name, dead, 2 if dead else 0, _drawn(chance, name) if drawn else {})
        for name, dead in found
    ]


def topics_of(seed: int) -> list[Topic]:
    """Return the topics of a seed: a standard and a FIFO one, each with a queue that filters."""
    return [
        Topic(f"news-{seed}", {f"plain-{seed}": "", f"orders-{seed}": "a"}),
        Topic(
            f"news-{seed}.fifo",
            {f"plain-{seed}.fifo": "", f"orders-{seed}.fifo": "b", f"plain-{seed}": "a"},
        ),
    ]


def _drawn(chance: random.Random, name: str) -> dict[str, str]:
    attributes = dict(chance.choice(_LIMITS))
    if chance.random() < 0.4:
        attributes |= _BACKOFF
    if not name.endswith(".fifo"):
        if chance.random() < 0.7:
            attributes["PriorityMode"] = chance.choice(["strict", "strict", "weighted"])
        if chance.random() < 0.5:
            attributes["DeduplicationSeconds"] = "3600"
        return attributes
    attributes.pop("MaximumInFlightPerGroup", None)
    return attributes


def arn(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}"


def create(sqs: Any, topic_client: Any, queues: Sequence[Queue], topics: Sequence[Topic]) -> None:
    for queue in queues:
        attributes = {"FifoQueue": "true"} if queue.fifo else {}
        if queue.dead:
            sqs.create_queue(QueueName=queue.dead, Attributes=attributes)
            policy = {"deadLetterTargetArn": arn(queue.dead), "maxReceiveCount": queue.most}
            attributes["RedrivePolicy"] = json.dumps(policy)
        sqs.create_queue(QueueName=queue.name, Attributes={**attributes, **queue.attributes})
    for topic in topics:
        topic_client.create_topic(
            Name=topic.name, Attributes={"FifoTopic": "true"} if topic.fifo else {}
        )
        for name, kind in topic.queues.items():
            chosen = {"FilterPolicy": json.dumps({"kind": [kind]})} if kind else {}
            topic_client.subscribe(
                TopicArn=topic.arn, Protocol="sqs", Endpoint=arn(name), Attributes=RAW | chosen
            )

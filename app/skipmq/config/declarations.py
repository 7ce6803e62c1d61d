"""Declared queues, as TOML, tests and imports write them, and what an import has found."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from skipmq.protocol import names


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule that a file declares for a queue; a body that is no text is JSON."""

    when: str
    body: Any
    zone: str = "UTC"
    group: str | None = None
    jitter: int = 0
    catch_up: str = "latest"


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A queue that a file declares; without an account or a region, the node's.

    Its policies may name queues by their names alone.
    """

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    account: str | None = None
    region: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    schedules: Mapping[str, DeclaredSchedule] = field(default_factory=dict)
    # The topics that it is subscribed to, with the attributes of the subscriptions.
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


SCHEDULES, TOPICS = "schedules", "topics"
REDRIVE_POLICY = "RedrivePolicy"
# Where each policy names queues.
_QUEUES = {REDRIVE_POLICY: "deadLetterTargetArn", "RedriveAllowPolicy": "sourceQueueArns"}


def text(value: Any) -> str:
    """Return a value as the text of an attribute: a table, such as RedrivePolicy, as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple | bool):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def schedules_and_topics(
    values: Mapping[str, Any],
) -> tuple[Mapping[str, DeclaredSchedule], Mapping[str, Mapping[str, str]]]:
    """Return those that a queue's table has; raise ValueError."""
    try:
        key = SCHEDULES
        schedules = msgspec.convert(values.get(key, {}), dict[str, DeclaredSchedule])
        key = TOPICS
        topics = msgspec.convert(values.get(key, {}), dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        raise ValueError(f"{key}: {error}") from error
    return schedules, {
        topic: {name: text(value) for name, value in given.items()}
        for topic, given in topics.items()
    }


def with_arns(attribute: str, value: str, account: str, region: str) -> str:
    """Return an attribute in which queues that a policy names have ARNs of an account and region.

    What is not such a policy is returned as it is: SQS says what is wrong with it.
    """
    return _renamed(attribute, value, lambda queue: _arn(queue, account, region))


def with_names(attribute: str, value: str, source: names.Named) -> str:
    """Return an attribute in which queues of the source's account and region have names alone."""
    return _renamed(attribute, value, lambda queue: _name(queue, source))


def _renamed(attribute: str, value: str, rename: Callable[[Any], Any]) -> str:
    if (member := _QUEUES.get(attribute)) is None:
        return value
    try:
        policy = json.loads(value)
    except ValueError:
        return value
    if not isinstance(policy, dict) or member not in policy:
        return value
    queues = policy[member]
    renamed = [rename(each) for each in queues] if isinstance(queues, list) else rename(queues)
    return json.dumps(policy | {member: renamed})


def _name(queue: Any, source: names.Named) -> Any:
    try:
        named = names.parse(queue) if isinstance(queue, str) else None
    except names.QueueNameError:
        return queue
    return named.name if named and named[1:] == source[1:] else queue


def _arn(queue: Any, account: str, region: str) -> Any:
    if not isinstance(queue, str) or not queue or ":" in queue or "/" in queue:
        return queue
    named = names.parse(queue)
    return f"arn:aws:sqs:{named.region or region}:{named.account or account}:{named.name}"


class UnreadableError(Exception):
    """A source cannot be imported; the message is one sentence with the remedy."""


class Difference(NamedTuple):
    """A setting without an exact counterpart: where it was found, and what to do instead.

    With a setting, it is of no account where that is set.
    """

    where: str
    remedy: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Found:
    """Queues to declare, settings with which their ARNs and URLs are the same, and differences.

    Dead-letter queues are named, so that the ARN is that of the account and region they are made
    in.
    """

    queues: tuple[DeclaredQueue, ...]
    settings: Mapping[str, str | int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()

"""Create the queues that a file declares, and compare those that are there with it."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from skipmq.actions.sqs import attributes
from skipmq.broker.queues import Queue
from skipmq.cli.local import LocalNode, open_node
from skipmq.config import declarations
from skipmq.config.declarations import REDRIVE_POLICY, DeclaredQueue, Difference, with_arns
from skipmq.config.settings import Settings
from skipmq.protocol import errors
from skipmq.protocol.identity import Identity, QueueName
from skipmq.protocol.queue_attributes import DOCUMENTS
from skipmq.telemetry.logs import log

_TAGS = "tags"


class DeclarationError(Exception):
    """A queue cannot be created as it is declared."""


class Mismatch(NamedTuple):
    """An attribute of an existing queue, or its tags, that differ from the declaration."""

    attribute: str
    declared: str
    present: str


class Outcome(NamedTuple):
    """What has become of a declared queue; with an error it may not be there.

    `changed` are the attributes of an existing queue that were set.
    """

    queue: QueueName
    is_new: bool
    mismatches: tuple[Mismatch, ...] = ()
    changed: tuple[str, ...] = ()
    error: str = ""


def report(differences: Iterable[Difference]) -> None:
    """Log the settings of a file of queues that have no exact counterpart."""
    for each in differences:
        log.warning("no exact counterpart of a setting", at=each.where, remedy=each.remedy)


def declare_queues(settings: Settings, database_url: str) -> None:
    """Create the queues that the settings declare.

    An existing queue keeps its attributes; differences are logged. Raises DeclarationError.
    """
    if not settings.queues:
        return
    with open_node(settings, database_url) as local:
        for outcome in declare(local, settings.queues):
            if outcome.error:
                raise DeclarationError(f"the declared queue {outcome.queue.arn}: {outcome.error}")
            for attribute, declared, present in outcome.mismatches:
                log.warning(
                    "an existing queue differs from its declaration",
                    queue=outcome.queue.name,
                    attribute=attribute,
                    declared=declared,
                    present=present,
                )


def declare(
    local: LocalNode,
    queues: Iterable[DeclaredQueue],
    *,
    dry_run: bool = False,
    overwrite: bool = False,
) -> Iterator[Outcome]:
    """Create queues that are not there; yield what has become of each, in order.

    Existing queues keep their attributes and tags, unless `overwrite` sets those that differ.
    With `dry_run` nothing is changed, and outcomes are what would be. Redrive policies come last,
    because they refer to other queues; one that is there without any gets its own, as after an
    interruption. Schedules and subscriptions are changed to what is
    declared.
    """
    made = [(queue, _created(local, queue, dry_run=dry_run)) for queue in queues]
    for queue, outcome in made:
        if outcome.error or (outcome.is_new and dry_run):
            yield outcome
            continue
        compared = _with_redrive(local, queue, outcome, dry_run=dry_run)
        if overwrite and compared.mismatches and not compared.error:
            compared = _overwritten(local, queue, compared, dry_run=dry_run)
        if not dry_run:
            compared = _subscribed(local, queue, _scheduled(local, queue, compared))
        yield compared


def _scheduled(local: LocalNode, queue: DeclaredQueue, outcome: Outcome) -> Outcome:
    """Create the schedules of a queue, or give them what is declared."""
    try:
        for name, each in queue.schedules.items():
            local.act(
                "CreateSchedule",
                _owner(local, queue),
                QueueUrl=queue.name,
                Name=name,
                Expression=each.when,
                Zone=each.zone,
                MessageBody=declarations.text(each.body),
                MessageGroupId=each.group,
                JitterSeconds=each.jitter,
                CatchUp=each.catch_up,
            )
    except errors.SqsError as error:
        return outcome._replace(error=f"the schedule {name}: {error.message}")
    return outcome


def _subscribed(local: LocalNode, queue: DeclaredQueue, outcome: Outcome) -> Outcome:
    """Create the topics of a queue, and its subscriptions as they are declared."""
    owner = _owner(local, queue)
    try:
        for topic, given in queue.topics.items():
            kind = {"FifoTopic": "true"} if topic.endswith(".fifo") else {}
            arn = local.act("CreateTopic", owner, Name=topic, Attributes=kind)["TopicArn"]
            subscription = local.act(
                "Subscribe", owner, TopicArn=arn, Protocol="sqs", Endpoint=outcome.queue.arn
            )["SubscriptionArn"]
            # The scope decides what a policy may be.
            for name in sorted(given, key=lambda each: each != "FilterPolicyScope"):
                local.act(
                    "SetSubscriptionAttributes",
                    owner,
                    SubscriptionArn=subscription,
                    AttributeName=name,
                    AttributeValue=given[name],
                )
    except errors.SqsError as error:
        return outcome._replace(error=f"the topic {topic}: {error.message}")
    return outcome


def _created(local: LocalNode, queue: DeclaredQueue, *, dry_run: bool) -> Outcome:
    owner = _owner(local, queue)
    name = QueueName(owner.account, owner.region, queue.name)
    declared = {
        attribute: with_arns(attribute, value, owner.account, owner.region)
        for attribute, value in queue.attributes.items()
        if attribute != REDRIVE_POLICY
    }
    if queue.name.endswith(".fifo"):
        declared.setdefault("FifoQueue", "true")
    try:
        found = _found(local, name)
        stored = attributes.stored(declared, fifo=attributes.is_fifo(declared))
        if found is None and not dry_run:
            tags = queue.tags or None
            local.act("CreateQueue", owner, QueueName=queue.name, Attributes=declared, tags=tags)
    except errors.QueueNameExists:
        # Another node has created it meanwhile.
        found = _found(local, name)
    except errors.SqsError as error:
        return Outcome(name, is_new=False, error=error.message + _values(error, declared))
    return Outcome(
        name,
        is_new=found is None,
        mismatches=() if found is None else tuple(_mismatches(queue, stored, found)),
    )


def _values(error: errors.SqsError, declared: dict[str, str]) -> str:
    """Return the declared value of the attribute that an error names."""
    return "".join(
        f" It is {value}."
        for name, value in declared.items()
        if f"for the parameter {name}." in error.message
    )


def _mismatches(queue: DeclaredQueue, stored: dict[str, str], found: Queue) -> Iterator[Mismatch]:
    present = found.attributes.texts(fifo=found.fifo)
    for attribute, value in stored.items():
        if attribute in present and not _is_same(attribute, value, present[attribute]):
            yield Mismatch(attribute, value, present[attribute])
    if queue.tags and dict(queue.tags) != dict(found.tags):
        yield Mismatch(_TAGS, _shown(queue.tags), _shown(found.tags))


def _is_same(attribute: str, one: str, other: str) -> bool:
    if attribute in DOCUMENTS and one and other:
        return bool(json.loads(one) == json.loads(other))
    return one == other


def _with_redrive(
    local: LocalNode, queue: DeclaredQueue, outcome: Outcome, *, dry_run: bool
) -> Outcome:
    policy = queue.attributes.get(REDRIVE_POLICY)
    if not policy:
        return outcome
    owner, name = _owner(local, queue), outcome.queue
    policy = with_arns(REDRIVE_POLICY, policy, owner.account, owner.region)
    try:
        declared = attributes.stored({REDRIVE_POLICY: policy}, fifo=False)[REDRIVE_POLICY]
        found = _found(local, name)
        if found is None:
            raise errors.QueueDoesNotExist
        present = found.attributes.redrive_policy
        if not present:
            if not dry_run:
                new = {REDRIVE_POLICY: declared}
                local.act("SetQueueAttributes", owner, QueueUrl=queue.name, Attributes=new)
            return outcome if outcome.is_new else outcome._replace(changed=(REDRIVE_POLICY,))
        if present != declared:
            mismatch = Mismatch(REDRIVE_POLICY, declared, present)
            return outcome._replace(mismatches=(*outcome.mismatches, mismatch))
    except errors.SqsError as error:
        return outcome._replace(error=error.message)
    return outcome


def _overwritten(
    local: LocalNode, queue: DeclaredQueue, outcome: Outcome, *, dry_run: bool
) -> Outcome:
    """Set the attributes that differ, and the tags to those that are declared."""
    owner = _owner(local, queue)
    changes = {each.attribute: each.declared for each in outcome.mismatches}
    done = outcome._replace(mismatches=(), changed=(*outcome.changed, *changes))
    if dry_run:
        return done
    tagged = changes.pop(_TAGS, None) is not None
    try:
        if changes:
            local.act("SetQueueAttributes", owner, QueueUrl=queue.name, Attributes=changes)
        if tagged:
            present = local.act("ListQueueTags", owner, QueueUrl=queue.name).get("Tags", {})
            if others := [key for key in present if key not in queue.tags]:
                local.act("UntagQueue", owner, QueueUrl=queue.name, TagKeys=others)
            local.act("TagQueue", owner, QueueUrl=queue.name, Tags=dict(queue.tags))
    except errors.SqsError as error:
        return outcome._replace(error=error.message)
    return done


def _owner(local: LocalNode, queue: DeclaredQueue) -> Identity:
    own = local.node.settings
    account = queue.account or own.account
    return Identity(account, queue.region or own.region, account)


def _found(local: LocalNode, name: QueueName) -> Queue | None:
    """Return a queue as it is now, or None where there is none."""
    node = local.node
    node.queues.forget(name.arn)
    try:
        return local.run(node.queues.find(name, node.deadline()))
    except errors.QueueDoesNotExist:
        return None


def _shown(tags: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(tags.items()))

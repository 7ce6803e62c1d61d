"""The topics and subscriptions that calls name by their ARNs, and the permissions on them."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from skipmq.actions.action import Action
from skipmq.broker import topics
from skipmq.broker.node import Node
from skipmq.broker.topics import Subscription
from skipmq.protocol import limits
from skipmq.protocol.call import Call, Result
from skipmq.protocol.identity import Need, TopicName
from skipmq.protocol.sns.errors import NotFound, ResourceNotFound, invalid

_VALID = re.compile(r"[A-Za-z0-9_-]{1,251}\.fifo|[A-Za-z0-9_-]{1,256}")
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TOPIC_PARTS, _SUBSCRIPTION_PARTS = 6, 7
_Run: TypeAlias = Callable[..., Awaitable[Result]]
NO_SUBSCRIPTION = "Subscription does not exist"


class SubscriptionName(NamedTuple):
    """A subscription by its topic and id."""

    topic: TopicName
    id: str


def is_valid(name: str) -> bool:
    """Return whether a topic may have a name."""
    return _VALID.fullmatch(name) is not None


def _parts(arn: str, parameter: str, call: Call) -> list[str]:
    parts = arn.split(":")
    if len(parts) < _TOPIC_PARTS:
        raise invalid(parameter, f"An ARN must have at least 6 elements, not {len(parts)}")
    identity = call.identity
    # A link in a message is of no region of the client's.
    is_link = call.request.method == "GET" and identity.key_id is None
    if (
        parts[2] != "sns"
        or (parts[3] != identity.region and not is_link)
        or not limits.ACCOUNT.fullmatch(parts[4])
    ):
        raise invalid(parameter)
    return parts


def topic(arn: str, call: Call, parameter: str = "TopicArn") -> TopicName:
    """Return the topic of an ARN; raise sns.errors.InvalidParameter, sns.errors.NotFound."""
    parts = _parts(arn, parameter, call)
    if len(parts) > _TOPIC_PARTS:
        raise invalid(parameter)
    if not is_valid(parts[5]):
        raise NotFound
    return TopicName(parts[4], parts[3], parts[5])


def subscription(call: Call) -> SubscriptionName:
    """Return the subscription of a call's SubscriptionArn; raise sns.errors.InvalidParameter."""
    parts = _parts(call.parameters.SubscriptionArn, "SubscriptionArn", call)
    if len(parts) != _SUBSCRIPTION_PARTS:
        raise invalid("SubscriptionId")
    return SubscriptionName(TopicName(parts[4], parts[3], parts[5]), parts[6])


async def found(node: Node, call: Call) -> Subscription:
    """Return the subscription that a call names; raise sns.errors.NotFound."""
    named = subscription(call)
    if not is_valid(named.topic.name) or not _ID.fullmatch(named.id):
        raise NotFound(NO_SUBSCRIPTION)
    rows = await topics.subscriptions(
        node.database,
        named.topic.account,
        named.topic.region,
        call.deadline,
        topic=named.topic,
        id_=named.id,
    )
    if not rows:
        raise NotFound(NO_SUBSCRIPTION)
    return rows[0]


def resource(call: Call) -> TopicName:
    """Return the topic of a call's ResourceArn.

    Raises sns.errors.InvalidParameter, sns.errors.ResourceNotFound.
    """
    try:
        return topic(call.parameters.ResourceArn, call, "ResourceArn")
    except NotFound as error:
        raise ResourceNotFound from error


def _topic_name(call: Call) -> TopicName:
    parameters = call.parameters
    if hasattr(parameters, "ResourceArn"):
        return resource(call)
    return topic(parameters.TopicArn, call)


def on_topic(run: _Run, permission: str, **options: Any) -> Action:
    """Return the record of an action on the topic of TopicArn or ResourceArn."""
    return Action(run=run, needs=lambda call: [Need(permission, _topic_name(call))], **options)


def on_subscription(run: _Run, permission: str, **options: Any) -> Action:
    """Return the record of an action on the subscription of SubscriptionArn."""
    return Action(
        run=run, needs=lambda call: [Need(permission, subscription(call).topic)], **options
    )

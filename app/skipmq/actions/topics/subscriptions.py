"""Subscribe queues and addresses to topics, confirm and end that, and its attributes."""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from skipmq.actions import paging
from skipmq.actions.topics import names
from skipmq.broker import topics
from skipmq.broker.deliveries import SubscriptionPolicy, effective_delivery
from skipmq.broker.node import Node
from skipmq.broker.topics import Subscription
from skipmq.protocol import errors
from skipmq.protocol import names as queue_names
from skipmq.protocol.call import Call, has_signature
from skipmq.protocol.identity import Need, QueueName, TopicName
from skipmq.protocol.names import FIFO
from skipmq.protocol.sns import filter_policy, shapes
from skipmq.protocol.sns.errors import AuthorizationError, InvalidParameter, NotFound, invalid

_HTTP_URL = re.compile(r"http://[^\s/?#]\S*")
_HTTPS_URL = re.compile(r"https://[^\s/?#]\S*")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_PHONE = re.compile(r"\+?[0-9][0-9 ().-]{2,30}")
_PUSH = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:endpoint/\S+")
_LAMBDA = re.compile(r"arn:[a-z-]+:lambda:\S+")
_FIREHOSE = re.compile(r"arn:[a-z-]+:firehose:\S+")
_HTTP = ("http", "https")
# The endpoints of protocols but sqs, and the errors. Nothing is delivered to those after https.
_ENDPOINTS = {
    "http": (_HTTP_URL.fullmatch, "Endpoint must match the specified protocol"),
    "https": (_HTTPS_URL.fullmatch, "Endpoint must match the specified protocol"),
    "email": (_EMAIL.fullmatch, "Email address"),
    "email-json": (_EMAIL.fullmatch, "Email address"),
    "sms": (_PHONE.fullmatch, "Invalid SMS endpoint: {}"),
    "application": (_PUSH.fullmatch, "Application endpoint arn invalid:{}"),
    "lambda": (_LAMBDA.fullmatch, "Lambda endpoint ARN"),
    "firehose": (_FIREHOSE.fullmatch, "Firehose endpoint ARN"),
}
_PASSWORD = re.compile(r"//([^/?#:@\s]*):[^/?#@\s]*@")
_TO_CONFIRM = (*_HTTP, "email", "email-json")
_TOKEN = re.compile("[0-9a-f]{64,512}")
_TOKEN_BYTES = 144
_DEFAULTS = {"RawMessageDelivery": "false", "FilterPolicyScope": "MessageAttributes"}
_SCOPES = ("MessageAttributes", filter_policy.BODY)
_NAMES = {
    *_DEFAULTS,
    *("DeliveryPolicy", "FilterPolicy", "RedrivePolicy", "ReplayPolicy", "SubscriptionRoleArn"),
}
PENDING = "pending confirmation"


async def subscribe(node: Node, call: Call[shapes.Subscribe]) -> shapes.SubscriptionArnResult:
    """Subscribe a queue or an address to a topic, or return the subscription that does."""
    parameters, identity = call.parameters, call.identity
    protocol, endpoint = parameters.Protocol, parameters.Endpoint or ""
    name = names.topic(parameters.TopicArn, call)
    if protocol != "sqs" and protocol not in _ENDPOINTS:
        raise InvalidParameter(
            f"Invalid parameter: Amazon SNS does not support this protocol string: {protocol}"
        )
    topic = await topics.find(node.database, name, call.deadline)
    queue = _queue(endpoint, name) if protocol == "sqs" else None
    if queue is not None:
        await _check_place(node, call, topic.id, queue)
    elif not _ENDPOINTS[protocol][0](endpoint):
        raise invalid(_ENDPOINTS[protocol][1].format(errors.shown(endpoint)))
    elif name.name.endswith(FIFO):
        raise invalid("Endpoint", "A FIFO topic delivers to queues only")
    attributes: dict[str, str] = {}
    for key, value in (parameters.Attributes or {}).items():
        try:
            attributes |= _stored(key, value)
        except _RefusedError as error:
            raise error.named("Attributes Reason: ") from error
    columns = _columns(attributes, name, endpoint, "Attributes Reason: ")
    # Another account's queue cannot be subscribed for it.
    is_own = queue.account == identity.account if queue else protocol not in _TO_CONFIRM
    base = node.settings.public_url.rstrip("/") or call.request.base_url
    id_, stored, confirmed, is_new = await topics.subscribe(
        node.database,
        topic,
        columns
        | {
            "protocol": protocol,
            "endpoint": endpoint,
            "owner": identity.account,
            "principal": identity.user or f"arn:aws:iam::{identity.account}:root",
            "token": None if is_own else _new_token(),
            "confirmed": is_own,
            "signed_unsubscribe": False,
            "base_url": base,
        }
        | ({} if queue is None else _place("", queue)),
        call.deadline,
    )
    if not is_new and any({**_DEFAULTS, **stored}.get(k) != v for k, v in attributes.items()):
        raise invalid("Attributes", "Subscription already exists with different attributes")
    await topics.read_policies(node.database, name, topic.id, call.deadline)
    is_shown = confirmed or bool(parameters.ReturnSubscriptionArn)
    return shapes.SubscriptionArnResult(
        SubscriptionArn=f"{name.arn}:{id_}" if is_shown else PENDING
    )


def _new_token() -> str:
    return secrets.token_hex(_TOKEN_BYTES)


def _queue(endpoint: str, topic: TopicName) -> QueueName:
    named = queue_names.in_arn(endpoint)
    if named is None:
        raise invalid("SQS endpoint ARN")
    if named.name.endswith(FIFO) and not topic.name.endswith(FIFO):
        raise InvalidParameter(
            "Invalid parameter: Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be"
            " subscribed to standard SNS topics"
        )
    return QueueName(named.account or topic.account, named.region or topic.region, named.name)


async def _check_place(node: Node, call: Call, topic_id: int, queue: QueueName) -> None:
    """Check that a queue, if it exists, is in the partition of a topic."""
    try:
        found = await node.queues.find(queue, call.deadline)
    except errors.QueueDoesNotExist:
        return
    place = node.database.number(topic_id)
    if node.database.number(found.id) != place:
        raise invalid(
            "Endpoint",
            f"The queue is not in the topic's partition, {place}: `skipmq partitions"
            " rebalance-plan` lists queues that move; a topic of its name is where it was made",
        )


def _place(prefix: str, queue: QueueName) -> dict[str, str]:
    return {
        f"{prefix}account": queue.account,
        f"{prefix}region": queue.region,
        f"{prefix}name": queue.name,
    }


class _RefusedError(Exception):
    """A value that an attribute cannot have; with `is_whole` the text names no attribute."""

    def __init__(self, name: str, text: str, *, is_whole: bool = False) -> None:
        super().__init__(text)
        self._name, self._text, self._is_whole = name, text, is_whole

    def named(self, prefix: str) -> InvalidParameter:
        """Return the error that the client gets."""
        name = "" if self._is_whole else f"{prefix}{self._name}: "
        return InvalidParameter(f"Invalid parameter: {name}{self._text}")


def _stored(name: str, value: str) -> dict[str, str]:
    """Return an attribute as it is stored; raise sns.errors.InvalidParameter, _RefusedError."""
    if name not in _NAMES:
        raise invalid("AttributeName")
    if name == "RawMessageDelivery":
        if value.lower() not in ("true", "false"):
            raise _RefusedError(name, f"Invalid value [{value}]. Must be true or false.")
        value = value.lower()
    elif name == "FilterPolicyScope" and value not in _SCOPES:
        text = f"Invalid value [{value}]. Please use either MessageBody or MessageAttributes"
        raise _RefusedError(name, text)
    elif name in ("DeliveryPolicy", "RedrivePolicy", "ReplayPolicy") and value:
        try:
            msgspec.json.decode(value, type=dict[str, Any])
            if name == "DeliveryPolicy":
                msgspec.json.decode(value, type=SubscriptionPolicy)
        except msgspec.ValidationError as error:
            raise _RefusedError(name, str(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise _RefusedError(name, _json_error(value)) from error
    return {name: value}


def _json_error(text: str) -> str:
    try:
        filter_policy.parsed(text)
    except filter_policy.FilterPolicyError as error:
        return str(error)
    return "failed to parse JSON."


def _columns(
    attributes: Mapping[str, str], topic: TopicName, endpoint: str, prefix: str
) -> dict[str, Any]:
    """Return the columns that depend on attributes.

    Raises sns.errors.InvalidParameter, whose text has `prefix` before the attribute's name.
    """
    scope = attributes.get("FilterPolicyScope", _SCOPES[0])
    columns: dict[str, Any] = {
        "attributes": attributes,
        "raw": attributes.get("RawMessageDelivery") == "true",
        "filter": None,
        "networks": None,
        "filters_body": scope == filter_policy.BODY,
        "dead_letter_account": None,
        "dead_letter_region": None,
        "dead_letter_name": None,
    }
    try:
        if policy := attributes.get("FilterPolicy"):
            compiled = filter_policy.compile_policy(policy, scope)
            if compiled is not None:
                columns |= {"filter": compiled.filter, "networks": compiled.networks}
        if policy := attributes.get("RedrivePolicy"):
            columns |= _place("dead_letter_", _dead_letter_queue(policy, topic, endpoint))
    except filter_policy.FilterPolicyError as error:
        refused = _RefusedError("FilterPolicy", str(error), is_whole=error.is_whole)
        raise refused.named(prefix) from error
    except _RefusedError as error:
        raise error.named(prefix) from error
    return columns


def _dead_letter_queue(policy: str, topic: TopicName, endpoint: str) -> QueueName:
    arn = msgspec.json.decode(policy).get("deadLetterTargetArn")
    named = queue_names.in_arn(arn) if isinstance(arn, str) else None
    if named is None:
        raise _RefusedError("RedrivePolicy", "deadLetterTargetArn is an invalid arn")
    is_fifo = named.name.endswith(FIFO)
    if endpoint.endswith(FIFO) and not is_fifo:
        raise _RefusedError(
            "RedrivePolicy",
            "must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.",
        )
    if is_fifo and not topic.name.endswith(FIFO):
        text = "must use a standard queue as DLQ for a subscription to a standard topic."
        raise _RefusedError("RedrivePolicy", text)
    return QueueName(named.account or topic.account, named.region or topic.region, named.name)


def confirm_needs(call: Call) -> list[Need]:
    """Return the needs of ConfirmSubscription: the token is the right."""
    del call
    return []


async def confirm_subscription(
    node: Node, call: Call[shapes.ConfirmSubscription]
) -> shapes.SubscriptionArnResult:
    """Confirm the subscription of a token; again, it is the same."""
    parameters = call.parameters
    try:
        name = names.topic(parameters.TopicArn, call)
    except (InvalidParameter, NotFound) as error:
        raise invalid("Topic") from error
    if not _TOKEN.fullmatch(parameters.Token):
        raise InvalidParameter("Invalid token")
    found = await topics.subscriptions(
        node.database, name.account, name.region, call.deadline, token=parameters.Token
    )
    if not found:
        raise invalid("Token")
    changes = {"confirmed": True, "ended": False}
    if has_signature(call.request):
        changes["authenticated"] = True
        needs_signature = (parameters.AuthenticateOnUnsubscribe or "").lower() == "true"
        changes["signed_unsubscribe"] = needs_signature
    await _change(node, call, found[0], changes)
    return shapes.SubscriptionArnResult(SubscriptionArn=found[0].arn)


async def _change(
    node: Node, call: Call, found: Subscription, changes: Mapping[str, Any] | None
) -> None:
    await topics.change_subscription(
        node.database, found.topic_id, found.subscription_id, changes, call.deadline
    )


async def unsubscribe(node: Node, call: Call[shapes.Unsubscribe]) -> None:
    """End a subscription; one that does not exist has ended.

    An address that its link ends can be restored for two days.
    """
    try:
        found = await names.found(node, call)
    except NotFound:
        return
    is_link = not has_signature(call.request)
    if found.signed_unsubscribe and is_link:
        raise AuthorizationError("This subscription ends by a signed request only.")
    changes = None
    if is_link and found.confirmed and found.protocol in _HTTP:
        changes = {"confirmed": False, "ended": True, "token": _new_token()}
    await _change(node, call, found, changes)


async def get_subscription_attributes(
    node: Node, call: Call[shapes.GetSubscriptionAttributes]
) -> shapes.AttributesResult:
    """Return the attributes of a subscription."""
    found = await names.found(node, call)
    shown = {
        "ConfirmationWasAuthenticated": str(found.authenticated).lower(),
        "Endpoint": _shown(found.endpoint),
        "Owner": found.owner,
        "PendingConfirmation": str(not found.confirmed).lower(),
        "Protocol": found.protocol,
        "SubscriptionArn": found.arn,
        "SubscriptionPrincipal": found.principal,
        "TopicArn": found.topic_arn,
        **_DEFAULTS,
        **{key: value for key, value in found.attributes.items() if value},
    }
    if "FilterPolicy" not in shown:
        del shown["FilterPolicyScope"]
    if own := shown.get("DeliveryPolicy"):
        of_topic = effective_delivery(found.topic_attributes)["http"]
        effective = {
            "healthyRetryPolicy": of_topic.get("defaultHealthyRetryPolicy"),
            "sicklyRetryPolicy": None,
            "throttlePolicy": None,
            "requestPolicy": of_topic.get("defaultRequestPolicy"),
            "guaranteed": False,
            **msgspec.json.decode(own),
        }
        shown["EffectiveDeliveryPolicy"] = msgspec.json.encode(effective).decode()
    return shapes.AttributesResult(Attributes=shown)


async def set_subscription_attributes(
    node: Node, call: Call[shapes.SetSubscriptionAttributes]
) -> None:
    """Set an attribute of a subscription."""
    parameters = call.parameters
    found = await names.found(node, call)
    try:
        changed = _stored(parameters.AttributeName, parameters.AttributeValue or "")
    except _RefusedError as error:
        raise error.named("") from error
    attributes = {k: v for k, v in {**found.attributes, **changed}.items() if v}
    name = names.topic(found.topic_arn, call)
    await _change(node, call, found, _columns(attributes, name, found.endpoint, ""))


async def list_subscriptions(
    node: Node, call: Call[shapes.ListSubscriptions]
) -> shapes.SubscriptionsResult:
    """Return a page of the subscriptions to topics of the caller's account."""
    identity = call.identity
    found = await topics.subscriptions(
        node.database, identity.account, identity.region, call.deadline, after=paging.after(call)
    )
    return _page(found)


async def list_subscriptions_by_topic(
    node: Node, call: Call[shapes.ListSubscriptionsByTopic]
) -> shapes.SubscriptionsResult:
    """Return a page of the subscriptions to a topic."""
    name = names.topic(call.parameters.TopicArn, call)
    await node.topics.find(name, call.deadline)
    found = await topics.subscriptions(
        node.database,
        name.account,
        name.region,
        call.deadline,
        topic=name,
        after=paging.after(call),
    )
    return _page(found)


def _shown(endpoint: str) -> str:
    """Return an address without its password."""
    return _PASSWORD.sub(r"//\1:****@", endpoint)


def _page(found: list[Subscription]) -> shapes.SubscriptionsResult:
    page = found[: topics.LISTED]
    return shapes.SubscriptionsResult(
        Subscriptions=[
            shapes.Subscription(
                SubscriptionArn=each.arn if each.confirmed else "PendingConfirmation",
                Owner=each.owner,
                Protocol=each.protocol,
                Endpoint=_shown(each.endpoint),
                TopicArn=each.topic_arn,
            )
            for each in page
        ],
        NextToken=paging.token(page[-1].arn) if len(found) > len(page) else None,
    )

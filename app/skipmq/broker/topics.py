"""Topics, with a cache of those in use, their subscriptions, and what is published to them."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from skipmq.auth.policy import Access, parse
from skipmq.broker.queues import CACHE_SECONDS
from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTEGERS,
    JSONB,
    TEXT,
    TEXTS,
    UUID,
    UUIDS,
    Lookup,
    Search,
    Statement,
    columns,
)
from skipmq.protocol import errors
from skipmq.protocol.identity import QueueName, TopicName
from skipmq.protocol.sns.errors import NotFound, UnreadPolicy
from skipmq.telemetry.logs import log

SERVICE = "sns.amazonaws.com"
# A page of a list; SNS has no parameter for it.
LISTED = 100
# Topics that a node has in its cache.
_CACHED = 10_000
# Tries of a publish while policies of queues change.
_TRIES = 3


class Topic(NamedTuple):
    """A topic with its attributes that were set, and the numbers of its subscriptions."""

    id: int
    attributes: Mapping[str, str]
    tags: Mapping[str, str]
    confirmed: int
    pending: int
    deleted: int


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """A subscription with its attributes that were set, and those of its topic."""

    arn: str
    topic_arn: str
    topic_id: int
    subscription_id: str
    protocol: str
    endpoint: str
    owner: str
    principal: str
    confirmed: bool
    authenticated: bool
    signed_unsubscribe: bool
    attributes: Mapping[str, str]
    topic_attributes: Mapping[str, str]


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A validated message to publish: `size` is its bytes, `attributes` the JSON text to store."""

    message_id: str
    message: str
    size: int
    subject: str | None = None
    attributes: str | None = None
    group_id: str | None = None
    deduplication_id: str | None = None
    trace_header: str | None = None
    # The JSON of the texts that protocols get instead of `message`.
    texts: str | None = None


class Published(NamedTuple):
    """What has become of a message: the queues that got it, and how many got none."""

    place: int
    message_id: str
    sequence_number: int | None
    queue_ids: Sequence[int]
    queues: Sequence[str]
    dead_lettered: int
    dropped: int


_CREATE = Statement(
    "select topic_id, attributes, tags, is_new from skipmq.create_topic($1, $2, $3, $4, $5)",
    TEXT, JSONB, JSONB, TEXT, TEXT,
)  # fmt: skip
_GET = Lookup(
    "select topic_id, attributes, tags, confirmed, pending, deleted"
    " from skipmq.get_topic($1, $2, $3, $4)",
    TEXT, TEXT, TEXT, BOOLEAN,
)  # fmt: skip
_CHANGE = Statement(
    "select skipmq.change_topic($1, $2, $3, $4, $5)",
    BIGINT, JSONB, JSONB, TEXTS, TEXT, repeatable=False,
)  # fmt: skip
_DELETE = Statement("select skipmq.delete_topic($1, $2, $3)", TEXT, TEXT, TEXT)
_LIST = Search(
    "select name from skipmq.list_topics($1, $2, $3, $4) name", TEXT, TEXT, TEXT, INTEGER
)
_SUBSCRIBE = Statement(
    "select subscription_id::text, attributes, confirmed, is_new from skipmq.subscribe($1, $2)",
    BIGINT, JSONB,
)  # fmt: skip
_SUBSCRIPTIONS = Search(
    f"select {columns(Subscription, subscription_id='subscription_id::text')}"
    " from skipmq.list_subscriptions($1, $2, $3, $4, $5, $6, $7)",
    TEXT, TEXT, TEXT, UUID, TEXT, TEXT, INTEGER,
)  # fmt: skip
_CHANGE_SUBSCRIPTION = Statement(
    "select skipmq.change_subscription($1, $2, $3)", BIGINT, UUID, JSONB
)
_UNREAD = Statement(
    "select subscription_id::text, account, region, name, policy"
    " from skipmq.unread_policies($1)",
    BIGINT,
)  # fmt: skip
_PUBLISH = Statement(
    "select place, message_id::text, sequence_number, queue_ids, queues, dead_lettered, dropped"
    " from skipmq.publish_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    BIGINT, UUIDS, TEXTS, TEXTS, TEXTS, INTEGERS, TEXTS, TEXTS, TEXTS, TEXT, TEXT, TEXTS,
    repeatable=False,
)  # fmt: skip


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def home(database: Database, name: TopicName) -> int | None:
    """Return the tenant of statements on a topic by its name."""
    return database.tenant(database.home(name.account, name.region, name.name))


async def create(
    database: Database,
    name: TopicName,
    attributes: Mapping[str, str],
    tags: Mapping[str, str],
    deadline: float,
) -> tuple[Topic, bool]:
    """Create a topic unless there is one of that name; return it, and whether it is new."""
    parameters = (name.name, _json(attributes), _json(tags), name.account, name.region)
    ((id_, stored, stored_tags, is_new),) = await database.rows(
        _CREATE, parameters, deadline=deadline, tenant=home(database, name)
    )
    return Topic(id_, stored, stored_tags, 0, 0, 0), is_new


async def find(
    database: Database, name: TopicName, deadline: float, *, counts: bool = False
) -> Topic:
    """Return a topic, with the numbers of its subscriptions if `counts`; raise NotFound."""
    rows = await database.rows(
        _GET,
        (name.name, name.account, name.region, counts),
        deadline=deadline,
        tenant=home(database, name),
    )
    if not rows:
        raise NotFound
    return Topic(*rows[0])


async def change(  # noqa: PLR0913 - each is a column.
    database: Database,
    topic: Topic,
    deadline: float,
    *,
    attributes: Mapping[str, str | None] | None = None,
    tags: Mapping[str, str] | None = None,
    removed: Sequence[str] = (),
    old_policy: str | None = None,
) -> bool:
    """Change a topic, if it still has `old_policy` where one is given; return whether it did."""
    parameters = (topic.id, _json(attributes or {}), _json(tags or {}), removed, old_policy)
    ((changed,),) = await database.rows(_CHANGE, parameters, deadline=deadline, tenant=topic.id)
    return bool(changed)


async def delete(database: Database, name: TopicName, deadline: float) -> None:
    """Delete a topic, if it exists, with its subscriptions."""
    parameters = (name.name, name.account, name.region)
    await database.rows(_DELETE, parameters, deadline=deadline, tenant=home(database, name))


async def names(
    database: Database, account: str, region: str, after: str, deadline: float
) -> list[str]:
    """Return the names of topics in order, starting after `after`: one more than a page."""
    rows = await database.rows(_LIST, (account, region, after, LISTED + 1), deadline=deadline)
    return [name for (name,) in rows]


async def subscribe(
    database: Database, topic: Topic, subscription: Mapping[str, Any], deadline: float
) -> tuple[str, Mapping[str, str], bool, bool]:
    """Add a subscription unless the topic has one of its protocol and endpoint.

    Return its id, attributes, whether it is confirmed and whether it is new. Raises NotFound.
    """
    rows = await database.rows(
        _SUBSCRIBE, (topic.id, _json(subscription)), deadline=deadline, tenant=topic.id
    )
    if not rows:
        raise NotFound
    return rows[0]


async def subscriptions(  # noqa: PLR0913 - each selects.
    database: Database,
    account: str,
    region: str,
    deadline: float,
    *,
    topic: TopicName | None = None,
    id_: str | None = None,
    token: str | None = None,
    after: str = "",
) -> list[Subscription]:
    """Return subscriptions in the order of their ARNs, after `after`: one more than a page."""
    name = None if topic is None else topic.name
    rows = await database.rows(
        _SUBSCRIPTIONS,
        (account, region, name, id_, token, after, LISTED + 1),
        deadline=deadline,
        tenant=None if topic is None else home(database, topic),
    )
    return [Subscription(*row) for row in rows]


async def change_subscription(
    database: Database,
    topic_id: int,
    subscription_id: str,
    changes: Mapping[str, Any] | None,
    deadline: float,
) -> bool:
    """Set columns of a subscription, or delete it for None; return whether it was there."""
    given = None if changes is None else _json(changes)
    ((found,),) = await database.rows(
        _CHANGE_SUBSCRIPTION,
        (topic_id, subscription_id, given),
        deadline=deadline,
        tenant=topic_id,
    )
    return bool(found)


async def publish(  # noqa: PLR0913, PLR0917 - all that it stores.
    database: Database,
    name: TopicName,
    topic_id: int,
    messages: Sequence[Notification],
    sender: str,
    deadline: float,
) -> list[Published]:
    """Store messages in all queues that are subscribed and match; return what became of each.

    Raises NotFound.
    """
    parameters = (
        topic_id,
        [each.message_id for each in messages],
        [each.message for each in messages],
        [each.subject for each in messages],
        [each.attributes for each in messages],
        [each.size for each in messages],
        [each.group_id for each in messages],
        [each.deduplication_id for each in messages],
        [each.trace_header for each in messages],
        sender,
        "on",
        [each.texts for each in messages],
    )
    for _ in range(_TRIES):
        try:
            rows = await database.rows(_PUBLISH, parameters, deadline=deadline, tenant=topic_id)
        except UnreadPolicy:
            await read_policies(database, name, topic_id, deadline)
        else:
            return [Published(*row) for row in rows]
    raise errors.ServiceUnavailable


async def read_policies(
    database: Database, name: TopicName, topic_id: int, deadline: float
) -> None:
    """Evaluate the policies of subscribed queues that have changed since that was done."""
    rows = await database.rows(_UNREAD, (topic_id,), deadline=deadline, tenant=topic_id)
    for subscription_id, account, region, queue, policy in rows:
        changes = {
            "policy_digest": md5(policy.encode(), usedforsecurity=False).hexdigest(),
            "policy_allows": allows(policy, name, QueueName(account, region, queue)),
        }
        await change_subscription(database, topic_id, subscription_id, changes, deadline)


def allows(policy: str, topic: TopicName, queue: QueueName) -> bool:
    """Return whether a queue's policy allows a topic to send to it."""
    context = {"aws:sourcearn": topic.arn, "aws:sourceaccount": topic.account}
    access = Access("sqs:SendMessage", queue.arn, topic.account, "", context, SERVICE)
    try:
        return parse(policy, of_queue=True).evaluate(access) in ("user", "account")
    except ValueError as error:  # It was written by SQL.
        log.warning("a queue's policy cannot be read", queue=queue.arn, reason=str(error))
        return False


class Topics:
    """Topics by their names, as they were at most CACHE_SECONDS ago; for one loop.

    `announce` is called with the ARN of a topic that this node has changed, and its id if known.
    """

    def __init__(self, database: Database, announce: Callable[[str, int | None], None]) -> None:
        self._database, self._announce = database, announce
        self._cache: dict[str, tuple[float, Topic]] = {}

    async def find(self, name: TopicName, deadline: float) -> Topic:
        """Return a topic; raise sns.errors.NotFound."""
        until, known = self._cache.get(name.arn, (0.0, None))
        if known is not None and until > monotonic():
            return known
        now = monotonic()
        topic = await find(self._database, name, deadline)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[name.arn] = (now + CACHE_SECONDS, topic)
        return topic

    def forget(self, arn: str | None) -> None:
        """Remove a topic, or all, from the cache."""
        if arn is None:
            self._cache.clear()
        else:
            self._cache.pop(arn, None)

    def changed(self, name: TopicName, id_: int | None = None) -> None:
        """Remove a topic from all nodes' caches."""
        self.forget(name.arn)
        self._announce(name.arn, id_)

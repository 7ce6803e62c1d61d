"""Delivery of topics over HTTP, to a server of the test's."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import psycopg
import pytest

from skipmq.broker.deliveries import Delivery
from skipmq.protocol.addresses import address, network
from skipmq.server.processes.deliveries import CONCURRENT
from skipmq.server.processes.post import is_allowed
from support.endpoint import Endpoint, endpoint
from support.http import NodeProcess, client, eventually, raw
from support.inbox import RAW, Inbox, subscribe
from support.postgres import Databases, as_node

_number = count(1)
ATTEMPT = Delivery(
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    raw=False,
    body="",
    attempt=1,
    policy=None,
    topic_policy=None,
    throttle=None,
)
AT_ONCE = {"numRetries": 2, "numNoDelayRetries": 2}


def policy(**retries: Any) -> dict[str, str]:
    return {"DeliveryPolicy": json.dumps({"healthyRetryPolicy": retries})}


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


@pytest.fixture
def path() -> str:
    return f"/{next(_number)}"


def redrive(inbox: Inbox) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": inbox.arn})}


def test_subscription_is_confirmed_and_ended_by_its_links(
    sns: Any, topic: str, server: Endpoint, path: str, broker: NodeProcess
) -> None:
    pending = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=server.url + path)
    sent = server.next(path)
    body = json.loads(sent.body)
    sns.publish(TopicArn=topic, Message="too early")
    again = sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=server.url + path)
    confirmed = server.confirm(path)
    sns.publish(TopicArn=topic, Message="news", Subject="s")
    message = json.loads(server.next(path).body)

    assert pending["SubscriptionArn"] == again["SubscriptionArn"] == "pending confirmation"
    assert sent.headers["x-amz-sns-message-type"] == body["Type"] == "SubscriptionConfirmation"
    assert sent.headers["x-amz-sns-message-id"] == body["MessageId"]
    assert sent.headers["x-amz-sns-topic-arn"] == body["TopicArn"] == topic
    assert "x-amz-sns-subscription-arn" not in sent.headers
    assert body["Message"] == (
        f"You have chosen to subscribe to the topic {topic}.\n"
        "To confirm the subscription, visit the SubscribeURL included in this message."
    )
    token = body["Token"]
    link = f"{broker.url}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
    assert body["SubscribeURL"] == link
    assert confirmed.status == 200
    assert message["Message"] == "news"
    assert raw(message["UnsubscribeURL"]).status == 200
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []


def test_subscription_that_its_link_ended_is_restored(
    sns: Any, topic: str, server: Endpoint, path: str
) -> None:
    arn = server.subscribe(sns, topic, path)
    sns.publish(TopicArn=topic, Message="x")
    link = json.loads(server.next(path).body)["UnsubscribeURL"]
    assert (raw(link).status, raw(link).status) == (200, 200)
    sent = server.next(path)
    body = json.loads(sent.body)
    counts = sns.get_topic_attributes(TopicArn=topic)["Attributes"]
    assert raw(body["SubscribeURL"]).status == 200
    sns.publish(TopicArn=topic, Message="again")

    assert sent.headers["x-amz-sns-message-type"] == body["Type"] == "UnsubscribeConfirmation"
    assert sent.headers["x-amz-sns-subscription-arn"] == arn
    assert body["Message"] == (
        f"You have chosen to deactivate subscription {arn}.\nTo cancel this operation and restore"
        " the subscription, visit the SubscribeURL included in this message."
    )
    assert (counts["SubscriptionsPending"], counts["SubscriptionsDeleted"]) == ("0", "1")
    assert json.loads(server.next(path).body)["Message"] == "again"
    assert server.posted(path).empty()


def test_address_gets_the_text_for_its_protocol(
    sns: Any, topic: str, server: Endpoint, path: str, inbox: Callable[..., Inbox]
) -> None:
    queue = inbox()
    subscribe(sns, topic, queue, **RAW)
    server.subscribe(sns, topic, path)
    server.subscribe(sns, topic, f"{path}/raw", **RAW)
    texts = {"default": "d", "sqs": "for queues", "http": "for addresses"}
    sns.publish(TopicArn=topic, Message=json.dumps(texts), MessageStructure="json")

    assert json.loads(server.next(path).body)["Message"] == "for addresses"
    assert server.next(f"{path}/raw").body == "for addresses"
    assert queue.bodies() == ["for queues"]


def test_notification_has_headers_and_the_envelope(
    sns: Any, topic: str, server: Endpoint, path: str
) -> None:
    request = {"requestPolicy": {"headerContentType": "application/json"}}
    arn = server.subscribe(sns, topic, path, DeliveryPolicy=json.dumps(request))
    id_ = sns.publish(TopicArn=topic, Message="x", Subject="s")["MessageId"]
    sent = server.next(path)

    body = json.loads(sent.body)
    assert (body["Type"], body["MessageId"], body["Subject"]) == ("Notification", id_, "s")
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["user-agent"] == "Amazon Simple Notification Service Agent"
    assert sent.headers["x-amz-sns-message-type"] == "Notification"
    assert sent.headers["x-amz-sns-message-id"] == id_
    assert sent.headers["x-amz-sns-subscription-arn"] == arn
    assert "x-amz-sns-rawdelivery" not in sent.headers


def test_failed_attempts_are_repeated_with_the_same_id(
    sns: Any, topic: str, server: Endpoint, path: str
) -> None:
    server.statuses[path] = [500, 503]
    server.subscribe(sns, topic, path, **RAW, **policy(**AT_ONCE))
    id_ = sns.publish(TopicArn=topic, Message="x")["MessageId"]
    sent = [server.next(path) for _ in range(3)]

    assert {each.body for each in sent} == {"x"}
    assert {each.headers["x-amz-sns-message-id"] for each in sent} == {id_}
    assert {each.headers["x-amz-sns-rawdelivery"] for each in sent} == {"true"}


@pytest.mark.parametrize(("statuses", "attempts"), [([404], 1), ([500] * 3, 3), ([302], 1)])
def test_message_that_is_not_taken_is_dead_lettered(
    sns: Any,
    topic: str,
    server: Endpoint,
    path: str,
    inbox: Callable[..., Inbox],
    statuses: list[int],
    attempts: int,
) -> None:
    dead = inbox()
    # A redirect would be to an address that the endpoint may have no right to reach.
    server.location = f"{server.url}{path}"
    server.statuses[path] = [*statuses]
    server.subscribe(sns, topic, path, **RAW, **policy(**AT_ONCE), **redrive(dead))
    value = {"a": {"DataType": "String", "StringValue": "1"}}
    sns.publish(TopicArn=topic, Message="x", MessageAttributes=value)

    (message,) = eventually(dead.messages)
    assert message["Body"] == "x"
    assert message["MessageAttributes"] == value
    assert server.posted(path).qsize() == attempts


def test_endpoint_that_hangs_holds_up_no_other(
    sns: Any, topic: str, server: Endpoint, path: str
) -> None:
    server.subscribe(sns, topic, f"/hang{path}", **RAW)
    server.subscribe(sns, topic, path, FilterPolicy='{"other": ["yes"]}', **RAW)
    entries = [{"Id": str(n), "Message": "x"} for n in range(10)]
    for _ in range(10):
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    server.next(f"/hang{path}")
    value = {"other": {"DataType": "String", "StringValue": "yes"}}
    sns.publish(TopicArn=topic, Message="y", MessageAttributes=value)

    assert server.next(path).body == "y"
    # Of a hundred a few hang, not as many as the node has requests at a time.
    assert server.posted(f"/hang{path}").qsize() < CONCURRENT // 2
    server.release.set()


def test_node_that_is_not_on_loopback_posts_to_no_private_address(
    server: Endpoint, path: str, embedded_databases: Databases
) -> None:
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, host="0.0.0.0", auth="off") as node:  # noqa: S104
        sns = client(node.ready().url, "query", service="sns")
        topic = sns.create_topic(Name="news")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=server.url + path)
        eventually(lambda: "see SKIPMQ_DELIVERY_NETWORKS" in node.log)

    assert server.posted(path).empty()


@pytest.mark.slow
def test_message_of_a_killed_node_is_delivered_by_another(
    server: Endpoint, path: str, embedded_databases: Databases
) -> None:
    path, owner_url = f"/hang{path}", embedded_databases.migrated()
    server.release.clear()
    with NodeProcess(database_url=as_node(owner_url)) as node:
        sns = client(node.ready().url, "query", service="sns")
        topic = sns.create_topic(Name="news")["TopicArn"]
        server.subscribe(sns, topic, path)
        id_ = sns.publish(TopicArn=topic, Message="x")["MessageId"]
        server.next(path)
        node.process.kill()
        node.process.wait()
    server.release.set()
    with psycopg.connect(owner_url, autocommit=True) as owner:
        # Its claim ends after a minute.
        owner.execute("update skipmq.http_delivery set due_at = clock_timestamp()")
        with NodeProcess(database_url=as_node(owner_url)) as node:
            node.ready()
            sent = server.next(path)
            query = "select count(*) from skipmq.http_delivery"
            eventually(lambda: owner.execute(query).fetchone() == (0,))

    assert sent.headers["x-amz-sns-message-id"] == id_


def test_broker_as_endpoint_publishes_nothing(
    sns: Any, topic: str, broker: NodeProcess, inbox: Callable[..., Inbox], owner: Any
) -> None:
    dead, link = inbox(), f"{broker.url}/?Action=Publish&TopicArn={topic}&Message=again"
    pending = {"TopicArn": topic, "Protocol": "http", "Endpoint": link}
    sns.subscribe(**pending, Attributes={**RAW, **redrive(dead)})
    owner.execute("update skipmq.subscription set confirmed = true where endpoint = %s", (link,))
    sns.publish(TopicArn=topic, Message="x")

    assert [each["Body"] for each in eventually(dead.messages)] == ["x"]


@pytest.mark.parametrize(
    ("host", "is_public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.1", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:a9fe:a9fe::1", False),
        ("fec0::1", False),
    ],
)
def test_address_that_is_not_public_is_refused(host: str, is_public: bool) -> None:
    assert is_allowed(address(host), ()) == is_public
    assert is_allowed(address(host), (network("0.0.0.0/0"), network("::/0")))


@pytest.mark.parametrize(
    ("retries", "delays"),
    [
        ({}, [20, 20, 20, None]),
        ({"numRetries": 0}, [None]),
        ({"numRetries": 4, "numNoDelayRetries": 1, "numMinDelayRetries": 1,
          "numMaxDelayRetries": 1, "minDelayTarget": 2, "maxDelayTarget": 9}, [0, 2, 2, 9, None]),
        ({"minDelayTarget": 1, "maxDelayTarget": 9}, [1, 5, 9, None]),
        ({"minDelayTarget": 1, "maxDelayTarget": 9, "backoffFunction": "geometric"}, [1, 3, 9]),
        ({"minDelayTarget": 2, "maxDelayTarget": 5, "backoffFunction": "exponential"}, [2, 3, 5]),
        ({"minDelayTarget": 3, "maxDelayTarget": 9, "backoffFunction": "arithmetic"}, [3, 5, 9]),
        ({"numRetries": "many"}, [20, 20, 20, None]),
    ],
)  # fmt: skip
def test_delays_follow_the_delivery_policy(
    retries: dict[str, Any], delays: list[float | None]
) -> None:
    given = policy(**retries)["DeliveryPolicy"]
    found = [
        msgspec.structs.replace(ATTEMPT, attempt=attempt, policy=given).delay
        for attempt in range(1, len(delays) + 1)
    ]

    assert found == pytest.approx(delays)


def test_lists_and_log_have_no_password_of_an_endpoint_nor_a_token(
    sns: Any, topic: str, broker: NodeProcess
) -> None:
    endpoint = "http://ann:pl4nted@127.0.0.1:1/a"
    arn = sns.subscribe(
        TopicArn=topic, Protocol="http", Endpoint=endpoint, ReturnSubscriptionArn=True
    )["SubscriptionArn"]
    (listed,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    shown = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
    assert {listed["Endpoint"], shown["Endpoint"]} == {"http://ann:****@127.0.0.1:1/a"}
    with pytest.raises(sns.exceptions.InvalidParameterException):
        sns.confirm_subscription(TopicArn=topic, Token="pl4nted" * 41)

    eventually(lambda: [line for line in broker.lines if "http://***@127.0.0.1:1/a" in line])
    assert not [line for line in broker.lines if "pl4nted" in line]

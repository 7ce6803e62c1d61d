"""Consumers over HTTP: a real node that checks signatures, and no connection to its database."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from skipmq import App, Context, DeadLetter, Discard, Queue, Retry
from skipmq.client import ClientError
from skipmq.client.http import RefusedError
from skipmq.client.message import Message
from skipmq.client.service import Service
from skipmq.client.settling import Deletions
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Connection, Databases, as_node
from support.sql import number

ORDERS, FIFO = Queue("orders", dict), Queue("orders.fifo", dict)
HIDDEN_UNTIL = "select visible_at from skipmq.message where body ~ 'slow'"


@pytest.fixture(scope="module")
def key(embedded_databases: Databases) -> Iterator[tuple[NodeProcess, dict[str, str]]]:
    url = embedded_databases.migrated()
    made = Keys(url).create()
    with NodeProcess(
        database_url=as_node(url), auth="on", master_key=MASTER_KEY, name_cooldown=0
    ) as node:
        node.owner_url = url
        yield node.ready(), made


@pytest.fixture
def sqs(key: tuple[NodeProcess, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give boto's client, and the variables that a worker signs by; queues go at the end."""
    node, made = key
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", made["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", made["secret"])
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    sqs = client(node.url, **made)
    sqs.create_queue(QueueName="failed")
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:failed"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 100})
    sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": policy})
    sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})
    yield sqs
    for url in sqs.list_queues()["QueueUrls"]:
        sqs.delete_queue(QueueUrl=url)


@pytest.fixture
def owner(key: tuple[NodeProcess, dict[str, str]]) -> Iterator[Connection]:
    with psycopg.connect(key[0].owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app(key: tuple[NodeProcess, dict[str, str]]) -> App:
    return App(key[0].url)


def send(sqs: Any, queue: str, *bodies: str, **given: Any) -> None:
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    for body in bodies:
        extra = {"MessageDeduplicationId": body} | given if "MessageGroupId" in given else given
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"item": body}), **extra)


def counts(sqs: Any, queue: str) -> tuple[int, int]:
    """Return how many messages are visible, and how many in flight."""
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    name = "ApproximateNumberOfMessages"
    return int(found[name]), int(found[f"{name}NotVisible"])


def test_message_is_handled_with_its_attributes_and_deleted(sqs: Any, app: App) -> None:
    seen: list[Any] = []

    @app.consumer(ORDERS)
    def sell(order: dict[str, Any], context: Context) -> None:
        message = context.message
        seen.append((order, message.attributes, message.receive_count))

    number = {"DataType": "Number", "StringValue": "7"}
    send(sqs, "orders", "tea", MessageAttributes={"n": number})

    assert app.drain() == {"done": 1}
    assert seen == [({"item": "tea"}, {"n": 7}, 1)]
    assert counts(sqs, "orders") == (0, 0)


def moved(owner: Connection) -> list[tuple[Any, ...]]:
    """Return what queues moved away and have from others."""
    owner.execute("select skipmq.fold_counts(true)")
    return owner.execute(
        "select queue, dead_lettered, moved_in from skipmq.queue_statistics()"
        " where queue in ('failed', 'orders') order by queue"
    ).fetchall()


def test_outcomes_are_those_of_sql(sqs: Any, app: App, owner: Connection) -> None:
    @app.consumer(ORDERS, concurrency=4, retry=Retry.backoff(600, most=600))
    def fail(order: dict[str, Any]) -> None:
        match order["item"]:
            case "discard":
                raise Discard("unwanted")
            case "dead":
                raise DeadLetter("no such item")
            case "retry":
                raise Retry("later", after=600)

    send(sqs, "orders", "discard", "dead", "retry", "good", MessageAttributes={})

    assert app.run(once=True) == {"discarded": 1, "dead-lettered": 1, "retried": 1, "done": 1}
    assert counts(sqs, "orders") == (0, 1)
    failed = sqs.get_queue_url(QueueName="failed")["QueueUrl"]
    (letter,) = sqs.receive_message(QueueUrl=failed, MessageAttributeNames=["All"])["Messages"]
    assert json.loads(letter["Body"]) == {"item": "dead"}
    assert letter["MessageAttributes"]["FailureReason"]["StringValue"] == "no such item"
    assert moved(owner) == [("failed", 0, 1), ("orders", 1, 0)]
    sqs.start_message_move_task(SourceArn=f"arn:aws:sqs:us-east-1:{ACCOUNT}:failed")


def test_body_that_does_not_decode_is_dead_lettered(sqs: Any, app: App) -> None:
    @app.consumer(ORDERS)
    def sell(order: dict[str, Any]) -> None:
        raise AssertionError(order)

    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="no JSON")

    assert app.drain() == {"dead-lettered": 1}
    assert counts(sqs, "failed") == (1, 0)


def test_groups_keep_their_order(sqs: Any, app: App) -> None:
    seen: list[str] = []

    @app.consumer(FIFO, concurrency=4)
    async def sell(order: dict[str, Any]) -> None:
        seen.append(order["item"])

    for group in "ab":
        send(sqs, "orders.fifo", *(f"{group}{n}" for n in range(12)), MessageGroupId=group)

    assert app.drain() == {"done": 24}
    for group in "ab":
        assert [each for each in seen if each[0] == group] == [f"{group}{n}" for n in range(12)]


def test_batch_is_a_list(sqs: Any, app: App) -> None:
    sizes: list[int] = []

    @app.consumer(ORDERS, batch=20)
    def count(batch: list[dict[str, Any]]) -> None:
        sizes.append(len(batch))

    send(sqs, "orders", *map(str, range(15)))

    assert app.drain() == {"done": 15}
    assert max(sizes) > 10
    assert counts(sqs, "orders") == (0, 0)


def test_message_is_hidden_for_longer_while_its_handler_runs(
    sqs: Any, app: App, owner: Connection
) -> None:
    @app.consumer(ORDERS, visibility=6, concurrency=2)
    def sell(_: dict[str, Any]) -> None:
        until = number(owner, HIDDEN_UNTIL)
        eventually(lambda: number(owner, HIDDEN_UNTIL) > until, why="hidden for longer")

    send(sqs, "orders", "slow")

    assert app.drain() == {"done": 1}
    assert counts(sqs, "orders") == (0, 0)


async def test_error_of_a_request_is_that_of_its_messages_alone(
    sqs: Any, key: tuple[NodeProcess, dict[str, str]]
) -> None:
    send(sqs, "orders", *map(str, range(15)))
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    service, requests = Service(key[0].url), []

    def begun(messages: Sequence[Message]) -> None:
        requests.append(len(messages))
        if len(requests) == 2:
            sqs.delete_queue(QueueUrl=url)

    deletions = Deletions(ORDERS, service, begun)
    messages: list[Message] = []
    while len(messages) < 15:
        messages += await service.claim(ORDERS, 10, 60)
    calls = [deletions.delete([message]) for message in messages]
    found = await asyncio.gather(*calls, return_exceptions=True)
    await service.close()

    assert requests == [10, 5]
    assert found[:10] == [True] * 10
    assert [type(each) for each in found[10:]] == [RefusedError] * 5


def test_transaction_is_refused_with_the_remedy(sqs: Any, app: App) -> None:
    @app.consumer(ORDERS, retry=Retry.backoff(600, most=600))
    def sell(_: dict[str, Any], context: Context) -> None:
        with context.transaction():
            pass

    send(sqs, "orders", "tea")

    with pytest.raises(ClientError, match=r"needs the database, and this app uses http:"):
        app.drain()
    assert counts(sqs, "orders") == (0, 1)


def test_wrong_key_and_missing_queue_are_errors(
    sqs: Any, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sqs

    @app.consumer(Queue("nowhere", dict))
    def sell(_: dict[str, Any]) -> None:
        pass

    with pytest.raises(ClientError, match="has no queue 'nowhere' in this account and region"):
        app.run()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ClientError, match="InvalidSignatureException"):
        app.run()


def test_queue_sends_to_a_url_in_order(sqs: Any, app: App) -> None:
    seen: list[Any] = []

    @app.consumer(FIFO)
    def sell(order: dict[str, Any], context: Context) -> None:
        seen.append((order["n"], context.message.attributes))

    bodies = [{"n": n, "pad": "x" * 120_000} for n in range(15)]
    ids = FIFO.send_many(
        bodies,
        using=app.dsn,
        group="g",
        deduplication_ids=[*map(str, range(15))],
        attributes={"trace": "x", "raw": b"1"},
    )

    assert len(set(ids)) == 15
    assert app.drain() == {"done": 15}
    assert seen == [(n, {"trace": "x", "raw": b"1"}) for n in range(15)]
    assert counts(sqs, "orders.fifo") == (0, 0)


def test_coroutine_sends_to_a_url(sqs: Any, app: App) -> None:
    message_id = asyncio.run(ORDERS.asend({"item": "tea"}, using=app.dsn))

    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert (message["MessageId"], json.loads(message["Body"])) == (message_id, {"item": "tea"})


def test_send_that_is_refused_says_why(sqs: Any, app: App) -> None:
    assert sqs

    with pytest.raises(ClientError, match=r"refused 1 of the messages to 'orders': Invalid"):
        ORDERS.send({}, using=app.dsn, attributes={"AWS.a": "x"})
    with pytest.raises(ClientError, match="has no queue 'nowhere'"):
        Queue("nowhere").send("x", using=app.dsn)

"""More requests than a node can take: who is refused, how, and who is not."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar
from urllib.parse import urlencode

import psycopg
import pytest

from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.config.settings import Settings
from skipmq.database.partitions import Database
from skipmq.database.statement import TEXT, Statement
from skipmq.protocol import errors
from skipmq.protocol.identity import QueueName
from support import loop
from support.http import Answer, NodeProcess, client, eventually, raw
from support.postgres import Connection, Databases, as_node, with_long_lock_timeout
from support.sql import is_blocked, number

# The fewest: eight requests at once, of which four may wait for messages.
REQUESTS, WAITING = 8, 4
SOON = 60
T = TypeVar("T")


@pytest.fixture
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def node(database: str) -> Iterator[NodeProcess]:
    """Give a small node."""
    url = with_long_lock_timeout(as_node(database))
    with NodeProcess(
        database_url=url, workers=1, max_requests=REQUESTS, connections=2, log_level="debug"
    ) as process:
        yield process.ready()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


def made(node: NodeProcess, name: str, **attributes: str) -> str:
    return str(client(node.url).create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def asked(queue: str, action: str, wire: str = "query", **parameters: str) -> Answer:
    """Make one request and return its answer, whatever it is."""
    if wire == "query":
        return raw(queue, urlencode({"Action": action, **parameters}).encode())
    members = "".join(f', "{key}": {value}' for key, value in parameters.items())
    body = f'{{"QueueUrl": "{queue}"{members}}}'.encode()
    base = queue.removesuffix("/000000000000/" + queue.rsplit("/", 1)[1])
    return raw(base, body, {"X-Amz-Target": f"AmazonSQS.{action}"})


def refusal(answer: Answer) -> tuple[int, str, bool]:
    return answer.status, answer.headers["Retry-After"], "ServiceUnavailable" in answer.body


REFUSED = (503, "1", True)


@contextmanager
def parked(queue: str, pool: ThreadPoolExecutor) -> Iterator[list[Future[Answer]]]:
    """Fill the node with receivers that wait; at the end each gets a message."""
    futures = [
        pool.submit(asked, queue, "ReceiveMessage", WaitTimeSeconds="20") for _ in range(REQUESTS)
    ]
    turned_away = eventually(lambda: done(futures, REQUESTS - WAITING))
    assert {refusal(future.result()) for future in turned_away} == {REFUSED}
    yield [future for future in futures if future not in turned_away]
    for n in range(WAITING):
        asked(queue, "SendMessage", MessageBody=f"idle-{n}")


def done(futures: list[Future[T]], count: int) -> list[Future[T]]:
    """Return those that are done, once they are so many."""
    found = [future for future in futures if future.done()]
    return found if len(found) == count else []


@pytest.mark.parametrize("wire", ["json", "query"])
def test_receiver_beyond_the_bound_is_refused_and_other_requests_are_not(
    node: NodeProcess, pool: ThreadPoolExecutor, wire: str
) -> None:
    idle, busy = made(node, "idle"), made(node, "busy")
    with parked(idle, pool) as futures:
        refused = asked(busy, "ReceiveMessage", wire, WaitTimeSeconds="20")
        sent = asked(busy, "SendMessage", wire, MessageBody="7" if wire == "query" else '"7"')
        received = asked(busy, "ReceiveMessage", wire, WaitTimeSeconds="20")
        at_once = asked(busy, "ReceiveMessage", wire, WaitTimeSeconds="0")

    assert refusal(refused) == REFUSED
    assert sent.status == 200
    assert received.status == 200
    assert "MD5OfBody" in received.body
    assert at_once.status == 200
    got = [future.result(timeout=SOON).body.partition("<Body>")[2][:6] for future in futures]
    assert sorted(got) == ["idle-0", "idle-1", "idle-2", "idle-3"]
    eventually(lambda: "refusing requests" in node.log)
    assert node.log.count("refusing requests") == 1


@pytest.mark.parametrize("wire", ["json", "query"])
def test_receiver_that_is_refused_tries_again_and_gets_through(
    node: NodeProcess, pool: ThreadPoolExecutor, wire: str
) -> None:
    idle, busy = made(node, "idle"), made(node, "busy")
    sqs = client(node.url, wire, tries=10)
    with parked(idle, pool):
        before = node.metric("skipmq_refused_total")
        receiving = pool.submit(sqs.receive_message, QueueUrl=busy, WaitTimeSeconds=20)
        eventually(lambda: node.metric("skipmq_refused_total") > before)
    client(node.url).send_message(QueueUrl=busy, MessageBody="at last")

    answer = receiving.result(timeout=SOON)

    assert answer["Messages"][0]["Body"] == "at last"
    assert answer["ResponseMetadata"]["RetryAttempts"] >= 1


def test_request_beyond_the_bound_is_refused_at_once_and_health_answers(
    node: NodeProcess, pool: ThreadPoolExecutor, owner: Connection
) -> None:
    queue = made(node, "orders")
    sqs = client(node.url)
    with owner.transaction():
        owner.execute("lock table skipmq.message in access exclusive mode")
        sending = [
            pool.submit(asked, queue, "SendMessage", MessageBody=f"body-{n}")
            for n in range(REQUESTS + 4)
        ]
        turned_away = eventually(lambda: done(sending, 4))
        refused = [asked(queue, "SendMessage", wire, MessageBody="8") for wire in ("json", "query")]
        health = [raw(f"{node.url}/health/{kind}").status for kind in ("live", "ready")]
        stuck = [future for future in sending if not future.done()]

    stored = [future.result(timeout=SOON) for future in stuck]
    found: list[str] = []
    while len(found) < REQUESTS:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found += [message["MessageId"] for message in answer["Messages"]]
    assert [answer.status for answer in stored] == [200] * REQUESTS
    assert sorted(found) == sorted(
        answer.body.partition("<MessageId>")[2].partition("<")[0] for answer in stored
    )
    assert {refusal(future.result()) for future in turned_away} == {REFUSED}
    assert [refusal(answer) for answer in refused] == [REFUSED] * 2
    assert health == [200, 200]


def test_queue_that_is_stuck_leaves_a_connection_to_others(
    node: NodeProcess, pool: ThreadPoolExecutor, owner: Connection
) -> None:
    """Have two transactions of one queue wait for a lock, on a node with two connections."""
    stuck, free = made(node, "stuck"), made(node, "free")
    sqs = client(node.url)
    handles = []
    for n in range(2):
        sqs.send_message(QueueUrl=stuck, MessageBody=f"stuck {n}")
        (message,) = sqs.receive_message(QueueUrl=stuck)["Messages"]
        handles.append(message["ReceiptHandle"])
    with owner.transaction():
        owner.execute("select from skipmq.message where body like 'stuck%' for update")
        # Deletes and changes do not share transactions.
        late = [
            pool.submit(sqs.delete_message, QueueUrl=stuck, ReceiptHandle=handles[0]),
            pool.submit(
                sqs.change_message_visibility,
                QueueUrl=stuck,
                ReceiptHandle=handles[1],
                VisibilityTimeout=0,
            ),
        ]
        eventually(lambda: is_blocked(owner))

        for n in range(10):
            assert sqs.send_message(QueueUrl=free, MessageBody=str(n))["MessageId"]
        assert not any(future.done() for future in late)

    for future in late:
        future.result(timeout=SOON)


async def test_connection_goes_to_who_has_waited_longest(database: str, owner: Connection) -> None:
    owner.execute("create table turn (place serial, who text)")
    queueing = Database(with_long_lock_timeout(database), size=1)
    insert = Statement("insert into turn (who) values ($1) returning who", TEXT)
    order = ["b", "d", "a", "c"]

    async def take_turn(who: str) -> None:
        await queueing.rows(insert, (who,), tenant=who)

    with owner.transaction():
        owner.execute("lock table turn in access exclusive mode")
        turns = [asyncio.create_task(take_turn("first"))]
        await loop.eventually(lambda: is_blocked(owner))
        for place, who in enumerate(order):
            turns.append(asyncio.create_task(take_turn(who)))
            await loop.eventually(lambda n=place + 1: waiting(queueing) == n)

    await asyncio.gather(*turns)
    queueing.close()
    found = owner.execute("select who from turn order by place").fetchall()
    assert [who for (who,) in found] == ["first", *order]


async def test_request_that_gets_no_connection_in_time_is_refused(
    database: str, owner: Connection
) -> None:
    owner.execute("create table held ()")
    queueing = Database(with_long_lock_timeout(database), size=1, connection_wait=0.01)
    one = Statement("select 1")
    with owner.transaction():
        owner.execute("lock table held in access exclusive mode")
        holding = asyncio.create_task(queueing.rows(Statement("select from held")))
        await loop.eventually(lambda: is_blocked(owner))

        with pytest.raises(errors.ServiceUnavailable, match="busy"):
            await queueing.rows(one)

    assert await holding == []
    assert await queueing.rows(one) == [(1,)]
    queueing.close()


async def test_request_whose_caller_is_cancelled_gives_its_connection_back(
    database: str, owner: Connection
) -> None:
    owner.execute("create table held ()")
    queueing = Database(with_long_lock_timeout(database), size=1)
    with owner.transaction():
        owner.execute("lock table held in access exclusive mode")
        tasks = [asyncio.create_task(queueing.rows(Statement("select from held")))]
        await loop.eventually(lambda: is_blocked(owner))
        tasks.append(asyncio.create_task(queueing.rows(Statement("select 2"))))
        await loop.eventually(lambda: waiting(queueing) == 1)
        for task in tasks:
            task.cancel()

        assert await queueing.rows(Statement("select 1")) == [(1,)]

    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in done] == [asyncio.CancelledError] * 2
    queueing.close()


async def test_connection_in_use_when_its_pool_is_closed_is_closed_after_its_statement(
    database: str, owner: Connection
) -> None:
    owner.execute("create table held ()")
    pool = Database(with_long_lock_timeout(database), size=1)
    with owner.transaction():
        owner.execute("lock table held in access exclusive mode")
        holding = asyncio.create_task(pool.rows(Statement("select from held")))
        await loop.eventually(lambda: is_blocked(owner))
        pool.close()

    assert await holding == []
    others = "select count(*) from pg_stat_activity where datname = current_database()"
    await loop.eventually(lambda: number(owner, f"{others} and pid <> pg_backend_pid()") == 0)


async def test_requests_that_look_a_queue_up_together_take_one_connection(
    database: str, owner: Connection
) -> None:
    node = Node(Settings(connections=1), with_long_lock_timeout(as_node(database)))
    owner.execute("select skipmq.create_queue('orders')")
    name = QueueName("000000000000", "us-east-1", "orders")

    def look_up() -> asyncio.Task[Queue]:
        return asyncio.create_task(node.queues.find(name, monotonic() + SOON))

    with owner.transaction():
        owner.execute("lock table skipmq.queue in access exclusive mode")
        lookups = [look_up()]
        await loop.eventually(lambda: is_blocked(owner))
        lookups += [look_up() for _ in range(5)]
        await loop.eventually(lambda: len(node.queues._lookups._waiting[name, 0].entries) == 5)  # noqa: SLF001

        assert waiting(node.database) == 0

    assert {queue.name for queue in await asyncio.gather(*lookups)} == {name}
    await node.close()


def waiting(database: Database) -> int:
    """Return how many wait for a connection."""
    return database.pool._permits.waiting()  # noqa: SLF001

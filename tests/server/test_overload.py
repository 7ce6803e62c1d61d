"""More requests than a node can take: who is refused, how, and who is not."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import psycopg
import pytest

from skipmq import errors
from skipmq.config import Settings
from skipmq.model import QueueName
from skipmq.node import Node
from skipmq.store import Database
from support.http import Answer, NodeProcess, client, eventually, raw
from support.postgres import Connection, Databases, as_node

# The fewest: eight requests at once, of which four may wait for messages.
THREADS, WAITING = 8, 4
SOON = 60
T = TypeVar("T")


@pytest.fixture
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def patient(url: str) -> str:
    """Have transactions wait for locks as long as a test likes to hold them."""
    return url + "&options=-c%20lock_timeout%3D60s"


@pytest.fixture
def node(database: str) -> Iterator[NodeProcess]:
    """Give a small node."""
    url = patient(as_node(database))
    with NodeProcess(
        database_url=url, workers=1, threads=THREADS, connections=2, log_level="debug"
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
        query = "&".join(f"{key}={value}" for key, value in parameters.items())
        return raw(f"{queue}?Action={action}&{query}")
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
        pool.submit(asked, queue, "ReceiveMessage", WaitTimeSeconds="20") for _ in range(THREADS)
    ]
    turned_away = eventually(lambda: done(futures, THREADS - WAITING))
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
            for n in range(THREADS + 4)
        ]
        turned_away = eventually(lambda: done(sending, 4))
        refused = [asked(queue, "SendMessage", wire, MessageBody="8") for wire in ("json", "query")]
        health = [raw(f"{node.url}/health/{kind}").status for kind in ("live", "ready")]
        stuck = [future for future in sending if not future.done()]

    stored = [future.result(timeout=SOON) for future in stuck]
    found: list[str] = []
    while len(found) < THREADS:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found += [message["MessageId"] for message in answer["Messages"]]
    assert [answer.status for answer in stored] == [200] * THREADS
    assert sorted(found) == sorted(
        answer.body.partition("<MessageId>")[2].partition("<")[0] for answer in stored
    )
    assert {refusal(future.result()) for future in turned_away} == {REFUSED}
    assert [refusal(answer) for answer in refused] == [REFUSED] * 2
    assert health == [200, 200]


def test_queue_that_is_stuck_leaves_a_connection_to_others(
    node: NodeProcess, pool: ThreadPoolExecutor, owner: Connection
) -> None:
    """Have three transactions of one queue wait for a lock, on a node with two connections."""
    stuck = made(node, "stuck.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    free = made(node, "free")
    with owner.transaction():
        owner.execute("select skipmq.send_fifo_message('stuck.fifo', 'mine', 'held', 'x')")
        # Senders do not share transactions.
        late = [
            pool.submit(
                client(node.url, key=f"00000000000{n}").send_message,
                QueueUrl=stuck,
                MessageBody=str(n),
                MessageGroupId="held",
            )
            for n in range(3)
        ]
        eventually(lambda: waits_for_a_lock(owner))

        for n in range(10):
            assert client(node.url).send_message(QueueUrl=free, MessageBody=str(n))["MessageId"]
        assert not any(future.done() for future in late)

    assert all(future.result(timeout=SOON)["SequenceNumber"] for future in late)


def waits_for_a_lock(owner: Connection) -> bool:
    found = owner.execute(
        "select from pg_locks join pg_database d on d.oid = database"
        " where d.datname = current_database() and not granted"
    )
    return found.fetchone() is not None


def test_connection_goes_to_who_has_waited_longest(
    database: str, owner: Connection, pool: ThreadPoolExecutor
) -> None:
    owner.execute("create table turn (place serial, who text)")
    queueing = Database(patient(database), size=1)
    order = ["b", "d", "a", "c"]

    def take_turn(who: str) -> None:
        with queueing.on_behalf_of(who):
            queueing.rows("insert into turn (who) values (%s) returning who", (who,))

    with owner.transaction():
        owner.execute("lock table turn in access exclusive mode")
        turns = [pool.submit(take_turn, "first")]
        eventually(lambda: waits_for_a_lock(owner))
        for place, who in enumerate(order):
            turns.append(pool.submit(take_turn, who))
            eventually(lambda n=place + 1: queueing.gate.waiting() == n)

    for turn in turns:
        turn.result(timeout=SOON)
    queueing.close()
    found = owner.execute("select who from turn order by place").fetchall()
    assert [who for (who,) in found] == ["first", *order]


def test_request_that_gets_no_connection_in_time_is_refused(
    database: str, owner: Connection, pool: ThreadPoolExecutor
) -> None:
    owner.execute("create table held ()")
    database_ = Database(patient(database), size=1, patience=0.01)
    with owner.transaction():
        owner.execute("lock table held in access exclusive mode")
        holding = pool.submit(database_.rows, "select from held")
        eventually(lambda: waits_for_a_lock(owner))

        with pytest.raises(errors.ServiceUnavailable, match="busy"):
            database_.rows("select 1")

    assert holding.result(timeout=SOON) == []
    assert database_.rows("select 1") == [(1,)]
    database_.close()


def test_requests_that_look_a_queue_up_together_take_one_connection(
    database: str, owner: Connection, pool: ThreadPoolExecutor
) -> None:
    node = Node(Settings(connections=1), patient(as_node(database)))
    owner.execute("select skipmq.create_queue('orders')")
    name = QueueName("000000000000", "us-east-1", "orders")
    with owner.transaction():
        owner.execute("lock table skipmq.queue in access exclusive mode")
        looking = [pool.submit(node.queue, name)]
        eventually(lambda: waits_for_a_lock(owner))
        looking += [pool.submit(node.queue, name) for _ in range(5)]
        eventually(lambda: len(node._lookups._pending[name]) == 5)  # noqa: SLF001

        assert node.database.gate.waiting() == 0

    assert {future.result(timeout=SOON).name for future in looking} == {name}
    node.close()

import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import psycopg
import pytest

from support.http import NodeProcess, client, eventually, raw
from support.postgres import Connection, Databases, as_node
from support.sql import number

Shared = tuple[NodeProcess, NodeProcess, Connection]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as executor:
        yield executor


@pytest.fixture(scope="module")
def shared(embedded_databases: Databases) -> Iterator[Shared]:
    """Give two nodes on one database, and a look into it."""
    url = embedded_databases.migrated()
    with (
        NodeProcess(database_url=as_node(url), workers=1, failover_wait=5) as one,
        NodeProcess(database_url=as_node(url), workers=1, failover_wait=5) as two,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        yield one.ready(), two.ready(), connection


def waiting(sqs: Any, queue: str, seconds: int = 20, **options: Any) -> list[str]:
    answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=seconds, **options)
    return [message["Body"] for message in answer.get("Messages", [])]


def parked(future: Future[list[str]]) -> None:
    """Give a receive the time to be parked: it is, when it has not answered by then."""
    with pytest.raises(TimeoutError):
        future.result(timeout=0.3)


def test_receive_waits_for_a_message_and_gets_it(
    sqs: Any, queue: str, pool: ThreadPoolExecutor
) -> None:
    future = pool.submit(waiting, sqs, queue)
    parked(future)

    sqs.send_message(QueueUrl=queue, MessageBody="here")

    assert future.result(timeout=15) == ["here"]


def test_receive_without_message_answers_when_its_time_is_over(sqs: Any, queue: str) -> None:
    began = time.monotonic()

    assert waiting(sqs, queue, 1) == []

    assert time.monotonic() - began >= 1


def test_receive_waits_as_long_as_the_queue_says_unless_the_call_says_otherwise(
    sqs: Any, name: str
) -> None:
    def made(seconds: int) -> str:
        attributes = {"ReceiveMessageWaitTimeSeconds": str(seconds)}
        url: str = sqs.create_queue(QueueName=f"{name}-{seconds}", Attributes=attributes)[
            "QueueUrl"
        ]
        return url

    short, long = made(1), made(20)
    began = time.monotonic()

    sqs.receive_message(QueueUrl=short)
    waited = time.monotonic() - began
    sqs.receive_message(QueueUrl=long, WaitTimeSeconds=0)

    assert waited >= 1
    # Far from the twenty seconds of the queue.
    assert time.monotonic() - began < 15


def test_receive_gets_a_delayed_message_when_it_is_due(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)

    assert waiting(sqs, queue) == ["later"]


def test_receive_gets_a_message_whose_visibility_timeout_ends(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="again")
    waiting(sqs, queue, VisibilityTimeout=2)

    assert waiting(sqs, queue) == ["again"]


def test_receive_gets_a_message_that_is_made_visible(
    sqs: Any, queue: str, pool: ThreadPoolExecutor
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="back")
    (message,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
    future = pool.submit(waiting, sqs, queue)
    parked(future)

    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )

    assert future.result(timeout=15) == ["back"]


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_receive_on_a_paused_queue_gets_its_message_when_it_is_resumed(
    sqs: Any, name: str, suffix: str, pool: ThreadPoolExecutor
) -> None:
    attributes = {"Paused": "true"} | ({"FifoQueue": "true"} if suffix else {})
    queue = sqs.create_queue(QueueName=name + suffix, Attributes=attributes)["QueueUrl"]
    fifo = {"MessageGroupId": "a", "MessageDeduplicationId": "a"} if suffix else {}
    sqs.send_message(QueueUrl=queue, MessageBody="held", **fifo)
    assert waiting(sqs, queue, 0) == []
    future = pool.submit(waiting, sqs, queue)
    parked(future)

    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Paused": "false"})

    assert future.result(timeout=15) == ["held"]


def test_many_receivers_get_each_message_once(
    sqs: Any, queue: str, pool: ThreadPoolExecutor
) -> None:
    futures = [pool.submit(waiting, sqs, queue) for _ in range(12)]
    for future in futures:
        parked(future)

    for n in range(12):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))

    got = [body for future in futures for body in future.result(timeout=19)]
    assert sorted(got, key=int) == [str(n) for n in range(12)]


def test_receive_on_a_queue_that_is_deleted_says_so(
    sqs: Any, queue: str, pool: ThreadPoolExecutor
) -> None:
    future = pool.submit(waiting, sqs, queue)
    parked(future)

    sqs.delete_queue(QueueUrl=queue)

    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        future.result(timeout=15)


def test_receive_goes_on_over_a_purge(sqs: Any, queue: str, pool: ThreadPoolExecutor) -> None:
    future = pool.submit(waiting, sqs, queue)
    parked(future)

    sqs.purge_queue(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="after")

    assert future.result(timeout=15) == ["after"]


def test_receive_is_woken_by_a_send_on_another_node(
    shared: tuple[NodeProcess, NodeProcess, Connection],
    wire: str,
    name: str,
    pool: ThreadPoolExecutor,
) -> None:
    here, there = (client(node.url, wire) for node in shared[:2])
    queue = here.create_queue(QueueName=name)["QueueUrl"]
    future = pool.submit(waiting, here, queue)
    parked(future)

    there.send_message(QueueUrl=queue, MessageBody="from there")

    assert future.result(timeout=15) == ["from there"]


def test_receive_survives_the_loss_of_the_listeners_connection(
    shared: tuple[NodeProcess, NodeProcess, Connection],
    wire: str,
    name: str,
    pool: ThreadPoolExecutor,
) -> None:
    here, there = (client(node.url, wire) for node in shared[:2])
    queue = here.create_queue(QueueName=name)["QueueUrl"]
    future = pool.submit(waiting, here, queue)
    parked(future)
    listening = (
        "from pg_stat_activity where query = 'listen skipmq' and datname = current_database()"
    )
    count = f"select count(*) {listening}"
    eventually(lambda: shared[2].execute(count).fetchone() == (2,), why="both nodes listen")
    shared[2].execute(f"select pg_terminate_backend(pid) {listening}")

    there.send_message(QueueUrl=queue, MessageBody="anyway")

    assert future.result(timeout=15) == ["anyway"]


def test_waiting_receivers_hold_no_connection(shared: Shared, wire: str, name: str) -> None:
    node, connection = shared[0], shared[2]
    sqs = client(node.url, wire)
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    busy = (
        "select count(*) from pg_stat_activity where application_name like 'skipmq %%'"
        " and state <> 'idle' and datname = current_database()"
    )
    with ThreadPoolExecutor(40) as executor:
        futures = [executor.submit(waiting, sqs, queue) for _ in range(40)]
        threading.Event().wait(1)

        sqs.send_message(QueueUrl=queue, MessageBody="quick")
        served = wait(futures, timeout=15, return_when=FIRST_COMPLETED).done
        # However long it took until the last of them was parked.
        eventually(lambda: number(connection, busy) <= 4, why="few connections are busy")

        assert [future.result() for future in served] == [["quick"]]
        for _ in range(39):
            sqs.send_message(QueueUrl=queue, MessageBody="for another")
        assert [len(future.result()) for future in futures] == [1] * 40


def test_receive_is_woken_after_somebody_sent_nonsense_on_the_channel(
    shared: Shared, wire: str, name: str, pool: ThreadPoolExecutor
) -> None:
    here, there = (client(node.url, wire) for node in shared[:2])
    queue = here.create_queue(QueueName=name)["QueueUrl"]
    for payload in ("x", "", "a b c d", "1 waiting " + "q" * 7000):
        shared[2].execute("select pg_notify('skipmq', %s)", (payload,))
    future = pool.submit(waiting, here, queue)
    parked(future)

    there.send_message(QueueUrl=queue, MessageBody="still")

    assert future.result(timeout=15) == ["still"]
    assert "Traceback" not in shared[0].log + shared[1].log


def test_message_with_unreadable_attributes_does_not_hide_the_others(
    shared: Shared, wire: str, name: str
) -> None:
    sqs = client(shared[0].url, wire)
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="good")
    sqs.send_message(QueueUrl=queue, MessageBody="bad")
    shared[2].execute("update skipmq.message set attributes = '[' where body = 'bad'")

    found = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )["Messages"]

    assert sorted(m["Body"] for m in found) == ["bad", "good"]


def test_node_recovers_when_the_database_was_read_only(
    shared: Shared, name: str, pool: ThreadPoolExecutor
) -> None:
    """On one wire: requests wait as long as for a failover."""
    sqs = client(shared[0].url, "json")
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    database = shared[2].info.dbname
    restart = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where usename = 'skipmq_node' and datname = current_database()"
    )
    shared[2].execute(f"alter database {database} set default_transaction_read_only = on")
    shared[2].execute(restart)
    try:
        # At once: each waits for a database to write to.
        send = b"Action=SendMessage&MessageBody=x"
        answers = pool.map(lambda _: raw(queue, send), range(5))
        statuses = {answer.status for answer in answers}
    finally:
        shared[2].execute(f"alter database {database} reset default_transaction_read_only")

    for node in shared[:2]:
        # A lost connection is noticed by the one request that meets it.
        eventually(lambda url=node.url: raw(f"{url}/?Action=ListQueues").status == 200)
    eventually(lambda: raw(queue, send.replace(b"=x", b"=again")).status == 200)

    assert statuses == {503}
    assert waiting(sqs, queue) == ["again"]


def test_node_goes_on_when_a_migration_changes_what_a_function_gives(
    shared: Shared, wire: str, name: str
) -> None:
    sqs = client(shared[0].url, wire)
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]

    def visible() -> str:
        found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        return str(found["ApproximateNumberOfMessages"])

    before = [visible() for _ in range(5)]
    with shared[2].transaction():
        shared[2].execute("alter function skipmq.count_messages rename to count_messages_old")
        shared[2].execute(
            "create function skipmq.count_messages(p_queue_id bigint)"
            " returns table (visible bigint, in_flight bigint, delayed bigint, more text)"
            " language sql security definer as $$ select 7::bigint, 0::bigint, 0::bigint, '' $$"
        )
    try:
        during = [visible() for _ in range(5)]
    finally:
        shared[2].execute("drop function skipmq.count_messages")
        shared[2].execute("alter function skipmq.count_messages_old rename to count_messages")

    assert before == ["0"] * 5
    assert during == ["7"] * 5

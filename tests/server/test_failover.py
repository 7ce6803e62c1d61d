"""What a node does when its database goes away: on a real server, frozen, crashed and cut off."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from botocore.exceptions import ClientError

from skipmq.database import embedded
from support import servers
from support.clock import connect
from support.http import NodeProcess, client, eventually
from support.postgres import Connection, Databases, as_node
from support.processes import postmaster_of
from support.proxy import Proxy
from support.sql import number
from support.standby import WAITING_SENDS, wait_for_standby
from support.trees import frozen

DEADLINE = 2


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[embedded.Server]:
    with servers.start(server_folder / "failing", ephemeral=True, migrated=True) as found:
        yield found


@pytest.fixture(scope="module")
def url(server: embedded.Server) -> str:
    return Databases(server).migrated()


@pytest.fixture(scope="module")
def proxy(server: embedded.Server) -> Iterator[Proxy]:
    parts = psycopg.conninfo.conninfo_to_dict(server.url)
    with Proxy(Path(str(parts["host"])) / ".s.PGSQL.5432") as found:
        yield found


@pytest.fixture(scope="module")
def node(url: str, proxy: Proxy) -> Iterator[NodeProcess]:
    """Give a node whose way to the database is the proxy."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    through = f"postgresql://skipmq_node@127.0.0.1:{proxy.port}/{name}"
    with NodeProcess(database_url=through, workers=1, database_deadline=DEADLINE) as found:
        yield found.ready()


@pytest.fixture
def owner(url: str) -> Iterator[Connection]:
    with connect(url) as connection:
        yield connection


def queue(node: NodeProcess, name: str, **attributes: str) -> tuple[Any, str]:
    sqs = client(node.url)
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return sqs, url


def bodies(sqs: Any, url: str) -> list[str]:
    found: list[str] = []
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        found += [message["Body"] for message in messages]
    return found


def test_send_whose_answer_is_lost_is_stored_once(node: NodeProcess, proxy: Proxy) -> None:
    sqs, url = queue(node, "standard")
    retried = node.metric("skipmq_retried_total")

    with proxy.losing_the_reply_to(b"lost answer"):
        sent = sqs.send_message(QueueUrl=url, MessageBody="lost answer")

    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert message["MessageId"] == sent["MessageId"]
    # A machine that stands still for longer than the deadline has it tried once more.
    assert node.metric("skipmq_retried_total") > retried


def test_delayed_batch_whose_answer_is_lost_is_stored_once(
    node: NodeProcess, proxy: Proxy, owner: Connection
) -> None:
    sqs, url = queue(node, "batch")
    entries = [{"Id": str(n), "MessageBody": f"batch {n}", "DelaySeconds": n} for n in range(10)]

    with proxy.losing_the_reply_to(b"batch 3"):
        sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert len(sent["Successful"]) == 10
    assert number(owner, "select count(*) from skipmq.message where body like 'batch _'") == 10


def test_fifo_send_whose_answer_is_lost_keeps_its_number(node: NodeProcess, proxy: Proxy) -> None:
    sqs, url = queue(node, "orders.fifo", FifoQueue="true")

    with proxy.losing_the_reply_to(b"first of a group"):
        sent = sqs.send_message(
            QueueUrl=url,
            MessageBody="first of a group",
            MessageGroupId="g",
            MessageDeduplicationId="d",
        )

    (message,) = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["SequenceNumber"]
    )["Messages"]
    assert message["Attributes"]["SequenceNumber"] == sent["SequenceNumber"]


def test_delete_whose_answer_is_lost_is_done(
    node: NodeProcess, proxy: Proxy, owner: Connection
) -> None:
    for name, extra in (
        ("gone", {}),
        ("gone.fifo", {"MessageGroupId": "g", "MessageDeduplicationId": "d"}),
    ):
        fifo = {"FifoQueue": "true"} if extra else {}
        sqs, url = queue(node, name, **fifo)
        sqs.send_message(QueueUrl=url, MessageBody="to go", **extra)
        (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=600)["Messages"]

        # The function's name is sent with the first statement of a connection only.
        function = b"skipmq.delete_fifo_messages" if extra else b"skipmq.delete_messages"
        with proxy.losing_the_reply_to(function):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

        assert number(owner, "select count(*) from skipmq.message where body = 'to go'") == 0


def test_purge_whose_answer_is_lost_is_not_done_twice(node: NodeProcess, proxy: Proxy) -> None:
    sqs, url = queue(node, "purged")

    with (
        proxy.losing_the_reply_to(b"skipmq.purge_queue"),
        pytest.raises(ClientError, match="whether the request has been done is not known"),
    ):
        sqs.purge_queue(QueueUrl=url)

    with pytest.raises(ClientError, match="PurgeQueueInProgress"):
        sqs.purge_queue(QueueUrl=url)


def test_frozen_server_holds_no_request_and_what_it_may_have_done_is_not_done_twice(
    node: NodeProcess, server: embedded.Server
) -> None:
    sqs, url = queue(node, "frozen")
    # Requests of one queue share a transaction, and one waits for all of them.
    _, other = queue(node, "frozen-too")
    sqs.send_message(QueueUrl=url, MessageBody="before")

    def cut() -> float:
        # To read the metrics is a search: it may have taken the connection that there was.
        names = ("skipmq_database_deadlines_total", "skipmq_search_deadlines_total")
        return sum(node.metric(name) for name in names)

    before = cut()
    with ThreadPoolExecutor() as pool:
        with frozen(postmaster_of(Path(server.data_dir))):
            sending = [pool.submit(sqs.send_message, QueueUrl=url, MessageBody="while")]
            eventually(lambda: cut() > before)
            eventually(lambda: node.metric("skipmq_database_available") == 0)
            sending.extend(
                pool.submit(sqs.send_message, QueueUrl=each, MessageBody="later")
                for each in (url, other)
            )
            eventually(lambda: node.metric("skipmq_waiting_for_database") >= 2)
        for sent in sending:
            sent.result()

    assert sorted(bodies(sqs, url)) == ["before", "later", "while"]
    assert bodies(sqs, other) == ["later"]
    # The other workers notice by themselves.
    eventually(lambda: node.metric("skipmq_database_available") == 1)
    assert "database unavailable" in node.log
    assert "database available again" in node.log


def test_crash_of_the_server_reaches_no_client(node: NodeProcess, owner: Connection) -> None:
    sqs, url = queue(node, "crash")
    ended, sent = threading.Event(), []

    def send() -> None:
        while not ended.is_set():
            body = f"{threading.get_ident()}-{len(sent)}"
            sqs.send_message(QueueUrl=url, MessageBody=body)
            sent.append(body)

    with ThreadPoolExecutor() as pool:
        running = [pool.submit(send) for _ in range(4)]
        try:
            eventually(lambda: len(sent) > 50)
            retried = node.metric("skipmq_retried_total")
            psutil.Process(owner.info.backend_pid).kill()
            eventually(lambda: node.metric("skipmq_retried_total") > retried)
            after = len(sent)
            eventually(lambda: len(sent) > after + 50)
        finally:
            ended.set()
        for each in running:
            each.result()

    assert sorted(bodies(sqs, url)) == sorted(sent)


def test_waiting_receiver_hears_of_other_nodes_again_after_the_server_was_frozen(
    node: NodeProcess, server: embedded.Server, url: str
) -> None:
    sqs, queue_url = queue(node, "listening")
    with ThreadPoolExecutor() as pool, frozen(postmaster_of(Path(server.data_dir))):
        asked = pool.submit(sqs.receive_message, QueueUrl=queue_url)
        eventually(lambda: node.metric("skipmq_database_available") == 0)
    asked.result()
    heard = "select count(*) from pg_stat_activity where query = 'listen skipmq' and datname = %s"
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with connect(server.url) as admin:
        eventually(lambda: number(admin, heard, name) == 1, why="it listens, once")

    with (
        NodeProcess(database_url=as_node(url), workers=1) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.ready()
        waiting = pool.submit(sqs.receive_message, QueueUrl=queue_url, WaitTimeSeconds=20)
        elsewhere = queue_url.replace(node.url, other.url)
        client(other.url).send_message(QueueUrl=elsewhere, MessageBody="hello")

        (message,) = waiting.result()["Messages"]
    assert message["Body"] == "hello"


@pytest.fixture
def patient(url: str) -> Iterator[NodeProcess]:
    """Give a node that cuts no connection while a test lasts."""
    with NodeProcess(database_url=as_node(url), workers=1, database_deadline=60) as found:
        yield found.ready()


def test_commit_whose_wait_for_a_standby_is_cancelled_is_no_success_yet(
    patient: NodeProcess, owner: Connection
) -> None:
    sqs, url = queue(patient, "cancelled")
    try:
        wait_for_standby(owner, "nobody")
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(sqs.send_message, QueueUrl=url, MessageBody="once")
            eventually(lambda: number(owner, f"select count(*) {WAITING_SENDS}") == 1)
            unknown = number(owner, f"select pid {WAITING_SENDS}")
            owner.execute("select pg_cancel_backend(%s)", (unknown,))
            # Tried again, on another connection: it waits for the standby too.
            eventually(
                lambda: number(owner, f"select count(*) {WAITING_SENDS} and pid <> {unknown}")
            )
            assert not sending.done()
            wait_for_standby(owner, "")
            sending.result()
    finally:
        wait_for_standby(owner, "")

    assert bodies(sqs, url) == ["once"]


def test_sends_wait_for_standbys_that_are_all_away_and_others_do_not(
    node: NodeProcess, owner: Connection
) -> None:
    sqs, durable = queue(node, "durable")
    _, lax = queue(node, "lax", ReplicationMode="none")
    try:
        wait_for_standby(owner, "nobody")
        with ThreadPoolExecutor() as pool:
            first = pool.submit(sqs.send_message, QueueUrl=durable, MessageBody="first")
            eventually(lambda: node.metric("skipmq_standbys_available") == 0)
            stuck = f"select count(*) {WAITING_SENDS}"
            before = number(owner, stuck)
            more = [
                pool.submit(sqs.send_message, QueueUrl=durable, MessageBody=f"more {n}")
                for n in range(8)
            ]
            eventually(lambda: node.metric("skipmq_waiting_for_standbys") == 1)
            # They take no connection of the server, and others go on.
            assert number(owner, stuck) == before
            sqs.send_message(QueueUrl=lax, MessageBody="lax")
            assert bodies(sqs, lax) == ["lax"]
            assert bodies(sqs, durable) == []
            wait_for_standby(owner, "")
            for each in (first, *more):
                each.result()
    finally:
        wait_for_standby(owner, "")

    assert sorted(bodies(sqs, durable)) == ["first", *[f"more {n}" for n in range(8)]]


def test_request_waits_no_longer_than_is_set_and_stops_with_the_node(
    server: embedded.Server, url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with (
        NodeProcess(database_url=as_node(url), workers=1, failover_wait=1) as impatient,
        NodeProcess(database_url=as_node(url), workers=1, failover_wait=60) as patient,
        connect(server.url) as admin,
        ThreadPoolExecutor() as pool,
    ):
        sqs, there = queue(impatient.ready(), "impatient")
        patient.ready()
        admin.execute(f"alter database {name} allow_connections false")
        try:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                (name,),
            )
            with pytest.raises(ClientError, match="ServiceUnavailable") as refused:
                sqs.send_message(QueueUrl=there, MessageBody="now")
            elsewhere = there.replace(impatient.url, patient.url)
            waiting = pool.submit(
                client(patient.url).send_message, QueueUrl=elsewhere, MessageBody="now"
            )
            eventually(lambda: patient.metric("skipmq_waiting_for_database") == 1)
            patient.process.send_signal(signal.SIGTERM)
            with pytest.raises(ClientError, match="ServiceUnavailable"):
                waiting.result(timeout=20)
            assert patient.process.wait(timeout=20) == 0
        finally:
            admin.execute(f"alter database {name} allow_connections true")

    headers = refused.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["retry-after"] == "1"

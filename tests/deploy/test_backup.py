"""Backup and restore from end to end, and what a queue is like after it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipmq.database import schema
from support.backup import Server
from support.http import NodeProcess, client, eventually
from support.postgres import as_node
from support.sql import number
from support.traffic import Traffic

# Requests outlast the restore: the node runs on through it.
PATIENT = {"failover_wait": 60, "workers": 1}
# Longer than what comes before the moment of the restore takes.
SHORT = 20


@pytest.fixture
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="skipmq-backup-"))
    try:
        with Server(folder) as server:
            schema.migrate(server.url)
            yield server
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def node(server: Server) -> Iterator[NodeProcess]:
    with NodeProcess(database_url=as_node(server.url), **PATIENT) as node:
        yield node.ready()


class Shop:
    """A queue and a client."""

    def __init__(self, node: NodeProcess, name: str, **attributes: str) -> None:
        self.sqs = client(node.url)
        self.url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def send(self, body: str, **parameters: Any) -> Any:
        return self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **parameters)

    def receive(self, timeout: int = 3600, most: int = 10) -> dict[str, str]:
        """Return the handles of what is received, by body."""
        found: dict[str, str] = {}
        while messages := self.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=most, VisibilityTimeout=timeout
        ).get("Messages"):
            found |= {message["Body"]: message["ReceiptHandle"] for message in messages}
            if most == 1:
                break
        return found

    def show(self, handle: str) -> None:
        """Make visible what is in flight."""
        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=0
        )

    def delete(self, handle: str) -> None:
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)


def test_total_loss_of_the_server_loses_nothing_that_was_acknowledged(
    server: Server, node: NodeProcess
) -> None:
    with server.receiving(server.wal):
        with server.connect() as connection:
            connection.execute("alter system set synchronous_standby_names = 'pg_receivewal'")
            connection.execute("select pg_reload_conf()")
        with Traffic(node.url, consumers=0) as traffic:
            traffic.goes_on()
            server.take_backup()
            traffic.goes_on()
            server.lose()
            server.restore()
            with server.receiving(server.wal.with_name("wal-after")):
                traffic.goes_on()
                traffic.stop_sending()
                with server.connect() as connection:
                    found = connection.execute(
                        "select body from skipmq.message where queue_id <> 0"
                    ).fetchall()

    assert traffic.errors == []
    assert sorted(body for (body,) in found) == sorted(traffic.sent)


@pytest.mark.slow
def test_restore_to_a_time_undoes_a_deleted_queue(server: Server, node: NodeProcess) -> None:
    orders = Shop(node, "orders")
    fifo = Shop(node, "orders.fifo", FifoQueue="true")
    with server.receiving(server.wal):
        server.take_backup()
        for body in ("short", "long", "waits", "done before", "done after", "taken after"):
            orders.send(body)
        handles = orders.receive(timeout=SHORT, most=1) | orders.receive(timeout=3600)
        for body in ("waits", "done after", "taken after"):
            orders.show(handles[body])
        orders.delete(handles["done before"])
        first = fifo.send("one", MessageGroupId="g", MessageDeduplicationId="1")
        with server.connect() as connection:
            moment = number(connection, "select clock_timestamp()::text")

        # What will not have happened.
        after = orders.receive()
        orders.delete(after["done after"])
        fifo.send("two", MessageGroupId="g", MessageDeduplicationId="2")
        lost = [orders.send(f"lost {n}") for n in range(100)]
        # On a slow machine the short one may have come back already, which does not happen either.
        stale = {body: handle for body, handle in orders.receive().items() if "lost" in body}
        assert len(stale) == len(lost)
        # The mistake, and its end.
        orders.sqs.delete_queue(QueueUrl=orders.url)
        with server.connect() as connection:
            connection.execute("select pg_switch_wal()")
            end = number(connection, "select pg_current_wal_flush_lsn()")
            eventually(
                lambda: number(
                    connection,
                    "select flush_lsn >= %s from pg_stat_replication"
                    " where application_name = 'pg_receivewal'",
                    end,
                )
            )
    server.lose()
    server.restore(moment)

    check_messages(orders, handles, after)
    check_old_handles(orders, stale)
    check_deduplication(fifo, first)


def check_messages(orders: Shop, handles: dict[str, str], after: dict[str, str]) -> None:
    """Check that everything is as it was at that time, to the node that ran on."""
    back: dict[str, str] = {}

    def received() -> bool:
        back.update(orders.receive())
        return back.keys() >= {"short"}

    # It became visible again when the timeout that it had ended.
    eventually(received)
    assert set(back) == {"short", "waits", "done after", "taken after"}
    # In flight at that time: hidden for as long as was said, and its handle still deletes it.
    orders.delete(handles["long"])
    # Received later: given again; the handle of the receive that was undone is as good as the new.
    orders.delete(after["taken after"])
    counts = orders.sqs.get_queue_attributes(
        QueueUrl=orders.url,
        AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
    )["Attributes"]
    assert set(counts.values()) == {"0", "3"}


def check_old_handles(orders: Shop, stale: dict[str, str]) -> None:
    """Check that handles of messages that never were do nothing to new ones."""
    bodies = {f"new {n}" for n in range(len(stale))}
    for body in bodies:
        orders.send(body)
    received = orders.receive()
    assert set(received) == bodies
    for handle in stale.values():
        orders.delete(handle)
    for handle in received.values():
        orders.show(handle)
    assert set(orders.receive()) == bodies


def check_deduplication(fifo: Shop, first: dict[str, str]) -> None:
    """Check that a FIFO queue knows what was sent before that time and nothing of later."""
    repeated = fifo.send("one", MessageGroupId="g", MessageDeduplicationId="1")
    assert repeated["MessageId"] == first["MessageId"]
    fifo.send("two", MessageGroupId="g", MessageDeduplicationId="2")
    assert list(fifo.receive()) == ["one", "two"]

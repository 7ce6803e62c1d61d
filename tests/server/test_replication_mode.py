"""For whom a send waits: for standbys that never come, that are frozen, and that are there."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq.broker.messages.message import OutgoingMessage
from skipmq.broker.messages.statements import receipts_for
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.config.settings import Settings
from skipmq.database import embedded
from skipmq.protocol import errors
from skipmq.protocol.call import Recipient
from skipmq.protocol.identity import QueueName
from skipmq.protocol.message import new_uuid
from support import servers, standby
from support.clock import connect
from support.http import NodeProcess, client, eventually, raw
from support.postgres import Connection, Databases, as_node
from support.processes import postmaster_of
from support.sql import number
from support.standby import WAITING_SENDS, wait_for_standby
from support.trees import frozen

_number = count(1)


@pytest.fixture(scope="module")
def lonely(server_folder: Path) -> Iterator[tuple[Any, Connection]]:
    """Give a client and a connection of the owner."""
    with servers.start(server_folder / "lonely", ephemeral=True, migrated=True) as server:
        url = Databases(server).migrated()
        with (
            connect(url) as owner,
            NodeProcess(database_url=as_node(url), workers=1, replication_check="warn") as node,
        ):
            node.ready()
            yield client(node.url, "json"), owner


@pytest.mark.parametrize("suffix", ["", pytest.param(".fifo", marks=pytest.mark.slow)])
def test_send_waits_for_standbys_unless_its_queue_says_none(
    lonely: tuple[Any, Connection], suffix: str
) -> None:
    sqs, owner = lonely
    fifo = {"FifoQueue": "true"} if suffix else {}
    urls = {
        mode: sqs.create_queue(
            QueueName=f"{mode}{suffix}", Attributes={"ReplicationMode": mode, **fifo}
        )["QueueUrl"]
        for mode in ("none", "any")
    }
    extra = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if suffix else {}

    def send(mode: str) -> Any:
        return sqs.send_message(QueueUrl=urls[mode], MessageBody=mode, **extra)

    wait_for_standby(owner, "nobody")
    try:
        with ThreadPoolExecutor(1) as pool:
            assert send("none")["MessageId"]
            (alone,) = sqs.receive_message(QueueUrl=urls["none"])["Messages"]
            sqs.delete_message(QueueUrl=urls["none"], ReceiptHandle=alone["ReceiptHandle"])
            sending = pool.submit(send, "any")
            eventually(
                lambda: number(owner, f"select count(*) {WAITING_SENDS}"),
                why="the send waits for a standby",
            )
            assert "Messages" not in sqs.receive_message(QueueUrl=urls["any"])
            wait_for_standby(owner, "")
            assert sending.result()["MessageId"]
    finally:
        wait_for_standby(owner, "")

    (message,) = sqs.receive_message(QueueUrl=urls["any"], WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "any"


@pytest.fixture(scope="module")
def cluster(server_folder: Path) -> Iterator[tuple[embedded.Server, embedded.Server]]:
    """Give a primary that waits for any of its two standbys, and one of those."""
    # Where tests of other files come between, this is made again.
    folder = server_folder / f"replication-{next(_number)}"
    with servers.start(folder / "primary", migrated=True) as primary, ExitStack() as stack:
        for name in ("one", "two"):
            standby.copy(primary.url, folder / name, name)
            last = stack.enter_context(servers.start(folder / name))
        with connect(primary.url) as admin:
            admin.execute("alter system set synchronous_standby_names = 'ANY 1 (one, two)'")
            admin.execute("select pg_reload_conf()")
            count = "select count(*) from pg_stat_replication where sync_state = 'quorum'"
            eventually(lambda: number(admin, count) == 2)
            yield primary, last
            # The next test of this module may use the server without its standbys.
            admin.execute("set synchronous_commit = local")
            admin.execute("alter system reset synchronous_standby_names")


def test_all_waits_for_every_standby_and_majority_for_enough(
    cluster: tuple[embedded.Server, embedded.Server],
) -> None:
    primary, two = cluster
    url = Databases(primary).migrated()
    names = ("any", "majority", "all", "all.fifo")
    with NodeProcess(database_url=as_node(url), workers=1) as node, ThreadPoolExecutor() as pool:
        sqs = client(node.ready().url)
        urls = {}
        for name in names:
            fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            mode = name.removesuffix(".fifo")
            urls[name] = sqs.create_queue(
                QueueName=name, Attributes={"ReplicationMode": mode, **fifo}
            )["QueueUrl"]

        def send(name: str) -> Any:
            extra = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
            fifo = extra if name.endswith(".fifo") else {}
            return sqs.send_message(QueueUrl=urls[name], MessageBody=name, **fifo)

        with frozen(postmaster_of(Path(two.data_dir))):
            for name in ("any", "majority"):
                send(name)
            waiting = [pool.submit(send, name) for name in ("all", "all.fifo")]
            with connect(url) as owner:
                sent = "select count(*) from skipmq.message where body ~ '^all'"
                eventually(lambda: number(owner, sent) == 2)
            done, _ = wait(waiting, timeout=0.5)
            assert not done
        for each in waiting:
            assert each.result()["MessageId"]
        ready = raw(node.url + "/health/ready").body

    assert "1 of 2 standbys acknowledge each commit" in ready


@asynccontextmanager
async def connected(url: str, settings: Settings) -> AsyncIterator[tuple[Node, Connection]]:
    """Give a node and a connection of the owner."""
    node = Node(settings, as_node(url))
    try:
        with connect(url) as owner:
            yield node, owner
    finally:
        await node.close()


def outgoing(n: int) -> OutgoingMessage:
    return OutgoingMessage(new_uuid(), str(n), 1, group_id=str(n), deduplication_id=str(n))


async def all_queue(node: Node, name: str) -> Queue:
    """Create a queue of which all servers must have what is acknowledged, and return it."""
    fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    queue_name = QueueName("000000000000", "us-east-1", name)
    await node.queues.create(
        queue_name,
        attributes={"ReplicationMode": "all", **fifo},
        tags={},
        history_mode="off",
        cooldown=0,
        deadline=node.deadline(),
    )
    return await node.queues.find(queue_name, node.deadline())


def stored(owner: Connection) -> list[str]:
    """Return what is stored, each as often as it is."""
    rows = owner.execute("select body from skipmq.message where queue_id > 0 order by body")
    return [body for (body,) in rows.fetchall()]


@pytest.mark.parametrize("name", [pytest.param("all", marks=pytest.mark.slow), "all.fifo"])
async def test_send_that_cannot_be_confirmed_is_of_unknown_outcome_and_stored_once(
    cluster: tuple[embedded.Server, embedded.Server], name: str
) -> None:
    url = Databases(cluster[0]).migrated()
    async with connected(url, Settings(replication_check="warn")) as (node, owner):
        queue = await all_queue(node, name)
        owner.execute("revoke execute on function skipmq.acknowledged(text) from skipmq_node")

        # They travel in one transaction.
        sends = [
            node.messages(queue).send(queue, [outgoing(n)], "tester", node.deadline())
            for n in range(3)
        ]
        found = await asyncio.gather(*sends, return_exceptions=True)

        assert [type(error) for error in found] == [errors.OutcomeUnknown] * 3
        assert stored(owner) == ["0", "1", "2"]


async def test_delete_that_cannot_be_confirmed_is_of_unknown_outcome_and_done(
    cluster: tuple[embedded.Server, embedded.Server],
) -> None:
    url = Databases(cluster[0]).migrated()
    async with connected(url, Settings(replication_check="warn")) as (node, owner):
        queue = await all_queue(node, "all.fifo")
        await node.messages(queue).send(queue, [outgoing(1)], "tester", node.deadline())
        reception = await node.messages(queue).receive(queue, 1, None, node.deadline(), Recipient())
        receipts = receipts_for(reception.messages)
        owner.execute("revoke execute on function skipmq.acknowledged(text) from skipmq_node")

        with pytest.raises(errors.OutcomeUnknown):
            await node.messages(queue).delete(queue, receipts, node.deadline())

        assert len(receipts) == 1
        assert stored(owner) == []


async def test_send_that_is_not_confirmed_in_time_is_of_unknown_outcome_and_stored_once(
    cluster: tuple[embedded.Server, embedded.Server],
) -> None:
    primary, two = cluster
    url = Databases(primary).migrated()
    async with connected(url, Settings()) as (node, owner):
        queue = await all_queue(node, "all")
        with frozen(postmaster_of(Path(two.data_dir))), pytest.raises(errors.OutcomeUnknown):
            await node.messages(queue).send(queue, [outgoing(1)], "tester", deadline=0.0)

        assert stored(owner) == ["1"]


def test_node_refuses_what_the_cluster_does_not_give(database: str) -> None:
    with NodeProcess(database_url=as_node(database), workers=1) as node:
        sqs = client(node.ready().url)
        url = sqs.create_queue(QueueName="plain")["QueueUrl"]

        for mode in ("any", "majority", "all"):
            with pytest.raises(ClientError, match="synchronous_standby_names is empty"):
                sqs.create_queue(QueueName="asking", Attributes={"ReplicationMode": mode})
            with pytest.raises(ClientError, match="InvalidAttributeValue"):
                sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReplicationMode": mode})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReplicationMode": "none"})
        ready = raw(node.url + "/health/ready").body

    assert "what is acknowledged is on one server" in ready

"""For whom a send waits: for standbys that never come, that are frozen, and that are there."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq import embedded
from support import standby
from support.clock import connect
from support.http import NodeProcess, client, eventually, raw
from support.postgres import Connection, Databases, as_node
from support.processes import postmaster_of
from support.sql import number
from support.standby import WAITING_SENDS, wait_for_standby
from support.trees import frozen


@pytest.fixture(scope="module")
def lonely(public_folder: Path) -> Iterator[tuple[Any, Connection]]:
    """Give a client and a connection of the owner."""
    with embedded.start(public_folder / "lonely", ephemeral=True) as server:
        url = Databases(server).migrated()
        with (
            connect(url) as owner,
            NodeProcess(database_url=as_node(url), workers=1, replication_check="warn") as node,
        ):
            node.ready()
            yield client(node.url, "json"), owner


@pytest.mark.parametrize("suffix", ["", ".fifo"])
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
def cluster(public_folder: Path) -> Iterator[tuple[embedded.Server, embedded.Server]]:
    """Give a primary that waits for any of its two standbys, and one of those."""
    with embedded.start(public_folder / "primary") as primary, ExitStack() as stack:
        for name in ("one", "two"):
            standby.copy(primary.url, public_folder / name, name)
            last = stack.enter_context(embedded.start(public_folder / name))
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

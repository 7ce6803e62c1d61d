"""For whom a send waits, on a server that is set up to wait for a standby that never comes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skipmq import embedded
from support.clock import connect
from support.http import NodeProcess, client, eventually
from support.postgres import Connection, Databases, as_node
from support.sql import number


@pytest.fixture(scope="module")
def lonely(public_folder: Path) -> Iterator[tuple[Any, Connection]]:
    """Give a client and a connection of the owner."""
    with embedded.start(public_folder / "lonely", ephemeral=True) as server:
        url = Databases(server).migrated()
        with connect(url) as owner, NodeProcess(database_url=as_node(url), workers=1) as node:
            node.ready()
            yield client(node.url, "json"), owner


def wait_for_standby(owner: Connection, name: str) -> None:
    owner.execute("set synchronous_commit = local")
    owner.execute(f"alter system set synchronous_standby_names = '{name}'")
    owner.execute("select pg_reload_conf()")
    eventually(
        lambda: number(owner, "show synchronous_standby_names") == name, why="the setting is read"
    )


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
                lambda: number(
                    owner, "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
                ),
                why="the send waits for a standby",
            )
            assert "Messages" not in sqs.receive_message(QueueUrl=urls["any"])
            wait_for_standby(owner, "")
            assert sending.result()["MessageId"]
    finally:
        wait_for_standby(owner, "")

    (message,) = sqs.receive_message(QueueUrl=urls["any"], WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "any"

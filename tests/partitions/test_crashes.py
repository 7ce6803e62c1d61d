"""No acknowledged message is lost while a partition crashes, and the other one notices nothing."""

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from support import servers
from support.http import NodeProcess, client, eventually
from support.partitions import Partitions
from support.postgres import Databases, as_node
from support.queue_traffic import Traffic

CRASHES = 2


@pytest.fixture
def made(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[Partitions]:
    """Give two partitions, of which the second has a server that may crash."""
    with servers.start(server_folder / "crashing", ephemeral=True, migrated=True) as server:
        yield Partitions([embedded_databases, Databases(server)], router_server)


def test_crashes_of_a_partition_lose_nothing_and_leave_the_other_alone(made: Partitions) -> None:
    with NodeProcess(database_url=as_node(made.router), workers=1) as node:
        node.ready()
        sqs = client(node.url)
        urls = [sqs.create_queue(QueueName=made.name_at(number))["QueueUrl"] for number in (0, 1)]
        traffic = Traffic(node.url, urls)
        for _ in range(CRASHES):
            before = [len(traffic.sent[url]) for url in urls]
            eventually(
                lambda before=before: all(
                    len(traffic.sent[url]) > number + 10
                    for url, number in zip(urls, before, strict=True)
                )
            )
            crash(made.urls[1])
        traffic.stop()

        for url in urls:
            eventually(lambda url=url: traffic.consume(sqs, url) or not traffic.lost(url))
        assert traffic.errors[urls[0]] == []
        # One delivery each: nothing was handed out again where nothing failed.
        assert set(traffic.received[urls[0]].values()) == {1}


def crash(url: str) -> None:
    """Kill the server's processes at once; its keeper starts it again."""
    postmaster = server_of(url)
    postmaster.send_signal(signal.SIGQUIT)
    eventually(lambda: server_of(url).pid != postmaster.pid, why="the server starts again")
    eventually(lambda: is_up(url))


def server_of(url: str) -> psutil.Process:
    host = Path(psycopg.conninfo.conninfo_to_dict(url)["host"])
    file = host.parent / "postgresql" / "postmaster.pid"
    while True:
        with suppress(OSError, IndexError, psutil.NoSuchProcess):
            return psutil.Process(int(file.read_text().split()[0]))
        time.sleep(0.01)


def is_up(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True

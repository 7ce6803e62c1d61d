"""While the first partition is unavailable or hangs, the others' queues miss nothing."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from botocore.exceptions import ClientError

from support import servers
from support.audit import written
from support.http import NodeProcess, client, eventually, extension
from support.key_commands import MASTER_KEY, Keys
from support.partitions import Partitions, frozen, is_up
from support.postgres import Databases, as_node

_number = count(1)
each_way = pytest.mark.parametrize(
    "how", [pytest.param("stopped", marks=pytest.mark.slow), "frozen"]
)


class Made(NamedTuple):
    """Two partitions, and the server of the first one."""

    partitions: Partitions
    first: Databases


@contextmanager
def making(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[Made]:
    server = servers.start(server_folder / f"first-{next(_number)}", ephemeral=True, migrated=True)
    first = Databases(server)
    yield Made(Partitions([first, embedded_databases], router_server), first)
    server.release()


@pytest.fixture(scope="module")
def lasting(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[Made]:
    """Give partitions that tests share, as what is frozen goes on."""
    with making(embedded_databases, router_server, server_folder) as made:
        yield made


@pytest.fixture
def made(
    request: pytest.FixtureRequest,
    how: str,
    embedded_databases: Databases,
    router_server: Databases,
    server_folder: Path,
) -> Iterator[Made]:
    if how == "frozen":
        yield request.getfixturevalue("lasting")
        return
    with making(embedded_databases, router_server, server_folder) as own:
        yield own


@contextmanager
def stopped(databases: Databases) -> Iterator[None]:
    """Stop a server for good."""
    databases.server.release()
    eventually(lambda: not is_up(databases))
    yield


def away(databases: Databases, how: str) -> AbstractContextManager[None]:
    return stopped(databases) if how == "stopped" else frozen(databases)


@each_way
@pytest.mark.slow
def test_requests_are_audited_and_workers_seen_without_the_first_partition(
    made: Made, how: str
) -> None:
    partitions, first = made
    with (
        NodeProcess(database_url=as_node(partitions.router), workers=1) as node,
        psycopg.connect(partitions.urls[1], autocommit=True) as second,
    ):
        node.ready()
        url = client(node.url).create_queue(QueueName=partitions.name_at(1))["QueueUrl"]

        with away(first, how):
            second.execute("delete from skipmq.worker")
            client(node.url).purge_queue(QueueUrl=url)

            def audited() -> bool:
                return "PurgeQueue" in {each["action"] for each in written(second)}

            eventually(audited)
            eventually(lambda: len(extension(node.url, "ListNodes")["Workers"]) == 1)
            eventually(
                lambda: extension(node.url, "GetOverview")["Database"]["AvailablePartitions"] == 1
            )
            assert "Totals" not in extension(node.url, "GetOverview")


@each_way
def test_keys_are_known_and_their_use_is_noted_without_the_first_partition(
    made: Made, how: str
) -> None:
    partitions, first = made
    keys = Keys(partitions.router)
    key = keys.create("000000000000")
    with (
        NodeProcess(
            database_url=as_node(partitions.router), workers=1, auth="on", master_key=MASTER_KEY
        ) as node,
        psycopg.connect(partitions.urls[1], autocommit=True) as second,
    ):
        sqs = client(node.ready().url, **key)
        url = sqs.create_queue(QueueName=partitions.name_at(1))["QueueUrl"]
        other, unused = keys.create("000000000000"), keys.create("000000000000")

        with away(first, how):
            # Known to the second partition alone.
            second.execute(
                "select skipmq.change_access_key(%s, false, null, null)", (other["key"],)
            )

            def is_accepted(key: dict[str, str]) -> bool:
                try:
                    client(node.url, **key).send_message(QueueUrl=url, MessageBody="tea")
                except ClientError as error:
                    # The second where the key is disabled while the request waits for its queue.
                    if error.response["Error"]["Code"] in {"InvalidClientTokenId", "AccessDenied"}:
                        return False
                    raise
                return True

            eventually(lambda: not is_accepted(other))
            eventually(lambda: is_accepted(unused))
            used = "select from skipmq.access_key where key_id = %s and last_used_at is not null"
            eventually(lambda: second.execute(used, (unused["key"],)).fetchall())


@each_way
def test_receivers_are_woken_from_another_node_without_the_first_partition(
    made: Made, how: str
) -> None:
    partitions, first = made
    settings = {"database_url": as_node(partitions.router), "workers": 1}
    with (
        NodeProcess(**settings) as receiver,
        NodeProcess(**settings) as sender,
        psycopg.connect(partitions.urls[1], autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        name = partitions.name_at(1)
        url = client(receiver.ready().url).create_queue(QueueName=name)["QueueUrl"]
        there = client(sender.ready().url).get_queue_url(QueueName=name)["QueueUrl"]
        second.execute("listen skipmq")

        def notified(kind: str) -> bool:
            """Return whether a node has notified the others of the queue meanwhile."""
            heard = [each.payload for each in second.notifies(timeout=0.1)]
            return any(f" {kind} " in payload and name in payload for payload in heard)

        def sends_and_notifies() -> bool:
            # The sender may not have heard of the receiver yet.
            client(sender.url).send_message(QueueUrl=there, MessageBody="tea")
            return notified("sent")

        with away(first, how):
            waiting = pool.submit(
                client(receiver.url).receive_message, QueueUrl=url, WaitTimeSeconds=20
            )
            eventually(lambda: notified("waiting"))
            eventually(sends_and_notifies)
            (message,) = waiting.result()["Messages"]

    assert message["Body"] == "tea"


@each_way
def test_tasks_and_counts_go_on_without_the_first_partition(made: Made, how: str) -> None:
    partitions, first = made
    with (
        NodeProcess(database_url=as_node(partitions.router), workers=1) as node,
        psycopg.connect(partitions.urls[1], autocommit=True) as second,
    ):
        sqs = client(node.ready().url)
        name = partitions.name_at(1)
        dead = sqs.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-dlq"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="tea")
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        counted = "select received from skipmq.queue_statistics(p_search => %s) where queue = %s"

        with away(first, how):
            sqs.start_message_move_task(SourceArn=arn)
            (message,) = eventually(
                lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5).get("Messages")
            )
            assert message["Body"] == "tea"
            assert "Messages" not in sqs.receive_message(QueueUrl=dead)
            # Once when the task has moved it, and once before.
            eventually(lambda: second.execute(counted, (name, name)).fetchone() == (2,))


def test_router_ends_calls_whose_client_is_gone(lasting: Made) -> None:
    """A call waits for a partition that hangs as long as that hangs."""
    partitions, first = lasting
    backends = "select from pg_stat_activity where application_name = 'gone'"
    with frozen(first), psycopg.connect(partitions.router, autocommit=True) as owner:
        gone = psycopg.connect(partitions.router, application_name="gone")
        gone.pgconn.send_query(b"select skipmq_router.database_state(0)")
        eventually(lambda: owner.execute(f"{backends} and state = 'active'").fetchall())

        gone.close()

        eventually(lambda: not owner.execute(backends).fetchall())

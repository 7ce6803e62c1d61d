"""Queues spread over two clusters of Patroni: one of them fails, and only its queues notice.

It is slow: in the gate `tests/partitions` has the same routers over servers without Patroni.
"""

from base64 import b64encode
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from cluster import neighbours
from cluster.test_failover import FOLDER, SLACK, told
from local_cluster import LocalCluster
from support.commands import invoke
from support.http import client, raw
from support.partitions import plproxy_server
from support.programs import need

pytestmark = pytest.mark.slow

SEED = 1
MASTER = b64encode(bytes(32)).decode()
# Messages a second to each partition.
RATE = 60.0
_number = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    need("etcd", "haproxy")
    plproxy_server()
    with LocalCluster(FOLDER / "partitions", nodes=2, partitions=2, servers=2) as found:
        yield found


def name_at(cluster: LocalCluster, partition: int) -> str:
    """Return a new name of a queue whose home is a partition."""
    while True:
        name = f"queue-{next(_number)}"
        if neighbours.home(cluster, name) == partition:
            return name


def test_clients_console_and_commands_use_both_partitions(cluster: LocalCluster) -> None:
    sqs = client(cluster.endpoint)
    names = [name_at(cluster, number) for number in (0, 1)]
    for name in names:
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=name)
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == name
    for number, name in enumerate(names):
        with psycopg.connect(cluster.partition(number).owner_url) as owner:
            found = owner.execute(
                "select count(*) from skipmq.message m join skipmq.queue q using (queue_id)"
                " where q.name = %s",
                (name,),
            ).fetchone()
        assert found == (1,)

    variables = {"SKIPMQ_DATABASE_URL": cluster.node_url, "PATH": "/usr/bin"}
    listed = invoke(("queue", "list", "--json"), variables).stdout
    console = raw(f"{cluster.endpoint}/console/us-east-1/000000000000/queues").body
    # The router does not have the owner's password.
    variables |= {"PGPASSWORD": cluster.passwords.owner}
    as_owner = variables | {"SKIPMQ_DATABASE_URL": cluster.owner_url, "SKIPMQ_MASTER_KEY": MASTER}
    made = invoke(("keys", "create", "--name", "shop", "--json"), as_owner)
    checked = invoke(("partitions", "doctor", "--router", cluster.owner_url), variables)

    for name in names:
        assert name in listed
        assert name in console
    assert made.code == 0, made.stderr
    for number in (0, 1):
        with psycopg.connect(cluster.partition(number).owner_url) as owner:
            keys = owner.execute("select name from skipmq.access_keys()").fetchall()
        assert keys == [("shop",)]
    assert (checked.code, checked.stdout.strip()) == (0, "the router and its partitions fit")


def test_queues_are_created_in_a_partition_with_another_primary(cluster: LocalCluster) -> None:
    sqs, there = client(cluster.endpoint), cluster.partition(1)
    sqs.create_queue(QueueName=name_at(cluster, 1))
    before = there.leader()

    there.switchover()
    name = name_at(cluster, 1)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=name)

    assert there.leader() != before
    assert cluster.partition(0).members()[0].timeline
    cluster.wait_healthy(120)


def test_crash_of_a_primary_loses_nothing_and_is_no_error_elsewhere(cluster: LocalCluster) -> None:
    outcomes = neighbours.strike(cluster, FOLDER, "server-crash", seed=SEED, rate=RATE, slack=SLACK)

    for outcome in (outcomes.struck, outcomes.other):
        assert outcome.good, told(outcome, FOLDER)
        assert outcome.counts["acknowledged messages"] > 100
    assert outcomes.errors == []

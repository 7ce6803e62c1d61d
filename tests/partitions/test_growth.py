"""`skipmq partitions add` and `rebalance` move queues with their messages and lose nothing."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.http import NodeProcess, client
from support.partitions import Partitions, in_second, run
from support.postgres import Databases, as_node
from support.schedules import create
from support.sql import Queue
from support.sql import number as value
from support.staging import FIRST, SECOND, send, stage, staged


@pytest.fixture
def one(embedded_databases: Databases, router_server: Databases) -> Iterator[Partitions]:
    """Give one partition, to which the test adds others."""
    made = Partitions.copied(embedded_databases, router_server, 1)
    yield made
    made.drop()


def rebalance(made: Partitions, *options: str) -> dict[str, Any]:
    done = run("rebalance", "--router", made.router, "--json", *options)
    assert done.exit_code == 0, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def plan(made: Partitions) -> list[dict[str, Any]]:
    listed = run("rebalance-plan", "--router", made.router, "--json")
    assert listed.exit_code == 0, listed.exception
    moves: list[dict[str, Any]] = json.loads(listed.stdout)["moves"]
    return moves


def doctor(made: Partitions) -> str:
    return " ".join(run("doctor", "--router", made.router).output.split())


def place(made: Partitions, name: str) -> list[int]:
    """Return the partitions that have a queue."""
    found = []
    for number, url in enumerate(made.urls):
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "select queue_id >> 57 from skipmq.queue where name = %s", (name,)
            ).fetchone()
            if row is not None:
                assert row == (number,)
                found.append(number)
    return found


def test_growth_from_one_database_keeps_messages_receipts_and_order(
    one: Partitions, embedded_databases: Databases
) -> None:
    with NodeProcess(database_url=as_node(one.router), workers=1) as process:
        process.ready()
        sqs = client(process.url)
        names = [f"grown-{number}" for number in range(8)]
        urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in names}
        fifo = sqs.create_queue(
            QueueName=in_second("ordered", ".fifo"), Attributes={"FifoQueue": "true"}
        )
        for name, url in urls.items():
            sqs.send_message(QueueUrl=url, MessageBody=f"{name} received")
        handles = {
            url: sqs.receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
            for url in urls.values()
        }
        for name, url in urls.items():
            sqs.send_message(QueueUrl=url, MessageBody=f"{name} waits")
        for number in range(6):
            sqs.send_message(
                QueueUrl=fifo["QueueUrl"],
                MessageBody=str(number),
                MessageGroupId=f"g{number % 2}",
                MessageDeduplicationId=str(number),
            )

        assert one.add(embedded_databases, empty=True).exit_code == 0
        moves = plan(one)
        moved = rebalance(one)

        assert moved["kept"] == []
        assert moved["moved"] == sum(len(move["queues"]) for move in moves) > 0
        assert plan(one) == []
        assert doctor(one) == "the router and its partitions fit"
        assert {tuple(place(one, name)) for name in names} == {(0,), (1,)}
        for name, url in urls.items():
            sqs.delete_message(QueueUrl=url, ReceiptHandle=handles[url])
            (message,) = sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
            assert message["Body"] == f"{name} waits"
            counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            assert counts["ApproximateNumberOfMessages"] == "1"
            assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
        again = sqs.send_message(
            QueueUrl=fifo["QueueUrl"],
            MessageBody="5",
            MessageGroupId="g1",
            MessageDeduplicationId="5",
        )
        last = sqs.send_message(
            QueueUrl=fifo["QueueUrl"],
            MessageBody="6",
            MessageGroupId="g0",
            MessageDeduplicationId="6",
        )
        received = sqs.receive_message(
            QueueUrl=fifo["QueueUrl"], MaxNumberOfMessages=10, AttributeNames=["All"]
        )["Messages"]
        groups: dict[str, list[str]] = {}
        for message in received:
            groups.setdefault(message["Attributes"]["MessageGroupId"], []).append(message["Body"])
        assert groups == {"g0": ["0", "2", "4", "6"], "g1": ["1", "3", "5"]}
        numbers = {m["Body"]: m["Attributes"]["SequenceNumber"] for m in received}
        assert numbers["5"] == again["SequenceNumber"] < last["SequenceNumber"]


def test_node_behind_an_old_router_serves_a_moved_queue_when_that_has_the_partition(
    one: Partitions, embedded_databases: Databases, router_server: Databases
) -> None:
    old = one.another_router(router_server)
    with NodeProcess(database_url=as_node(old), workers=1) as process:
        sqs = client(process.ready().url)
        url = sqs.create_queue(QueueName=in_second("two-maps"))["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="tea")
        assert one.add(embedded_databases).exit_code == 0
        assert rebalance(one)["moved"] == 1

        with pytest.raises(ClientError) as refused:
            sqs.receive_message(QueueUrl=url)
        added = run("add", "--router", old, "--partition", one.urls[1])
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]

    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert "the router lacks a partition" in process.log
    assert added.exit_code == 0
    assert message["Body"] == "tea"
    router_server.drop(old)


def test_batches_that_spark_has_staged_move_with_their_queue(
    one: Partitions, embedded_databases: Databases
) -> None:
    name = in_second("staged")
    with psycopg.connect(as_node(one.router), autocommit=True) as router:
        router.execute("select skipmq.create_queue(%s)", (name,))
        stage(router, "a", "b", "c", queue=name, part=FIRST)
        sent = [send(router, 1, 3, FIRST, queue=name, limit=2)]
        stage(router, "d", queue=name, part=SECOND)
        assert one.add(embedded_databases).exit_code == 0

        create(router, queue=name, expression="every hour")
        assert "has schedules" in run("rebalance", "--router", one.router).output
        router.execute("select skipmq.change_schedule('tick', 'delete')")
        with psycopg.connect(one.urls[0]) as old:
            old.execute(
                "insert into skipmq.receive_rate select q.queue_id, '', now() + interval '1 day'"
                " from skipmq.queue q where q.name = %s",
                (name,),
            )
        assert rebalance(one)["moved"] == 1

        assert place(one, name) == [1]
        with psycopg.connect(one.urls[0]) as old:
            left = [staged(old), value(old, "select count(*) from skipmq.staged_batch")]
        sent += [send(router, 1, 3, FIRST, queue=name) for _ in range(2)]
        sent += [send(router, 2, 1, SECOND, queue=name) for _ in range(2)]
        sent.append(send(router, 1, 3, FIRST, queue=name))
    with psycopg.connect(one.urls[1]) as new:
        bodies = Queue(new, name).bodies()
        rates = value(
            new, "select count(*) from skipmq.receive_rate r join skipmq.queue q using (queue_id)"
        )

    assert rates == 1
    assert left == [0, 0]
    assert sent == [2, 1, 0, 1, 0, 0]
    assert sorted(bodies) == ["a", "b", "c", "d"]


def test_queues_with_a_redrive_policy_move_together(
    one: Partitions, embedded_databases: Databases
) -> None:
    dead = in_second("dead")
    with psycopg.connect(as_node(one.router), autocommit=True) as router:
        policy = json.dumps(
            {
                "deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{dead}",
                "maxReceiveCount": 3,
            }
        )
        names = [dead, "source-1", "source-2", "source-3"]
        router.execute("select skipmq.create_queue(%s)", (dead,))
        for name in names[1:]:
            attributes = json.dumps({"RedrivePolicy": policy})
            router.execute("select skipmq.create_queue(%s, %s)", (name, attributes))
        assert one.add(embedded_databases).exit_code == 0

        (move,) = plan(one)
        moved = rebalance(one)
        router.execute(
            "select skipmq.set_queue_attributes(skipmq.queue_id('source-1'), %s)", (attributes,)
        )

    assert len(move["queues"]) == moved["moved"] == 4
    assert {tuple(place(one, name)) for name in names} == {(1,)}

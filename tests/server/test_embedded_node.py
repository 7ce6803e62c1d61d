"""Nodes on the embedded PostgreSQL: started at once, killed, started again."""

from pathlib import Path
from typing import Any

from support.http import NodeProcess, client
from support.processes import is_alive, pids_with, until


def bodies(sqs: Any, queue: str) -> list[str]:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [message["Body"] for message in answer.get("Messages", [])]


def gone(data: Path) -> None:
    until(lambda: not [pid for pid in pids_with(str(data)) if is_alive(pid)], "the server stops")


def test_two_nodes_started_at_once_on_nothing_share_one_database(data: Path) -> None:
    with (
        NodeProcess(data_dir=data, workers=1) as one,
        NodeProcess(data_dir=data, workers=1) as two,
    ):
        here, there = client(one.ready().url), client(two.ready().url)
        queue = here.create_queue(QueueName="orders")["QueueUrl"]
        here.send_message(QueueUrl=queue, MessageBody="shared")
        shared = bodies(there, queue)

        one.kill()
        there.send_message(QueueUrl=queue, MessageBody="alone")

        assert shared == ["shared"]
        assert sorted(bodies(there, queue)) == ["alone", "shared"]
    gone(data)


def test_messages_survive_the_kill_of_the_node_and_the_database_stops_with_it(data: Path) -> None:
    with NodeProcess(data_dir=data, workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        for n in range(20):
            sqs.send_message(QueueUrl=queue, MessageBody=str(n))
        received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"][0]
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=received["ReceiptHandle"])
        # Deletes may be lost with a crash of the database, never with that of a node.
        node.kill()
    gone(data)

    with NodeProcess(data_dir=data, workers=1) as node:
        again = client(node.ready().url)
        attributes = again.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])

    assert attributes["Attributes"]["ApproximateNumberOfMessages"] == "19"
    gone(data)


def test_ephemeral_node_leaves_nothing_behind(place: Path) -> None:
    with NodeProcess("--ephemeral", workers=1, variables={"TMPDIR": str(place)}) as node:
        client(node.ready().url).create_queue(QueueName="orders")
        during = list(place.iterdir())

        node.stop()

    assert len(during) == 2  # The server's folder, and the numbers of the workers.
    until(lambda: not list(place.iterdir()), "the folder is gone")

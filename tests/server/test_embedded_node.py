"""Nodes on the embedded PostgreSQL: started at once, killed, started again."""

import socket
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

    assert len(during) == 1  # The server's folder.
    until(lambda: not list(place.iterdir()), "the folder is gone")


def test_node_that_cannot_listen_leaves_no_database(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        node = NodeProcess("--ephemeral", port=port, workers=1, variables={"TMPDIR": str(place)})
        with node:
            code = node.process.wait(timeout=60)

    assert code == 1
    assert node.lines == [
        f"skipmq: cannot listen on 127.0.0.1 port {port}: Address already in use."
        " Stop the program that uses it, or choose another with --port"
    ]
    until(lambda: not list(place.iterdir()), "the folder is gone")

"""Regions where no signatures are checked: names are of one, and queue URLs name none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import NodeProcess, client, eventually
from support.postgres import as_node

EAST, WEST, SOUTH = "us-east-1", "eu-west-1", "sa-east-1"


@pytest.fixture
def sqs_in(broker: NodeProcess, wire: str) -> Callable[[str], Any]:
    """Give what makes a client of a region."""
    return lambda region: client(broker.url, wire, region=region)


def arn(sqs: Any, queue: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


def bodies(sqs: Any, queue: str) -> list[str]:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=60)
    return sorted(message["Body"] for message in answer.get("Messages", []))


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def policy(target: str, most: int = 1) -> dict[str, str]:
    return {"RedrivePolicy": json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": most})}


def test_names_are_of_the_clients_region(sqs_in: Callable[[str], Any], name: str) -> None:
    west, east = sqs_in(WEST), sqs_in(EAST)

    queue = west.create_queue(QueueName=name)["QueueUrl"]

    assert arn(west, queue) == f"arn:aws:sqs:{WEST}:000000000000:{name}"
    assert west.get_queue_url(QueueName=name)["QueueUrl"] == queue
    assert west.list_queues(QueueNamePrefix=name)["QueueUrls"] == [queue]
    assert code(lambda: east.get_queue_url(QueueName=name)).endswith("NonExistentQueue")
    assert "QueueUrls" not in east.list_queues(QueueNamePrefix=name)


def test_url_names_the_queue_of_another_region_where_the_clients_has_none(
    sqs_in: Callable[[str], Any], name: str
) -> None:
    west, east = sqs_in(WEST), sqs_in(EAST)
    queue = west.create_queue(QueueName=name)["QueueUrl"]

    east.send_message(QueueUrl=queue, MessageBody="from the east")
    west.send_message(QueueUrl=queue, MessageBody="from the west")
    east.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "7"})

    found = east.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert (found["QueueArn"].split(":")[3], found["VisibilityTimeout"]) == (WEST, "7")
    assert bodies(east, queue) == ["from the east", "from the west"]
    for destroy in (east.delete_queue, east.purge_queue):
        assert code(lambda: destroy(QueueUrl=queue)).endswith("NonExistentQueue")  # noqa: B023
    west.delete_queue(QueueUrl=queue)
    assert code(lambda: west.get_queue_url(QueueName=name)).endswith("NonExistentQueue")
    assert code(lambda: bodies(east, queue)).endswith("NonExistentQueue")


def test_refused_change_of_a_queue_of_another_region_is_recorded_as_its(
    sqs_in: Callable[[str], Any], ask: Callable[..., dict[str, Any]], name: str
) -> None:
    queue = sqs_in(WEST).create_queue(QueueName=name)["QueueUrl"]
    change = {"QueueUrl": queue, "Attributes": {"VisibilityTimeout": "-1"}}

    assert code(lambda: sqs_in(EAST).set_queue_attributes(**change)).endswith(
        "InvalidAttributeValue"
    )

    of_queue = {"Queue": f"arn:aws:sqs:{WEST}:000000000000:{name}", "Action": "SetQueueAttributes"}
    (record,) = eventually(lambda: ask("ListAuditRecords", **of_queue)["Records"])
    assert record["Outcome"].endswith("InvalidAttributeValue")


def test_deletion_that_is_repeated_deletes_no_queue_of_another_region(
    sqs_in: Callable[[str], Any], name: str
) -> None:
    west, east = sqs_in(WEST), sqs_in(EAST)
    west.create_queue(QueueName=name)
    queue = east.create_queue(QueueName=name)["QueueUrl"]

    east.delete_queue(QueueUrl=queue)
    assert code(lambda: east.delete_queue(QueueUrl=queue)).endswith("NonExistentQueue")

    assert west.get_queue_url(QueueName=name)["QueueUrl"] == queue


def test_queues_of_one_name_in_two_regions_are_two(sqs_in: Callable[[str], Any], name: str) -> None:
    west, east, south = sqs_in(WEST), sqs_in(EAST), sqs_in(SOUTH)
    queue = west.create_queue(QueueName=name)["QueueUrl"]
    east.send_message(QueueUrl=queue, MessageBody="before there was one in the east")

    same = east.create_queue(QueueName=name)["QueueUrl"]
    east.send_message(QueueUrl=same, MessageBody="east")

    assert same == queue
    assert (arn(west, queue).split(":")[3], arn(east, queue).split(":")[3]) == (WEST, EAST)
    # The node's region comes before others.
    eventually(lambda: arn(south, queue).split(":")[3] == EAST, why="found")
    assert bodies(west, queue) == ["before there was one in the east"]
    assert bodies(east, queue) == ["east"]


def test_arns_of_the_clients_region_name_its_queues(
    sqs_in: Callable[[str], Any], name: str
) -> None:
    west = sqs_in(WEST)
    dead = west.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    target = f"arn:aws:sqs:{WEST}:000000000000:{name}-dead"
    queue = west.create_queue(QueueName=name, Attributes=policy(target))["QueueUrl"]
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [arn(west, queue)]}
    west.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": json.dumps(allowed)})
    west.send_message(QueueUrl=queue, MessageBody="tea")
    for _ in range(2):
        west.receive_message(QueueUrl=queue, VisibilityTimeout=0)

    west.start_message_move_task(SourceArn=target)

    eventually(lambda: bodies(west, queue) == ["tea"], why="moved")
    (task,) = west.list_message_move_tasks(SourceArn=target)["Results"]
    assert task["SourceArn"] == target


def test_arn_of_the_clients_region_names_a_queue_that_only_another_has(
    sqs_in: Callable[[str], Any], name: str
) -> None:
    west, east = sqs_in(WEST), sqs_in(EAST)
    dead = west.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    queue = west.create_queue(QueueName=name)["QueueUrl"]
    target = f"arn:aws:sqs:{EAST}:000000000000:{name}-dead"

    east.set_queue_attributes(QueueUrl=queue, Attributes=policy(target))
    east.set_queue_attributes(
        QueueUrl=dead,
        Attributes={
            "RedriveAllowPolicy": json.dumps(
                {
                    "redrivePermission": "byQueue",
                    "sourceQueueArns": [f"arn:aws:sqs:{EAST}:000000000000:{name}"],
                }
            )
        },
    )
    handle = east.start_message_move_task(SourceArn=target)["TaskHandle"]

    assert handle
    assert len(east.list_message_move_tasks(SourceArn=target)["Results"]) == 1
    found = west.get_queue_attributes(QueueUrl=queue, AttributeNames=["RedrivePolicy"])[
        "Attributes"
    ]
    assert json.loads(found["RedrivePolicy"])["deadLetterTargetArn"] == arn(west, dead)
    found = east.get_queue_attributes(QueueUrl=dead, AttributeNames=["RedriveAllowPolicy"])[
        "Attributes"
    ]
    assert json.loads(found["RedriveAllowPolicy"])["sourceQueueArns"] == [arn(west, queue)]
    assert east.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]


def test_region_without_the_form_of_aws_is_the_nodes(
    sqs_in: Callable[[str], Any], name: str
) -> None:
    odd, east = sqs_in("elasticmq"), sqs_in(EAST)

    queue = odd.create_queue(QueueName=name)["QueueUrl"]

    assert arn(odd, queue).split(":")[3] == EAST
    assert east.get_queue_url(QueueName=name)["QueueUrl"] == queue


def test_messages_are_moved_to_a_queue_of_another_region_by_its_url(
    sqs_in: Callable[[str], Any], name: str, ask: Callable[..., dict[str, Any]]
) -> None:
    west = sqs_in(WEST)
    queue, other = (west.create_queue(QueueName=f"{name}-{n}")["QueueUrl"] for n in range(2))
    west.send_message(QueueUrl=queue, MessageBody="tea")
    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]

    ask(
        "MoveMessages",
        QueueUrl=queue,
        DestinationQueueUrl=other,
        MessageReferences=[message["MessageReference"]],
    )

    assert bodies(west, other) == ["tea"]


def test_declared_queue_has_its_name_in_every_region(
    broker: NodeProcess, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text(f"[queues.{name}]\nVisibilityTimeout = 9\n")

    with NodeProcess(database_url=as_node(broker.owner_url), config=file) as node:
        node.ready()
        west, east = client(node.url, region=WEST), client(node.url, region=EAST)
        queue = west.get_queue_url(QueueName=name)["QueueUrl"]

        assert queue == east.get_queue_url(QueueName=name)["QueueUrl"]
        assert arn(west, queue).split(":")[3] == EAST
        own = west.create_queue(QueueName=name)["QueueUrl"]
        assert arn(west, own).split(":")[3] == WEST
        other = f"{name}-other"
        assert code(lambda: west.get_queue_url(QueueName=other)).endswith("NonExistentQueue")

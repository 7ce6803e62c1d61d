"""The life of queues and messages through boto3 of today or of old: URL PREFIX."""

import json
import sys
from typing import Any

import boto3
import message_attributes
from botocore.config import Config
from botocore.exceptions import ClientError

ENTRIES = [f"entry {n}" for n in range(10)]
# What stood on the wire: each request's content type, and of a form action and version of the API.
WIRE: set[tuple[str, str, str]] = set()


def connected(url: str, **key: str) -> Any:
    config = Config(retries={"total_max_attempts": 1})
    sqs = boto3.client("sqs", endpoint_url=url, config=config, **key)
    sqs.meta.events.register("request-created.sqs", note)
    return sqs


def note(request: Any, **_: Any) -> None:
    kind = request.headers["Content-Type"].split(";")[0]
    form = request.data if isinstance(request.data, dict) else {}
    WIRE.add((kind, form.get("Action", ""), form.get("Version", "")))


def receive(sqs: Any, queue: str, *, wait: int = 20, **options: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=queue,
        WaitTimeSeconds=wait,
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
        **options,
    )
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    for message in messages:
        assert message["MD5OfBody"] == message_attributes.md5(message["Body"].encode())
    return messages


def delete(sqs: Any, queue: str, messages: list[dict[str, Any]]) -> None:
    entries = [
        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
        for n, message in enumerate(messages)
    ]
    answer = sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
    assert {entry["Id"] for entry in answer["Successful"]} == {entry["Id"] for entry in entries}
    assert not answer.get("Failed")


def drain(sqs: Any, queue: str, count: int) -> list[dict[str, Any]]:
    """Receive and delete until there were that many messages, or an empty answer."""
    found: list[dict[str, Any]] = []
    while len(found) < count and (messages := receive(sqs, queue, MaxNumberOfMessages=10)):
        found += messages
        delete(sqs, queue, messages)
    return found


def attributes(sqs: Any, queue: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])[
        "Attributes"
    ]
    return found


def single(sqs: Any, queue: str) -> dict[str, Any]:
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="<first> & ☕", MessageAttributes=message_attributes.SENT
    )
    assert sent["MD5OfMessageBody"] == message_attributes.md5("<first> & ☕".encode())

    [first] = receive(sqs, queue)
    assert not receive(sqs, queue, wait=0)
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    [second] = receive(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])

    assert sent["MessageId"] == first["MessageId"] == second["MessageId"]
    assert second["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    return {
        "body": second["Body"],
        "message_attributes": message_attributes.shown(second["MessageAttributes"]),
        "digest": second["MD5OfMessageAttributes"],
        "receive_counts": [m["Attributes"]["ApproximateReceiveCount"] for m in (first, second)],
    }


def delayed(sqs: Any, queue: str) -> str:
    """Receive what comes only while the receiver waits: a short poll would find nothing."""
    sqs.send_message(QueueUrl=queue, MessageBody="waited for", DelaySeconds=1)
    [message] = receive(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    body: str = message["Body"]
    return body


def batch(sqs: Any, queue: str) -> dict[str, Any]:
    entries = [{"Id": f"id-{n}", "MessageBody": body} for n, body in enumerate(ENTRIES)]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert {entry["Id"] for entry in answer["Successful"]} == {entry["Id"] for entry in entries}
    refused = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "MessageBody": "entry 10"},
            {"Id": "late", "MessageBody": "never", "DelaySeconds": 901},
        ],
    )
    assert [entry["Id"] for entry in refused["Successful"]] == ["good"]

    found = drain(sqs, queue, 11)

    counts = attributes(sqs, queue)
    return {
        "bodies": sorted(message["Body"] for message in found),
        "refused": {entry["Id"]: entry["SenderFault"] for entry in refused["Failed"]},
        "left": [
            counts["ApproximateNumberOfMessages"],
            counts["ApproximateNumberOfMessagesNotVisible"],
        ],
    }


def settings(sqs: Any, queue: str) -> dict[str, Any]:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "3600"})
    found = attributes(sqs, queue)
    sqs.tag_queue(QueueUrl=queue, Tags={"stage": "test + try = @1"})
    both = sqs.list_queue_tags(QueueUrl=queue)["Tags"]
    sqs.untag_queue(QueueUrl=queue, TagKeys=["team"])
    return {
        "attributes": [
            found["VisibilityTimeout"],
            found["MessageRetentionPeriod"],
            found["QueueArn"].rsplit(":", 1)[1],
        ],
        "tags": [both, sqs.list_queue_tags(QueueUrl=queue)["Tags"]],
    }


def dead_letter(sqs: Any, source: str, dead: str) -> dict[str, str]:
    policy = {"deadLetterTargetArn": attributes(sqs, dead)["QueueArn"], "maxReceiveCount": "1"}
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": json.dumps(policy)})
    assert json.loads(attributes(sqs, source)["RedrivePolicy"]).keys() == policy.keys()
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison")

    [once] = receive(sqs, source, VisibilityTimeout=0)
    assert not receive(sqs, source, wait=1)
    [arrived] = receive(sqs, dead)

    assert sent["MessageId"] == once["MessageId"] == arrived["MessageId"]
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=arrived["ReceiptHandle"])
    return {
        "body": arrived["Body"],
        "source": arrived["Attributes"]["DeadLetterQueueSourceArn"].rsplit(":", 1)[1],
    }


def purged(sqs: Any, queue: str) -> int:
    sqs.send_message_batch(
        QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "gone"} for n in range(5)]
    )
    sqs.purge_queue(QueueUrl=queue)
    return len(receive(sqs, queue, wait=0, MaxNumberOfMessages=10))


def listed(sqs: Any, prefix: str) -> list[list[str]]:
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )
    return [[url.rsplit("/", 1)[1] for url in page["QueueUrls"]] for page in pages]


def absent(sqs: Any, name: str) -> list[str]:
    try:
        sqs.get_queue_url(QueueName=name)
    except sqs.exceptions.QueueDoesNotExist as error:
        return [type(error).__name__, error.response["Error"]["Code"]]
    raise AssertionError(f"{name} exists")


def standard(sqs: Any, prefix: str) -> dict[str, Any]:
    created = [
        sqs.create_queue(
            QueueName=f"{prefix}-{name}",
            Attributes={"VisibilityTimeout": "45"},
            tags={"team": "tea"},
        )["QueueUrl"]
        for name in ("main", "source", "dead")
    ]
    main, source, dead = created
    assert sqs.get_queue_url(QueueName=f"{prefix}-main")["QueueUrl"] == main
    summary = {
        "single": single(sqs, main),
        "delayed": delayed(sqs, main),
        "batch": batch(sqs, main),
        "settings": settings(sqs, main),
        "dead_letter": dead_letter(sqs, source, dead),
        "after_purge": purged(sqs, main),
        "pages": listed(sqs, prefix),
    }
    for queue in created:
        sqs.delete_queue(QueueUrl=queue)
    left = sqs.create_queue(QueueName=f"{prefix}-left")["QueueUrl"]
    sqs.send_message(
        QueueUrl=left, MessageBody="for another client", MessageAttributes=message_attributes.SENT
    )
    return summary | {"absent": absent(sqs, f"{prefix}-main")}


def fifo(sqs: Any, prefix: str) -> dict[str, Any]:
    queue = sqs.create_queue(
        QueueName=f"{prefix}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )["QueueUrl"]

    def send(body: str) -> list[str]:
        sent = sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId=body[0])
        return [sent["MessageId"], sent["SequenceNumber"]]

    sent = {body: send(body) for body in ("a1", "b1", "a2", "b2", "a3")}
    again = send("b2")

    # The first of one group, then the first of the other, and then both groups are taken.
    heads = [*receive(sqs, queue), *receive(sqs, queue)]
    taken = receive(sqs, queue, wait=0, MaxNumberOfMessages=10)
    delete(sqs, queue, heads)
    found = heads + drain(sqs, queue, 3)
    more = receive(sqs, queue, wait=0, MaxNumberOfMessages=10)
    sqs.delete_queue(QueueUrl=queue)
    return {
        "sent": sent,
        "again": again,
        "heads": len(heads),
        "received": [
            [
                message["Attributes"]["MessageGroupId"],
                message["Body"],
                message["MessageId"],
                message["Attributes"]["SequenceNumber"],
            ]
            for message in found
        ],
        "while_taken": len(taken),
        "more": len(more),
    }


def refused(url: str) -> str:
    key = boto3.Session().get_credentials().access_key
    try:
        connected(url, aws_access_key_id=key, aws_secret_access_key="wrong").list_queues()
    except ClientError as error:
        return str(error)
    raise AssertionError("a wrong key is right")


def main() -> None:
    url, prefix = sys.argv[1:]
    sqs = connected(url)
    summary = {
        "standard": standard(sqs, prefix),
        "fifo": fifo(sqs, prefix),
        "refused": refused(url),
    }
    about = {
        "version": boto3.__version__,
        "protocol": sqs.meta.service_model.metadata["protocol"],
        "content_types": sorted({kind for kind, _, _ in WIRE}),
        "api_versions": sorted({version for _, _, version in WIRE}),
        "actions": sorted({action for _, action, _ in WIRE}),
    }
    json.dump({"client": about, **summary}, sys.stdout)


main()

"""The life of queues and messages through aiobotocore: URL PREFIX."""

import asyncio
import json
import sys
from typing import Any

import aiobotocore
import message_attributes
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

MESSAGES = 100


async def receive(sqs: Any, queue: str, *, wait: int = 20, **options: Any) -> list[dict[str, Any]]:
    answer = await sqs.receive_message(
        QueueUrl=queue,
        WaitTimeSeconds=wait,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
        **options,
    )
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    for message in messages:
        assert message["MD5OfBody"] == message_attributes.md5(message["Body"].encode())
    return messages


async def delete(sqs: Any, queue: str, messages: list[dict[str, Any]]) -> None:
    entries = [
        {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
        for n, message in enumerate(messages)
    ]
    answer = await sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
    assert {entry["Id"] for entry in answer["Successful"]} == {entry["Id"] for entry in entries}
    assert not answer.get("Failed")


async def drain(sqs: Any, queue: str, count: int) -> list[dict[str, Any]]:
    """Receive and delete until there were that many messages, or an empty answer."""
    found: list[dict[str, Any]] = []
    while len(found) < count and (messages := await receive(sqs, queue, MaxNumberOfMessages=10)):
        found += messages
        await delete(sqs, queue, messages)
    return found


async def attributes(sqs: Any, queue: str) -> dict[str, str]:
    answer = await sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
    found: dict[str, str] = answer["Attributes"]
    return found


async def left(sqs: Any, queue: str) -> list[str]:
    counts = await attributes(sqs, queue)
    return [
        counts["ApproximateNumberOfMessages"],
        counts["ApproximateNumberOfMessagesNotVisible"],
    ]


async def single(sqs: Any, queue: str) -> dict[str, Any]:
    sent = await sqs.send_message(
        QueueUrl=queue, MessageBody="<first> & ☕", MessageAttributes=message_attributes.SENT
    )
    assert sent["MD5OfMessageBody"] == message_attributes.md5("<first> & ☕".encode())

    [first] = await receive(sqs, queue)
    assert not await receive(sqs, queue, wait=0)
    await sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
    )
    [second] = await receive(sqs, queue)
    await sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])

    assert sent["MessageId"] == first["MessageId"] == second["MessageId"]
    assert second["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    return {
        "body": second["Body"],
        "message_attributes": message_attributes.shown(second["MessageAttributes"]),
        "digest": second["MD5OfMessageAttributes"],
        "receive_counts": [m["Attributes"]["ApproximateReceiveCount"] for m in (first, second)],
    }


async def delayed(sqs: Any, queue: str) -> str:
    """Receive what comes only while the receiver waits: a short poll would find nothing."""
    await sqs.send_message(QueueUrl=queue, MessageBody="waited for", DelaySeconds=1)
    [message] = await receive(sqs, queue)
    await sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    body: str = message["Body"]
    return body


async def batch(sqs: Any, queue: str) -> dict[str, Any]:
    entries = [{"Id": f"id-{n}", "MessageBody": f"entry {n}"} for n in range(10)]
    answer = await sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert {entry["Id"] for entry in answer["Successful"]} == {entry["Id"] for entry in entries}
    refused = await sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "MessageBody": "entry 10"},
            {"Id": "late", "MessageBody": "never", "DelaySeconds": 901},
        ],
    )
    assert [entry["Id"] for entry in refused["Successful"]] == ["good"]

    found = await drain(sqs, queue, 11)

    return {
        "bodies": sorted(message["Body"] for message in found),
        "refused": {entry["Id"]: entry["SenderFault"] for entry in refused["Failed"]},
        "left": await left(sqs, queue),
    }


async def settings(sqs: Any, queue: str) -> dict[str, Any]:
    await sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "3600"})
    found = await attributes(sqs, queue)
    await sqs.tag_queue(QueueUrl=queue, Tags={"stage": "test + try = @1"})
    both = (await sqs.list_queue_tags(QueueUrl=queue))["Tags"]
    await sqs.untag_queue(QueueUrl=queue, TagKeys=["team"])
    return {
        "attributes": [
            found["VisibilityTimeout"],
            found["MessageRetentionPeriod"],
            found["QueueArn"].rsplit(":", 1)[1],
        ],
        "tags": [both, (await sqs.list_queue_tags(QueueUrl=queue))["Tags"]],
    }


async def dead_letter(sqs: Any, source: str, dead: str) -> dict[str, str]:
    target = (await attributes(sqs, dead))["QueueArn"]
    policy = {"deadLetterTargetArn": target, "maxReceiveCount": "1"}
    await sqs.set_queue_attributes(
        QueueUrl=source, Attributes={"RedrivePolicy": json.dumps(policy)}
    )
    sources = await sqs.list_dead_letter_source_queues(QueueUrl=dead)
    assert sources["queueUrls"] == [source]
    sent = await sqs.send_message(QueueUrl=source, MessageBody="poison")

    [once] = await receive(sqs, source, VisibilityTimeout=0)
    assert not await receive(sqs, source, wait=1)
    [arrived] = await receive(sqs, dead)

    assert sent["MessageId"] == once["MessageId"] == arrived["MessageId"]
    await sqs.delete_message(QueueUrl=dead, ReceiptHandle=arrived["ReceiptHandle"])
    return {
        "body": arrived["Body"],
        "source": arrived["Attributes"]["DeadLetterQueueSourceArn"].rsplit(":", 1)[1],
    }


async def purged(sqs: Any, queue: str) -> int:
    await sqs.send_message_batch(
        QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "gone"} for n in range(5)]
    )
    await sqs.purge_queue(QueueUrl=queue)
    return len(await receive(sqs, queue, wait=0, MaxNumberOfMessages=10))


async def listed(sqs: Any, prefix: str) -> list[list[str]]:
    pages = sqs.get_paginator("list_queues").paginate(
        QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
    )
    return [[url.rsplit("/", 1)[1] for url in page["QueueUrls"]] async for page in pages]


async def absent(sqs: Any, name: str) -> list[str]:
    try:
        await sqs.get_queue_url(QueueName=name)
    except sqs.exceptions.QueueDoesNotExist as error:
        return [type(error).__name__, error.response["Error"]["Code"]]
    raise AssertionError(f"{name} exists")


async def standard(sqs: Any, prefix: str) -> dict[str, Any]:
    answers = await asyncio.gather(
        *(
            sqs.create_queue(
                QueueName=f"{prefix}-{name}",
                Attributes={"VisibilityTimeout": "45"},
                tags={"team": "tea"},
            )
            for name in ("main", "source", "dead")
        )
    )
    main, source, dead = (answer["QueueUrl"] for answer in answers)
    assert (await sqs.get_queue_url(QueueName=f"{prefix}-main"))["QueueUrl"] == main
    summary = {
        "single": await single(sqs, main),
        "delayed": await delayed(sqs, main),
        "batch": await batch(sqs, main),
        "settings": await settings(sqs, main),
        "dead_letter": await dead_letter(sqs, source, dead),
        "after_purge": await purged(sqs, main),
        "pages": await listed(sqs, prefix),
    }
    await asyncio.gather(*(sqs.delete_queue(QueueUrl=queue) for queue in (main, source, dead)))
    queue = (await sqs.create_queue(QueueName=f"{prefix}-left"))["QueueUrl"]
    await sqs.send_message(
        QueueUrl=queue, MessageBody="for another client", MessageAttributes=message_attributes.SENT
    )
    return summary | {"absent": await absent(sqs, f"{prefix}-main")}


async def fifo(sqs: Any, prefix: str) -> dict[str, Any]:
    created = await sqs.create_queue(
        QueueName=f"{prefix}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )
    queue = created["QueueUrl"]

    async def send(body: str) -> list[str]:
        sent = await sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId=body[0])
        return [sent["MessageId"], sent["SequenceNumber"]]

    sent = {body: await send(body) for body in ("a1", "b1", "a2", "b2", "a3")}
    again = await send("b2")

    # The first of one group, then the first of the other, and then both groups are taken.
    heads = [*await receive(sqs, queue), *await receive(sqs, queue)]
    taken = await receive(sqs, queue, wait=0, MaxNumberOfMessages=10)
    await delete(sqs, queue, heads)
    found = heads + await drain(sqs, queue, 3)
    more = await receive(sqs, queue, wait=0, MaxNumberOfMessages=10)
    await sqs.delete_queue(QueueUrl=queue)
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


async def together(sqs: Any, prefix: str) -> dict[str, Any]:
    """Let many tasks send, receive and delete at once; before, let some wait for messages."""
    queue = (await sqs.create_queue(QueueName=f"{prefix}-many"))["QueueUrl"]
    waiting = [asyncio.create_task(receive(sqs, queue)) for _ in range(5)]
    await asyncio.gather(
        *(
            sqs.send_message(QueueUrl=queue, MessageBody=f"waited for {n}", DelaySeconds=1)
            for n in range(5)
        )
    )
    woken = await asyncio.gather(*waiting)
    await asyncio.gather(*(delete(sqs, queue, messages) for messages in woken))

    found: list[str] = []

    async def work() -> None:
        while len(found) < MESSAGES:
            if messages := await receive(sqs, queue, wait=1, MaxNumberOfMessages=10):
                found.extend(message["Body"] for message in messages)
                await delete(sqs, queue, messages)

    await asyncio.gather(
        *(sqs.send_message(QueueUrl=queue, MessageBody=f"task {n}") for n in range(MESSAGES)),
        *(work() for _ in range(8)),
    )
    counts = await left(sqs, queue)
    await sqs.delete_queue(QueueUrl=queue)
    return {
        "woken": [[message["Body"] for message in messages] for messages in woken],
        "found": found,
        "left": counts,
    }


async def refused(sqs: Any) -> str:
    try:
        await sqs.list_queues()
    except ClientError as error:
        return str(error)
    raise AssertionError("a wrong key is right")


async def main() -> None:
    url, prefix = sys.argv[1:]
    session = get_session()
    given = {
        "endpoint_url": url,
        "config": AioConfig(retries={"total_max_attempts": 1}, max_pool_connections=50),
    }
    wrong = {
        "aws_access_key_id": (await session.get_credentials()).access_key,
        "aws_secret_access_key": "wrong",
    }
    async with (
        session.create_client("sqs", **given) as sqs,
        session.create_client("sqs", **given, **wrong) as other,
    ):
        summary = {
            "standard": await standard(sqs, prefix),
            "fifo": await fifo(sqs, prefix),
            "together": await together(sqs, prefix),
            "refused": await refused(other),
        }
        protocol = sqs.meta.service_model.metadata["protocol"]
    about = {"version": aiobotocore.__version__, "protocol": protocol}
    json.dump({"client": about, **summary}, sys.stdout)


asyncio.run(main())

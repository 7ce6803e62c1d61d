"""Requests that write, each with the SQL function that does it and the fact that shows it done."""

import json
from collections.abc import Callable
from typing import Any

from support.shop import ACCOUNT, Shop
from support.topic_writes import OF_TOPICS
from support.write import Act, Answer, Write


def _send(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.sqs.send_message(QueueUrl=shop.queue, **shop.message("one"))


def _send_batch(shop: Shop) -> Act:
    shop.fill()
    entries = [{"Id": str(n), **shop.message(f"body-{n}")} for n in range(3)]
    return lambda: shop.sqs.send_message_batch(QueueUrl=shop.queue, Entries=entries)


def _receive(shop: Shop) -> Act:
    shop.fill("one", "two")
    return lambda: shop.sqs.receive_message(
        QueueUrl=shop.queue, MaxNumberOfMessages=10, VisibilityTimeout=600
    )


def _is_claimed(shop: Shop, answer: Answer) -> bool:
    """Tell whether the messages of an answer are claimed, or any where there is no answer."""
    claimed = "receive_count > 0 and visible_at > clock_timestamp()"
    if not answer:
        return shop.count(claimed) > 0
    bodies = [message["Body"] for message in answer.get("Messages", [])]
    return shop.count(f"{claimed} and body = any(%s)", "", bodies) == len(bodies)


def _receive_attempt(shop: Shop) -> Act:
    shop.fill("one", "two")
    return lambda: shop.sqs.receive_message(
        QueueUrl=shop.queue, VisibilityTimeout=600, ReceiveRequestAttemptId="attempt"
    )


def _delete(shop: Shop) -> Act:
    shop.fill("one")
    (handle,) = shop.received()
    return lambda: shop.sqs.delete_message(QueueUrl=shop.queue, ReceiptHandle=handle)


def _delete_batch(shop: Shop) -> Act:
    shop.fill("one", "two")
    entries = [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate(shop.received())]
    return lambda: shop.sqs.delete_message_batch(QueueUrl=shop.queue, Entries=entries)


def _change(shop: Shop) -> Act:
    shop.fill("one")
    (handle,) = shop.received()
    return lambda: shop.sqs.change_message_visibility(
        QueueUrl=shop.queue, ReceiptHandle=handle, VisibilityTimeout=20_000
    )


def _fail(shop: Shop) -> Act:
    shop.fill("one")
    (handle,) = shop.received()
    return lambda: shop.extension(
        "FailMessage", QueueUrl=shop.queue, ReceiptHandle=handle, FailureReason="KeyError: 'sku'"
    )


def _dead_letter(shop: Shop) -> Act:
    shop.fill("one")
    dead = shop.create(f"{shop.name}-dead").rpartition("/")[2]
    arn = f"arn:aws:sqs:us-east-1:000000000000:{dead}"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 100})
    attributes = {"RedrivePolicy": policy}
    shop.sqs.set_queue_attributes(QueueUrl=shop.queue, Attributes=attributes)
    (handle,) = shop.received()
    return lambda: shop.extension("DeadLetterMessage", QueueUrl=shop.queue, ReceiptHandle=handle)


def _change_batch(shop: Shop) -> Act:
    shop.fill("one", "two")
    entries = [
        {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": 20_000}
        for n, handle in enumerate(shop.received())
    ]
    return lambda: shop.sqs.change_message_visibility_batch(QueueUrl=shop.queue, Entries=entries)


def _create(shop: Shop) -> Act:
    return lambda: {"QueueUrl": shop.create()}


def _pause(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.extension("PauseQueue", QueueUrl=shop.queue)


def _pause_group(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.extension("PauseMessageGroup", QueueUrl=shop.queue, MessageGroupId="g")


def _resume_group(shop: Shop) -> Act:
    _pause_group(shop)()
    return lambda: shop.extension("ResumeMessageGroup", QueueUrl=shop.queue, MessageGroupId="g")


def _set(shop: Shop) -> Act:
    shop.fill()
    attributes = {"DelaySeconds": "7"}
    return lambda: shop.sqs.set_queue_attributes(QueueUrl=shop.queue, Attributes=attributes)


def _tag(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.sqs.tag_queue(QueueUrl=shop.queue, Tags={"team": "tea"})


def _untag(shop: Shop) -> Act:
    _tag(shop)()
    return lambda: shop.sqs.untag_queue(QueueUrl=shop.queue, TagKeys=["team"])


def _permit(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.sqs.add_permission(
        QueueUrl=shop.queue, Label="tea", AWSAccountIds=["111122223333"], Actions=["SendMessage"]
    )


def _forbid(shop: Shop) -> Act:
    _permit(shop)()
    return lambda: shop.sqs.remove_permission(QueueUrl=shop.queue, Label="tea")


def _purge(shop: Shop) -> Act:
    shop.fill("one")
    return lambda: shop.sqs.purge_queue(QueueUrl=shop.queue)


def _delete_queue(shop: Shop) -> Act:
    shop.fill()
    return lambda: shop.sqs.delete_queue(QueueUrl=shop.queue)


def _start_move(shop: Shop) -> Act:
    shop.fill("one", "two", "three")
    target = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{shop.name}"
    policy = {"deadLetterTargetArn": target, "maxReceiveCount": 1}
    source = f"{shop.name}-source"
    shop.create(source, RedrivePolicy=json.dumps(policy))
    return lambda: shop.sqs.start_message_move_task(
        SourceArn=target,
        DestinationArn=target.replace(shop.name, source),
        MaxNumberOfMessagesPerSecond=1,
    )


def _cancel_move(shop: Shop) -> Act:
    started = _start_move(shop)()
    return lambda: shop.sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"])


def _picked(action: str) -> Callable[[Shop], Act]:
    def prepare(shop: Shop) -> Act:
        shop.fill("one", "two")
        parameters: dict[str, Any] = {"MessageReferences": shop.references()}
        if action != "DeletePickedMessages":
            parameters["DestinationQueueUrl"] = shop.create(f"{shop.name}-target")
        return lambda: shop.extension(action, QueueUrl=shop.queue, **parameters)

    return prepare


def _release(shop: Shop) -> Act:
    shop.fill("one", "two")
    shop.received()
    references = shop.references()
    return lambda: shop.extension(
        "ReleaseMessages", QueueUrl=shop.queue, MessageReferences=references
    )


def _start_task(shop: Shop) -> Act:
    shop.fill("one", "two", "three")
    return lambda: shop.extension(
        "StartMessageTask", QueueUrl=shop.queue, Kind="delete", MaxNumberOfMessagesPerSecond=1
    )


def _schedule(action: str, **change: Any) -> Callable[[Shop], Act]:
    def prepare(shop: Shop) -> Act:
        shop.fill()
        given = {"QueueUrl": shop.queue, "Name": shop.name, "Expression": "0 0 1 1 *"}
        if action == "CreateSchedule":
            return lambda: shop.extension(action, **given, MessageBody="go")
        shop.extension("CreateSchedule", **given, MessageBody="go")
        return lambda: shop.extension(action, Name=shop.name, **change)

    return prepare


def _scheduled(condition: str, count: int = 1) -> Callable[[Shop, Answer], bool]:
    return lambda shop, _: shop.schedules(condition) == count


def _messages(count: int, condition: str = "true") -> Callable[[Shop, Answer], bool]:
    return lambda shop, _: shop.count(condition) == count


def _queue(condition: str) -> Callable[[Shop, Answer], bool]:
    return lambda shop, _: shop.has(condition)


_NOW = "visible_at < clock_timestamp()"
_FAR = "visible_at > clock_timestamp() + interval '3 hours'"


def _of_messages(*, fifo: bool) -> list[Write]:
    kind = "_fifo" if fifo else ""
    send, delete = f"skipmq.send{kind}_messages(", f"skipmq.delete{kind}_messages("
    receive = "skipmq.claim_fifo_messages(" if fifo else "skipmq.receive_messages("
    change = f"skipmq.change{kind}_visibility("
    return [
        Write("SendMessage", send, _send, _messages(1), fifo),
        Write("SendMessageBatch", send, _send_batch, _messages(3), fifo),
        Write("ReceiveMessage", receive, _receive, _is_claimed, fifo),
        Write("DeleteMessage", delete, _delete, _messages(0), fifo),
        Write("DeleteMessageBatch", delete, _delete_batch, _messages(0), fifo),
        Write("ChangeMessageVisibility", change, _change, _messages(1, _FAR), fifo),
        Write("ChangeMessageVisibilityBatch", change, _change_batch, _messages(2, _FAR), fifo),
        Write("ReleaseMessages", "skipmq.release_messages(", _release, _messages(2, _NOW), fifo),
    ]


OF_MESSAGES = [
    *_of_messages(fifo=False),
    *_of_messages(fifo=True),
    Write(
        "ReceiveMessageAttempt",
        "skipmq.receive_fifo_attempt(",
        _receive_attempt,
        _is_claimed,
        fifo=True,
    ),
]
OF_QUEUES = [
    Write("CreateQueue", "skipmq.create_queue(", _create, _queue("true")),
    Write("SetQueueAttributes", "skipmq.set_queue_attributes(", _set, _queue("delay_seconds = 7")),
    Write("PauseQueue", "skipmq.set_queue_attributes(", _pause, _queue("paused")),
    Write(
        "PauseMessageGroup",
        "skipmq.pause_group(",
        _pause_group,
        _queue("exists (select from skipmq.paused_group g where g.queue_id = q.queue_id)"),
    ),
    Write(
        "ResumeMessageGroup",
        "skipmq.resume_group(",
        _resume_group,
        _queue("not exists (select from skipmq.paused_group g where g.queue_id = q.queue_id)"),
        repeats=False,
    ),
    Write("TagQueue", "skipmq.tag_queue(", _tag, _queue("tags ? 'team'")),
    Write("UntagQueue", "skipmq.untag_queue(", _untag, _queue("not tags ? 'team'")),
    Write(
        "AddPermission",
        "skipmq.replace_policy(",
        _permit,
        _queue("policy like '%%tea%%'"),
        repeats=False,
    ),
    Write(
        "RemovePermission", "skipmq.replace_policy(", _forbid, _queue("policy = ''"), repeats=False
    ),
    Write("PurgeQueue", "skipmq.purge_queue(", _purge, _messages(0), repeats=False),
    Write(
        "DeleteQueue",
        "skipmq.delete_queue(",
        _delete_queue,
        lambda shop, _: not shop.has("true"),
        repeats=False,
    ),
    Write(
        "StartMessageMoveTask",
        "skipmq.start_move_task(",
        _start_move,
        lambda shop, _: shop.tasks("true") == 1,
        repeats=False,
    ),
    Write(
        "CancelMessageMoveTask",
        "skipmq.cancel_move_task(",
        _cancel_move,
        lambda shop, _: shop.tasks("status in ('CANCELLING', 'CANCELLED')") == 1,
        repeats=False,
    ),
    Write(
        "CopyMessages",
        "skipmq.copy_messages(",
        _picked("CopyMessages"),
        lambda shop, _: shop.count("true", f"{shop.name}-target") == 2,
        repeats=False,
    ),
    Write(
        "MoveMessages",
        "skipmq.move_messages(",
        _picked("MoveMessages"),
        lambda shop, _: (shop.count(), shop.count("true", f"{shop.name}-target")) == (0, 2),
        repeats=False,
    ),
    Write(
        "DeletePickedMessages",
        "skipmq.delete_picked_messages(",
        _picked("DeletePickedMessages"),
        _messages(0),
    ),
    Write(
        "FailMessage",
        "skipmq.record_failure(",
        _fail,
        _messages(1, "attributes like '%%KeyError%%'"),
    ),
    Write(
        "DeadLetterMessage",
        "skipmq.dead_letter_message(",
        _dead_letter,
        lambda shop, _: (shop.count(), shop.count("true", f"{shop.name}-dead")) == (0, 1),
        repeats=False,
    ),
    Write(
        "StartMessageTask",
        "skipmq.start_message_task(",
        _start_task,
        lambda shop, _: shop.tasks("true") == 1,
        repeats=False,
    ),
    Write(
        "CreateSchedule",
        "skipmq.create_schedule(",
        _schedule("CreateSchedule"),
        _scheduled("expression = '0 0 1 1 *'"),
    ),
    Write(
        "PauseSchedule",
        "skipmq.change_schedule(",
        _schedule("PauseSchedule", Paused=True),
        _scheduled("paused"),
        repeats=False,
    ),
    Write(
        "RunSchedule",
        "skipmq.change_schedule(",
        _schedule("RunSchedule"),
        _messages(1),
        repeats=False,
    ),
    Write(
        "DeleteSchedule",
        "skipmq.change_schedule(",
        _schedule("DeleteSchedule"),
        _scheduled("true", 0),
        repeats=False,
    ),
]
WRITES = OF_MESSAGES + OF_QUEUES + OF_TOPICS

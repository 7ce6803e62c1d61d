from typing import Any

import pytest
from botocore.exceptions import ClientError

BATCHES = {
    "send_message_batch": {"MessageBody": "x"},
    "delete_message_batch": {"ReceiptHandle": "x"},
    "change_message_visibility_batch": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
}
Batch = pytest.mark.parametrize("batch", BATCHES)


def entries(batch: str, *ids: str) -> list[dict[str, Any]]:
    return [{"Id": id_, **BATCHES[batch]} for id_ in ids]


def refused(sqs: Any, queue: str, batch: str, *ids: str) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        getattr(sqs, batch)(QueueUrl=queue, Entries=entries(batch, *ids))
    error = caught.value.response["Error"]
    return error["Code"].rsplit(".", 1)[-1], error["Message"]


@Batch
def test_batch_of_more_than_ten_is_refused(sqs: Any, queue: str, batch: str) -> None:
    assert refused(sqs, queue, batch, *map(str, range(20))) == (
        "TooManyEntriesInBatchRequest",
        "Maximum number of entries per request are 10. You have sent 20.",
    )


@Batch
def test_batch_with_one_id_twice_is_refused(sqs: Any, queue: str, batch: str) -> None:
    assert refused(sqs, queue, batch, "a", "b", "a") == (
        "BatchEntryIdsNotDistinct",
        "Id a repeated.",
    )


@Batch
@pytest.mark.parametrize("bad", ["", "a b", "x" * 81, "ä"])
def test_batch_with_bad_id_is_refused(sqs: Any, queue: str, batch: str, bad: str) -> None:
    assert refused(sqs, queue, batch, "a", bad) == (
        "InvalidBatchEntryId",
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
        " It can be at most 80 letters long.",
    )


def test_empty_batch_is_refused(sqs: Any, queue: str) -> None:
    assert refused(sqs, queue, "send_message_batch") == (
        "EmptyBatchRequest",
        "There should be at least one SendMessageBatchRequestEntry in the request.",
    )


def test_send_batch_stores_each_and_answers_by_id(sqs: Any, queue: str) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[{"Id": f"id-{n}", "MessageBody": f"body {n}"} for n in range(10)],
    )

    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert {m["MessageId"]: m["Body"] for m in received} == {
        entry["MessageId"]: f"body {entry['Id'][3:]}" for entry in answer["Successful"]
    }
    assert "Failed" not in answer


def test_send_batch_with_bad_entries_stores_the_good_ones(sqs: Any, queue: str) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "MessageBody": "good"},
            {"Id": "delay", "MessageBody": "x", "DelaySeconds": 901},
            {"Id": "chars", "MessageBody": "\x02"},
        ],
    )

    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [m["Body"] for m in received] == ["good"]
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert {e["Id"]: (e["Code"], e["SenderFault"]) for e in answer["Failed"]} == {
        "delay": ("InvalidParameterValue", True),
        "chars": ("InvalidMessageContents", True),
    }


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_send_batch_holds_each_entry_to_the_size_that_the_queue_sets(
    sqs: Any, name: str, fifo: bool
) -> None:
    attributes = {"MaximumMessageSize": "1024"} | ({"FifoQueue": "true"} if fifo else {})
    suffix = ".fifo" if fifo else ""
    queue = sqs.create_queue(QueueName=name + suffix, Attributes=attributes)["QueueUrl"]
    more = {"MessageGroupId": "g"} if fifo else {}

    def entry(id_: str, size: int, value: str = "") -> dict[str, Any]:
        given: dict[str, Any] = {"Id": id_, "MessageBody": id_ * size, **more}
        if value:
            given["MessageAttributes"] = {"N": {"DataType": "String", "StringValue": value}}
        return given | ({"MessageDeduplicationId": f"i{size}{value}"} if fifo else {})

    answer = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            entry("a", 1024),
            entry("b", 1025),
            entry("c", 1016, "x"),
            entry("d", 1016, "xy"),
            entry("\N{LATIN SMALL LETTER E WITH ACUTE}", 513) | {"Id": "e"},
        ],
    )

    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    text = (
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024"
        " bytes."
    )
    failure = {"SenderFault": True, "Code": "InvalidParameterValue", "Message": text}
    assert [e["Id"] for e in answer["Successful"]] == ["a", "c"]
    assert answer["Failed"] == [{"Id": id_, **failure} for id_ in "bde"]
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert {m["Body"][0]: len(m["Body"]) for m in received} == {"a": 1024, "c": 1016}


def test_send_batch_larger_than_the_size_that_the_queue_sets_is_sent(sqs: Any, name: str) -> None:
    queue = sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    entries = [{"Id": str(n), "MessageBody": "x" * 1024} for n in range(10)]

    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert len(answer["Successful"]) == 10


def test_send_batch_of_one_message_has_the_limit_of_the_batch(sqs: Any, queue: str) -> None:
    def send(size: int) -> Any:
        entry = {"Id": "a", "MessageBody": "x" * size}
        return sqs.send_message_batch(QueueUrl=queue, Entries=[entry])

    with pytest.raises(sqs.exceptions.BatchRequestTooLong):
        send(1_048_577)

    assert "Failed" not in send(1_048_576)


@Batch
def test_batch_answers_leave_out_the_list_that_is_empty(sqs: Any, queue: str, batch: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    bad: dict[str, Any] = {"Id": "bad", **BATCHES[batch], "DelaySeconds": 901}
    good: dict[str, Any] = {"Id": "good", **BATCHES[batch]}
    if batch != "send_message_batch":
        del bad["DelaySeconds"]
        good["ReceiptHandle"] = message["ReceiptHandle"]

    def lists(*given: dict[str, Any]) -> set[str]:
        return set(getattr(sqs, batch)(QueueUrl=queue, Entries=[*given])) - {"ResponseMetadata"}

    assert lists(bad) == {"Failed"}
    assert lists(bad, good) == {"Failed", "Successful"}
    assert lists(good) == {"Successful"}


def test_send_batch_too_long_in_all_is_refused_whole(sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.BatchRequestTooLong) as caught:
        sqs.send_message_batch(
            QueueUrl=queue,
            Entries=[
                {"Id": "a", "MessageBody": "x" * 524_288},
                {"Id": "b", "MessageBody": "x" * 524_289},
            ],
        )

    assert caught.value.response["Error"]["Message"] == (
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_delete_batch_deletes_the_good_and_names_the_bad(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"]

    answer = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"]},
            {"Id": "bad", "ReceiptHandle": "nonsense"},
        ],
    )

    assert [e["Id"] for e in answer["Successful"]] == ["good"]
    assert [(e["Id"], e["Code"]) for e in answer["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_change_visibility_batch_changes_the_good_and_names_the_bad(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]

    answer = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "forged", "ReceiptHandle": "nonsense", "VisibilityTimeout": 0},
            {"Id": "long", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 43201},
        ],
    )

    assert [e["Id"] for e in answer["Successful"]] == ["good"]
    assert {e["Id"]: e["Code"] for e in answer["Failed"]} == {
        "forged": "ReceiptHandleIsInvalid",
        "long": "InvalidParameterValue",
    }
    assert sqs.receive_message(QueueUrl=queue)["Messages"]


def test_change_visibility_batch_says_of_a_deleted_message_that_its_handle_is_invalid(
    sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    handle = message["ReceiptHandle"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)

    answer = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[{"Id": "gone", "ReceiptHandle": handle, "VisibilityTimeout": 1}],
    )

    # A client of gocloud.dev tells by this code that there is nothing left to give back.
    assert answer["Failed"] == [
        {
            "Id": "gone",
            "SenderFault": True,
            "Code": "ReceiptHandleIsInvalid",
            "Message": "Message does not exist or is not available for visibility timeout change",
        }
    ]

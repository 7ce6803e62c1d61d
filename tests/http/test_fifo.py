"""FIFO queues over HTTP. Source: SQS Developer Guide, FIFO queues; SQS API Reference."""

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import Alternating, NodeProcess, client, eventually


@pytest.fixture(params=["one node", "two nodes"])
def sqs(
    request: pytest.FixtureRequest, broker: NodeProcess, second_broker: NodeProcess, wire: str
) -> Any:
    """Give a client of one node, or one whose calls go to two nodes in turn."""
    if request.param == "one node":
        return client(broker.url, wire)
    return Alternating(client(broker.url, wire), client(second_broker.url, wire))


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    """Give the URL of a new FIFO queue that takes deduplication ids from the bodies."""
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    return str(url)


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return (caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"])


def received(sqs: Any, queue: str, **options: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["All"], **{"MaxNumberOfMessages": 10, **options}
    )
    return list(answer.get("Messages", []))


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def test_send_and_receive_show_sequence_group_and_deduplication(sqs: Any, fifo: str) -> None:
    first = sqs.send_message(QueueUrl=fifo, MessageBody="1", MessageGroupId="g")
    batch = sqs.send_message_batch(
        QueueUrl=fifo,
        Entries=[
            {"Id": "a", "MessageBody": "2", "MessageGroupId": "g"},
            {
                "Id": "b",
                "MessageBody": "3",
                "MessageGroupId": "g",
                "MessageDeduplicationId": "third",
            },
        ],
    )["Successful"]

    messages = received(sqs, fifo)

    numbers = [first["SequenceNumber"], *(entry["SequenceNumber"] for entry in batch)]
    assert [len(number) for number in numbers] == [20, 20, 20]
    assert numbers == sorted(numbers)
    assert [m["Attributes"]["SequenceNumber"] for m in messages] == numbers
    assert [m["Attributes"]["MessageGroupId"] for m in messages] == ["g"] * 3
    assert [m["Attributes"]["MessageDeduplicationId"] for m in messages] == [
        hashlib.sha256(b"1").hexdigest(),
        hashlib.sha256(b"2").hexdigest(),
        "third",
    ]
    assert bodies(messages) == ["1", "2", "3"]


def test_duplicate_is_answered_with_the_first_answer(sqs: Any, fifo: str) -> None:
    def send(body: str, group: str = "g", **options: str) -> tuple[str, str]:
        sent = sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group, **options)
        return (sent["MessageId"], sent["SequenceNumber"])

    first = send("1")
    messages = received(sqs, fifo)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=messages[0]["ReceiptHandle"])

    assert send("1") == first
    assert send("1", group="other") == first
    assert send("another", MessageDeduplicationId=hashlib.sha256(b"1").hexdigest()) == first
    assert send("1", MessageDeduplicationId="explicit") != first
    assert bodies(received(sqs, fifo)) == ["1"]


def test_duplicates_within_a_batch_are_one_message(sqs: Any, fifo: str) -> None:
    entries = [{"Id": i, "MessageBody": "same", "MessageGroupId": "g"} for i in "abc"]

    answers = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)["Successful"]

    assert len({(a["MessageId"], a["SequenceNumber"]) for a in answers}) == 1
    assert len(received(sqs, fifo)) == 1


@pytest.mark.parametrize("given", [{}, {"MessageDeduplicationId": "explicit"}], ids=str)
def test_purge_clears_deduplication(sqs: Any, fifo: str, given: dict[str, str]) -> None:
    def send() -> dict[str, Any]:
        sent: dict[str, Any] = sqs.send_message(
            QueueUrl=fifo, MessageBody="1", MessageGroupId="g", **given
        )
        return sent

    first = send()
    sqs.purge_queue(QueueUrl=fifo)

    again, duplicate = send(), send()

    assert again["MessageId"] != first["MessageId"]
    assert int(again["SequenceNumber"]) > int(first["SequenceNumber"])
    assert duplicate["MessageId"] == again["MessageId"]
    assert [m["MessageId"] for m in received(sqs, fifo)] == [again["MessageId"]]


def test_deduplication_may_be_by_group(sqs: Any, name: str) -> None:
    attributes = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]

    sent = [
        sqs.send_message(QueueUrl=url, MessageBody="same", MessageGroupId=group)["SequenceNumber"]
        for group in ("a", "b", "a")
    ]

    assert sent[0] == sent[2] != sent[1]
    assert len(received(sqs, url)) == 2


def test_send_needs_group_and_deduplication_id(sqs: Any, name: str) -> None:
    fifo = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    no_group = "The request must contain the parameter MessageGroupId."
    no_id = (
        "The queue should either have ContentBasedDeduplication enabled or"
        " MessageDeduplicationId provided explicitly"
    )
    body = {"QueueUrl": fifo, "MessageBody": "x"}

    assert refused(sqs.send_message, **body) == ("MissingParameter", no_group)
    assert refused(sqs.send_message, **body, MessageGroupId="g") == (
        "InvalidParameterValue",
        no_id,
    )
    fine = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "fine"}
    for lacking, text in (
        ({"MessageBody": "x"}, no_group),
        ({"MessageBody": "x", "MessageDeduplicationId": "y"}, no_group),
        ({"MessageBody": "x", "MessageGroupId": "g"}, no_id),
    ):
        for entries in ([lacking], [fine, lacking], [lacking, fine]):
            # One such entry is enough to fail the whole batch.
            assert refused(
                sqs.send_message_batch,
                QueueUrl=fifo,
                Entries=[{"Id": str(n), **entry} for n, entry in enumerate(entries)],
            ) == ("InvalidParameterValue", text)
    assert received(sqs, fifo) == []


def test_batch_to_a_queue_that_deduplicates_by_content_needs_the_group_alone(
    sqs: Any, fifo: str
) -> None:
    fine = {"Id": "a", "MessageBody": "x", "MessageGroupId": "g"}

    refusal = refused(
        sqs.send_message_batch, QueueUrl=fifo, Entries=[fine, {"Id": "b", "MessageBody": "y"}]
    )
    answer = sqs.send_message_batch(QueueUrl=fifo, Entries=[fine])

    assert refusal[1] == "The request must contain the parameter MessageGroupId."
    assert [entry["Id"] for entry in answer["Successful"]] == ["a"]
    assert bodies(received(sqs, fifo)) == ["x"]


def test_delay_of_a_single_message_is_refused(sqs: Any, fifo: str) -> None:
    message = {"QueueUrl": fifo, "MessageBody": "x", "MessageGroupId": "g"}

    assert refused(sqs.send_message, **message, DelaySeconds=2) == (
        "InvalidParameterValue",
        "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter"
        " that is not valid for this queue type.",
    )
    assert sqs.send_message(**message, DelaySeconds=0)["SequenceNumber"]


def test_delete_with_an_expired_handle_is_refused(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="x", MessageGroupId="g")
    (old,) = received(sqs, fifo, VisibilityTimeout=0)
    text = (
        f"Value {old['ReceiptHandle']} for parameter ReceiptHandle is invalid."
        " Reason: The receipt handle has expired."
    )
    wrong = ("InvalidParameterValue", text)

    handle = {"QueueUrl": fifo, "ReceiptHandle": old["ReceiptHandle"]}
    assert refused(sqs.delete_message, **handle) == wrong
    (new,) = received(sqs, fifo)
    assert refused(sqs.delete_message, **handle) == wrong
    failed = sqs.delete_message_batch(
        QueueUrl=fifo,
        Entries=[
            {"Id": "old", "ReceiptHandle": old["ReceiptHandle"]},
            {"Id": "new", "ReceiptHandle": new["ReceiptHandle"]},
        ],
    )
    assert [(f["Id"], f["Code"], f["Message"]) for f in failed["Failed"]] == [("old", *wrong)]
    assert [entry["Id"] for entry in failed["Successful"]] == ["new"]
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=new["ReceiptHandle"])


def test_attempt_gives_the_same_messages_and_handles_again(sqs: Any, fifo: str) -> None:
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    attempt = {"ReceiveRequestAttemptId": "attempt-1", "MaxNumberOfMessages": 2}

    first = received(sqs, fifo, **attempt)
    again = received(sqs, fifo, **attempt)

    assert bodies(first) == ["1", "2"]
    assert again == first
    assert received(sqs, fifo, ReceiveRequestAttemptId="attempt-2") == []
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first[0]["ReceiptHandle"])
    assert received(sqs, fifo, **attempt) == []


def test_attempt_is_for_fifo_queues_and_checked(sqs: Any, fifo: str, queue: str) -> None:
    receive = sqs.receive_message

    assert (
        "not valid for this queue type"
        in (refused(receive, QueueUrl=queue, ReceiveRequestAttemptId="x")[1])
    )
    assert (
        "alphanumeric and punctuation characters"
        in (refused(receive, QueueUrl=fifo, ReceiveRequestAttemptId="a b")[1])
    )


def test_waiting_receiver_is_woken_when_its_group_goes_on(sqs: Any, fifo: str) -> None:
    for body in ("1", "2"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    (first,) = received(sqs, fifo, MaxNumberOfMessages=1)

    assert received(sqs, fifo, WaitTimeSeconds=1) == []
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])
    assert bodies(received(sqs, fifo, WaitTimeSeconds=20)) == ["2"]


def test_dead_letter_queue_must_be_a_fifo_queue_too(sqs: Any, fifo: str, queue: str) -> None:
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    policy = f'{{"deadLetterTargetArn":"{arn["QueueArn"]}","maxReceiveCount":1}}'

    code, text = refused(
        sqs.set_queue_attributes, QueueUrl=fifo, Attributes={"RedrivePolicy": policy}
    )

    assert code == "InvalidParameterValue"
    assert "Dead-letter queue must be same type of queue as the source." in text


def test_group_is_held_wherever_its_messages_are_asked_for(sqs: Any, fifo: str) -> None:
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    one, two = received(sqs, fifo, MaxNumberOfMessages=2)

    assert [received(sqs, fifo), received(sqs, fifo)] == [[], []]
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=two["ReceiptHandle"])
    assert [received(sqs, fifo), received(sqs, fifo)] == [[], []]
    sqs.change_message_visibility(
        QueueUrl=fifo, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0
    )
    assert bodies(received(sqs, fifo)) == ["1", "3"]


def test_messages_before_one_in_flight_come_out(sqs: Any, fifo: str) -> None:
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    one, _ = received(sqs, fifo, MaxNumberOfMessages=2)
    sqs.change_message_visibility(
        QueueUrl=fifo, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0
    )

    assert bodies(received(sqs, fifo)) == ["1"]
    assert received(sqs, fifo) == []


def test_queue_delay_holds_and_applies_to_what_waits(sqs: Any, fifo: str) -> None:
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"DelaySeconds": "900"})
    for body in ("1", "2"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    assert received(sqs, fifo) == []
    found = sqs.get_queue_attributes(QueueUrl=fifo, AttributeNames=["All"])["Attributes"]
    assert found["ApproximateNumberOfMessagesDelayed"] == "2"

    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"DelaySeconds": "0"})

    assert bodies(received(sqs, fifo)) == ["1", "2"]


def test_dead_letters_keep_their_order_there_and_back(sqs: Any, fifo: str, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead.fifo", Attributes={"FifoQueue": "true"})[
        "QueueUrl"
    ]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    policy = f'{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}'
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"RedrivePolicy": policy})
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")
    assert bodies(received(sqs, fifo, VisibilityTimeout=0)) == ["1", "2", "3"]
    assert received(sqs, fifo) == []

    dead_letters = received(sqs, dead, VisibilityTimeout=0)
    # So that messages of one deduplication id, sent minutes apart, do not meet there.
    assert [m["Attributes"]["MessageDeduplicationId"] for m in dead_letters] == [
        m["MessageId"] for m in dead_letters
    ]
    sqs.start_message_move_task(SourceArn=arn)
    back = eventually(lambda: received(sqs, fifo, WaitTimeSeconds=5))

    assert bodies(dead_letters) == bodies(back) == ["1", "2", "3"]
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in dead_letters} == {"2"}
    assert {m["Attributes"]["ApproximateReceiveCount"] for m in back} == {"1"}

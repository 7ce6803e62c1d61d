"""What SkipMQ has beyond SQS, on the JSON wire: peek, copy, move."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from support.http import NodeProcess, eventually, raw

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def other(sqs: Any, name: str) -> str:
    return str(sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    return str(url)


def bodies(answer: dict[str, Any]) -> list[str]:
    return [message["Body"] for message in answer["Messages"]]


def counts(sqs: Any, queue: str) -> tuple[int, ...]:
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    names = ("", "NotVisible", "Delayed")
    return tuple(int(found[f"ApproximateNumberOfMessages{n}"]) for n in names)


def test_peek_shows_a_message_whole_and_leaves_it(sqs: Any, queue: str, ask: Ask) -> None:
    attributes = {
        "colour": {"DataType": "String", "StringValue": "red"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)

    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]

    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert (message["State"], message["VisibleInSeconds"]) == ("visible", 0)
    assert message["MessageAttributes"] == {
        "colour": {"DataType": "String", "StringValue": "red"},
        "raw": {"DataType": "Binary", "BinaryValue": "AP8="},
    }
    assert message["Attributes"]["ApproximateReceiveCount"] == "0"
    assert "ApproximateFirstReceiveTimestamp" not in message["Attributes"]
    (received,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]
    assert received["Attributes"]["ApproximateReceiveCount"] == "1"


def test_peek_tells_states_apart(sqs: Any, queue: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="received")
    sqs.receive_message(QueueUrl=queue, VisibilityTimeout=100)
    sqs.send_message(QueueUrl=queue, MessageBody="waits")
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=200)

    by_state = {
        state: ask("PeekMessages", QueueUrl=queue, State=state)["Messages"]
        for state in ("visible", "in-flight", "delayed")
    }

    assert {state: [m["Body"] for m in found] for state, found in by_state.items()} == {
        "visible": ["waits"],
        "in-flight": ["received"],
        "delayed": ["later"],
    }
    assert 90 < by_state["in-flight"][0]["VisibleInSeconds"] <= 100
    assert 190 < by_state["delayed"][0]["VisibleInSeconds"] <= 200
    assert bodies(ask("PeekMessages", QueueUrl=queue)) == ["waits", "later", "received"]


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_peek_in_pages_shows_every_message_once(
    sqs: Any, queue: str, fifo: str, kind: str, ask: Ask
) -> None:
    url, group = (queue, {}) if kind == "standard" else (fifo, {"MessageGroupId": "g"})
    for start in range(0, 30, 10):
        entries = [{"Id": str(n), "MessageBody": str(n), **group} for n in range(start, start + 10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    seen: list[str] = []
    token: dict[str, str] = {}
    pages = 0
    while pages == 0 or token:
        page = ask("PeekMessages", QueueUrl=url, MaxResults=7, **token)
        seen += bodies(page)
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else {}
        pages += 1

    assert pages == 5
    assert sorted(seen, key=int) == [str(n) for n in range(30)]
    if kind == "fifo":
        assert seen == [str(n) for n in range(30)]


def test_peek_of_a_fifo_queue_shows_its_states(sqs: Any, fifo: str, ask: Ask) -> None:
    for group, body in (("a", "1"), ("a", "2"), ("b", "3")):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    sqs.receive_message(QueueUrl=fifo)

    assert bodies(ask("PeekMessages", QueueUrl=fifo, State="in-flight")) == ["1"]
    assert bodies(ask("PeekMessages", QueueUrl=fifo, State="visible")) == ["2", "3"]
    (first, *_) = ask("PeekMessages", QueueUrl=fifo)["Messages"]
    assert first["Attributes"]["MessageGroupId"] == "a"
    assert len(first["Attributes"]["SequenceNumber"]) == 20


def test_copy_sends_the_picked_ones_anew(sqs: Any, queue: str, other: str, ask: Ask) -> None:
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    sqs.receive_message(QueueUrl=queue)
    found = ask("PeekMessages", QueueUrl=queue)["Messages"]
    picked = [m["MessageReference"] for m in found if m["Body"] != "2"]

    answer = ask(
        "CopyMessages",
        QueueUrl=queue,
        DestinationQueueUrl=other,
        MessageReferences=[*picked, f"999999999-{uuid4()}"],
    )

    outcomes = [result["Outcome"] for result in answer["Results"]]
    assert outcomes == ["copied", "copied", "missing"]
    copies = ask("PeekMessages", QueueUrl=other)["Messages"]
    assert sorted(m["Body"] for m in copies) == ["1", "3"]
    assert not {m["MessageId"] for m in copies} & {m["MessageId"] for m in found}
    assert sum(counts(sqs, queue)) == 3


def test_move_takes_what_is_not_in_flight(sqs: Any, queue: str, other: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="received")
    sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="waits")
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=100)
    found = {m["Body"]: m for m in ask("PeekMessages", QueueUrl=queue)["Messages"]}

    answer = ask(
        "MoveMessages",
        QueueUrl=queue,
        DestinationQueueUrl=other,
        MessageReferences=[m["MessageReference"] for m in found.values()],
    )

    outcomes = [result["Outcome"] for result in answer["Results"]]
    assert dict(zip(found, outcomes, strict=True)) == {
        "waits": "moved",
        "received": "in-flight",
        "later": "moved",
    }
    assert counts(sqs, queue) == (0, 1, 0)
    assert counts(sqs, other) == (2, 0, 0)
    moved = sqs.receive_message(QueueUrl=other, MaxNumberOfMessages=10)["Messages"]
    # A message that was moved is a new one.
    assert {m["Body"] for m in moved} == {"waits", "later"}
    assert not {m["MessageId"] for m in moved} & {m["MessageId"] for m in found.values()}


def test_delete_takes_what_is_not_in_flight(sqs: Any, queue: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="received")
    sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="waits")
    found = {m["Body"]: m for m in ask("PeekMessages", QueueUrl=queue)["Messages"]}
    references = [found[body]["MessageReference"] for body in ("waits", "received")]

    answer = ask(
        "DeletePickedMessages", QueueUrl=queue, MessageReferences=[*references, f"9-{uuid4()}"]
    )

    outcomes = [result["Outcome"] for result in answer["Results"]]
    assert outcomes == ["deleted", "in-flight", "missing"]
    assert counts(sqs, queue) == (0, 1, 0)


def test_move_and_copy_between_fifo_queues_keep_the_order(
    sqs: Any, fifo: str, name: str, ask: Ask
) -> None:
    target = sqs.create_queue(QueueName=f"{name}-2.fifo", Attributes={"FifoQueue": "true"})
    arguments = {"QueueUrl": fifo, "DestinationQueueUrl": target["QueueUrl"]}
    for n in range(6):
        sqs.send_message(QueueUrl=fifo, MessageBody=str(n), MessageGroupId="g")
    references = [m["MessageReference"] for m in ask("PeekMessages", QueueUrl=fifo)["Messages"]]

    ask("MoveMessages", **arguments, MessageReferences=references[3::-1])
    ask("CopyMessages", **arguments, MessageReferences=references[4:])

    moved = sqs.receive_message(QueueUrl=target["QueueUrl"], MaxNumberOfMessages=10)
    assert bodies(moved) == ["0", "1", "2", "3", "4", "5"]
    assert counts(sqs, fifo) == (2, 0, 0)


def test_queues_of_different_types_exchange_nothing(
    sqs: Any, queue: str, fifo: str, ask: Ask
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = ask("PeekMessages", QueueUrl=queue)["Messages"]
    arguments = {
        "QueueUrl": queue,
        "DestinationQueueUrl": fifo,
        "MessageReferences": [message["MessageReference"]],
    }

    for action in ("MoveMessages", "CopyMessages"):
        assert ask(action, 400, **arguments)["__type"].endswith("#UnsupportedOperation")
    assert counts(sqs, queue) == (1, 0, 0)


@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        ("PeekMessages", {"State": "gone"}),
        ("PeekMessages", {"MaxResults": 101}),
        ("PeekMessages", {"NextToken": "AAAA"}),
        ("PeekMessages", {"NextToken": "?"}),
        ("MoveMessages", {"MessageReferences": []}),
        ("MoveMessages", {"MessageReferences": ["x"]}),
        ("CopyMessages", {"MessageReferences": ["1"] * 1001}),
        ("DeletePickedMessages", {"MessageReferences": ["x"]}),
    ],
)
def test_what_makes_no_sense_is_refused(
    queue: str, other: str, ask: Ask, action: str, parameters: dict[str, Any]
) -> None:
    answer = ask(action, 400, QueueUrl=queue, DestinationQueueUrl=other, **parameters)

    assert answer["__type"].endswith("#InvalidParameterValueException")


def test_our_actions_are_no_actions_of_sqs(broker: NodeProcess, queue: str) -> None:
    headers = {"X-Amz-Target": "AmazonSQS.PeekMessages"}

    assert raw(broker.url, json.dumps({"QueueUrl": queue}).encode(), headers).status == 400
    assert raw(f"{broker.url}/?Action=PeekMessages&QueueUrl={queue}").status in (400, 404)


def test_list_queue_statistics_has_a_page_of_those_that_match(
    sqs: Any, name: str, ask: Ask
) -> None:
    for each in ("a", "b", "c"):
        sqs.create_queue(QueueName=f"{name}-counted-{each}")
    url = sqs.get_queue_url(QueueName=f"{name}-counted-b")["QueueUrl"]
    for body in ("x", "y"):
        sqs.send_message(QueueUrl=url, MessageBody=body)

    found = ask("ListQueueStatistics", Search=f"{name}-COUNTED", MaxResults=2)
    last = ask("ListQueueStatistics", Search=f"{name}-counted", MaxResults=2, Offset=2)

    assert [(each["QueueName"], each["Visible"]) for each in found["Queues"]] == [
        (f"{name}-counted-a", 0),
        (f"{name}-counted-b", 2),
    ]
    assert found["Matches"] == last["Matches"] == 3
    (third,) = last["Queues"]
    assert third["QueueName"] == f"{name}-counted-c"
    # In this order, and nothing that is for operators.
    assert " ".join(third) == (
        "QueueName FifoQueue DeadLetterQueue Visible InFlight Delayed Sent BytesSent Received"
        " EmptyReceives Deleted Expired DeadLettered Redriven MovedIn SentPerMinute"
        " ReceivedPerMinute DeletedPerMinute OldestSeconds ExpiresInSeconds Minutes Paused Held"
        " PausedGroups"
    )
    assert (third["OldestSeconds"], third["SentPerMinute"], third["Minutes"]) == (None, 0, [])
    nothing = {"Queues": [], "Matches": 0}
    assert ask("ListQueueStatistics", Search=f"{name}-nothing") == nothing

    def most() -> bool:  # Counts are added up once a second.
        asked = {"Search": f"{name}-counted", "Order": "messages", "Minutes": 5}
        answer = ask("ListQueueStatistics", **asked)
        first = answer["Queues"][0]
        assert all(0 <= answer["Clock"] - each["Minute"] < 360 for each in first["Minutes"])
        sent = sum(each["Sent"] for each in first["Minutes"])
        return (first["QueueName"], first["Sent"], sent) == (f"{name}-counted-b", 2, 2)

    eventually(most)


@pytest.mark.parametrize(
    "wrong",
    [{"Order": "size"}, {"MaxResults": 201}, {"Offset": -1}, {"Search": "a\0"}, {"Minutes": 0}],
)
def test_list_queue_statistics_refuses_what_it_does_not_know(
    ask: Ask, wrong: dict[str, Any]
) -> None:
    assert "InvalidParameterValue" in ask("ListQueueStatistics", status=400, **wrong)["__type"]


def test_list_dead_letter_queues_has_those_that_are_named_with_their_sources(
    sqs: Any, name: str, ask: Ask
) -> None:
    arn = "arn:aws:sqs:us-east-1:000000000000"
    for each in ("full", "gone"):
        sqs.create_queue(QueueName=f"{name}-{each}")
        policy = {"deadLetterTargetArn": f"{arn}:{name}-{each}", "maxReceiveCount": 4}
        attributes = {"RedrivePolicy": json.dumps(policy)}
        sqs.create_queue(QueueName=f"{name}-to-{each}", Attributes=attributes)
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName=f"{name}-full")["QueueUrl"], MessageBody="x"
    )
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=f"{name}-gone")["QueueUrl"])

    def counted() -> Any:  # Counts are added up once a second.
        found = ask("ListDeadLetterQueues", Search=name)
        return found["DeadLetterQueues"][1]["Messages"] and found

    found = eventually(counted)

    assert found["Matches"] == 2
    gone, full = found["DeadLetterQueues"]
    assert (gone["QueueName"], gone["Exists"]) == (f"{name}-gone", False)
    assert (full["Exists"], full["Messages"], full["Arrived"]) == (True, 1, 1)
    source = {"QueueName": f"{name}-to-full", "MaxReceiveCount": 4}
    # A send by a client counts for the only source.
    assert full["Sources"] == [source | {"Messages": 0, "DeadLettered": 1}]
    page = ask("ListDeadLetterQueues", Search=name, MaxResults=1, Offset=1)
    assert [each["QueueName"] for each in page["DeadLetterQueues"]] == [f"{name}-full"]
    assert page["Matches"] == 2


def test_list_dead_letter_queues_has_queues_that_redeliver(
    sqs: Any, queue: str, name: str, ask: Ask
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    for _ in range(12):
        sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)

    def received() -> Any:  # Nodes add what they count once a second.
        found = ask("ListDeadLetterQueues", Search=name)["Redelivering"]
        return found and found[0]["Received"] == 12 and found

    (found,) = eventually(received)

    assert found["QueueName"] == queue.rpartition("/")[2]
    assert (found["Deleted"], found["Messages"]) == (0, 1)


@pytest.mark.parametrize("wrong", [{"MaxResults": 101}, {"Offset": -1}, {"Search": "a\0"}])
def test_list_dead_letter_queues_refuses_what_it_does_not_know(
    ask: Ask, wrong: dict[str, Any]
) -> None:
    assert "InvalidParameterValue" in ask("ListDeadLetterQueues", status=400, **wrong)["__type"]


def test_queue_activity_has_minutes_and_times_in_the_queue(
    sqs: Any, queue: str, name: str, ask: Ask
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def found() -> Any:  # Minutes are written once a second.
        activity = ask("GetQueueActivity", QueueUrl=queue, Minutes=5)
        sums = [sum(each[of] for each in activity["Minutes"]) for of in ("Sent", "Deleted")]
        return activity if sums == [1, 1] and "TimeInQueue" in activity else None

    activity = eventually(found)
    assert activity["HistoryMode"] == "metadata"
    assert activity["Sampled"] is False
    every, steps = activity["TimeInQueue"], activity["Steps"]
    assert (every["Deleted"], sum(each["Deleted"] for each in steps)) == (1, 1)
    assert 0 < every["SendToReceive"]["P50"] < every["SendToDelete"]["P99"]
    assert 0 <= activity["Clock"] - activity["Minutes"][-1]["Minute"] < 300
    attributes = {"HistoryMode": "off"}
    off = sqs.create_queue(QueueName=f"{name}-off", Attributes=attributes)["QueueUrl"]
    nothing = ask("GetQueueActivity", QueueUrl=off)
    assert (nothing["Minutes"], "TimeInQueue" in nothing) == ([], False)


def test_tail_gives_what_came_since(sqs: Any, queue: str, ask: Ask) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    before = ask("PeekNewestMessages", QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="n" * 5_000)

    after = ask("PeekNewestMessages", QueueUrl=queue, Since=before["Clock"])

    assert bodies(before) == ["old"]
    assert bodies(after) == ["n" * 2_048]
    assert after["Messages"][0]["Characters"] == 5_000
    assert counts(sqs, queue) == (2, 0, 0)


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("GetQueueActivity", {"Minutes": 361}),
        ("GetQueueActivity", {"StepMinutes": 61}),
        ("PeekNewestMessages", {"MaxResults": 101}),
        ("PeekNewestMessages", {"Since": -1}),
    ],
)
def test_watching_refuses_what_it_does_not_know(
    queue: str, ask: Ask, action: str, wrong: dict[str, Any]
) -> None:
    assert "InvalidParameterValue" in ask(action, status=400, QueueUrl=queue, **wrong)["__type"]

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

LIMIT = 1_048_576
CAN = "contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) characters."
TYPES = "message attribute type, the set of supported type prefixes is Binary, Number, and String."


def told(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def receive(sqs: Any, queue: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, **options
    ).get("Messages", [])
    return found


def repeated(value: str) -> str:
    """Return a value as errors repeat it: 200 characters at most."""
    return value if len(value) <= 200 else f"{value[:197]}..."


def text(value: str, kind: str = "String") -> dict[str, str]:
    return {"DataType": kind, "StringValue": value}


@pytest.mark.parametrize(
    "body", ["x", "ß∂\U0001f600", "<&>\"'", "a\tb\nc\rd\r\n", " ", "{}", "\ue000\ufffd"]
)
def test_body_comes_back_as_it_was_sent(sqs: Any, queue: str, body: str) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody=body)

    (message,) = receive(sqs, queue)

    assert message["Body"] == body
    assert message["MessageId"] == sent["MessageId"]
    assert (
        message["MD5OfBody"]
        == sent["MD5OfMessageBody"]
        == hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    )


def test_attributes_come_back_with_their_digest(sqs: Any, queue: str) -> None:
    given = {
        "text": text("ß"),
        "number": text("-1.5e3", "Number.float"),
        "bytes": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=given)

    (message,) = receive(sqs, queue, MessageAttributeNames=["All"])

    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_attribute_digest_is_the_one_aws_gives(sqs: Any, queue: str) -> None:
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="x", MessageAttributes={"MyAttribute": text("foobar")}
    )

    assert sent["MD5OfMessageAttributes"] == "adb59cd4678ea5a855436b949cd07ab6"


@pytest.mark.parametrize(
    ("patterns", "shown"),
    [
        (["All"], {"a.b", "a.c", "abc", "d"}),
        ([".*"], {"a.b", "a.c", "abc", "d"}),
        (["a.*"], {"a.b", "a.c", "abc"}),
        (["a.b.*"], {"a.b"}),
        (["ab.*"], {"abc"}),
        (["A.*", "b.*"], set()),
        (["d", "nothing"], {"d"}),
        ([], set()),
    ],
)
def test_attribute_names_choose_what_is_shown(
    sqs: Any, queue: str, patterns: list[str], shown: set[str]
) -> None:
    given = {name: text(name) for name in ("a.b", "a.c", "abc", "d")}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=given)

    (message,) = receive(sqs, queue, MessageAttributeNames=patterns)

    assert set(message.get("MessageAttributes", {})) == shown
    assert ("MD5OfMessageAttributes" in message) == bool(shown)


def test_system_attributes_are_shown_when_asked_for(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageGroupId="tenant-1")

    (message,) = receive(sqs, queue, AttributeNames=["All"], VisibilityTimeout=0)
    (again,) = receive(sqs, queue, AttributeNames=["ApproximateReceiveCount"], VisibilityTimeout=0)
    (bare,) = receive(sqs, queue)

    found = message["Attributes"]
    assert set(found) == {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "MessageGroupId",
    }
    assert found["ApproximateReceiveCount"] == "1"
    assert found["MessageGroupId"] == "tenant-1"
    assert (
        0 <= int(found["ApproximateFirstReceiveTimestamp"]) - int(found["SentTimestamp"]) < 60_000
    )
    assert again["Attributes"] == {"ApproximateReceiveCount": "2"}
    assert "Attributes" not in bare


def test_unknown_system_attribute_is_refused(sqs: Any, queue: str) -> None:
    with pytest.raises(sqs.exceptions.InvalidAttributeName):
        receive(sqs, queue, AttributeNames=["Colour"])


def test_trace_header_travels_with_the_message(sqs: Any, queue: str) -> None:
    trace = "Root=1-67891233-abcdef012345678912345678"
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="x", MessageSystemAttributes={"AWSTraceHeader": text(trace)}
    )

    (message,) = receive(sqs, queue, AttributeNames=["AWSTraceHeader"])

    assert message["Attributes"] == {"AWSTraceHeader": trace}
    assert len(sent["MD5OfMessageSystemAttributes"]) == 32


@pytest.mark.parametrize("bad", ["a\x01", "\x00", "\ufffe", "\x0b"])
@pytest.mark.parametrize(
    "parameters",
    [
        lambda bad: {"MessageSystemAttributes": {"AWSTraceHeader": text(bad)}},
        lambda bad: {"MessageAttributes": {"a": text(bad)}},
        lambda bad: {"MessageAttributes": {"a": text("x", f"String.{bad}")}},
    ],
    ids=["trace header", "value", "type"],
)
def test_forbidden_characters_of_attributes_are_an_invalid_value(
    sqs: Any, queue: str, parameters: Any, bad: str
) -> None:
    with pytest.raises(ClientError) as single:
        sqs.send_message(QueueUrl=queue, MessageBody="x", **parameters(bad))
    entry = {"Id": "a", "MessageBody": "x", **parameters(bad)}
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=[entry])

    assert told(single)[0] == "InvalidParameterValue"
    assert [each["Code"] for each in answer["Failed"]] == ["InvalidParameterValue"]
    assert receive(sqs, queue) == []


# Letters and digits of any alphabet.
@pytest.mark.parametrize("name_", ["attr.1øßä", "имя", "名前-1", "٣", "a_ñ.b", "ø" * 256])
def test_attribute_name_may_have_letters_of_any_alphabet(sqs: Any, queue: str, name_: str) -> None:
    given = {name_: text("x")}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=given)

    (message,) = receive(sqs, queue, MessageAttributeNames=[name_])

    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_largest_message_is_taken_and_one_byte_more_is_not(sqs: Any, queue: str) -> None:
    body = "ß" * (LIMIT // 2 - 8)  # Two bytes each.
    attribute = {"12345678": text("12", "String")}  # 8 + 6 + 2 bytes.
    sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attribute)

    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody=body + "x", MessageAttributes=attribute)

    assert told(caught) == (
        "InvalidParameterValue",
        f"One or more parameters are invalid. Reason: Message must be shorter than {LIMIT} bytes.",
    )
    assert [m["Body"] for m in receive(sqs, queue)] == [body]


def test_maximum_message_size_of_the_queue_counts(sqs: Any, name: str) -> None:
    queue = sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x" * 1024)

    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 1025)

    assert "Message must be shorter than 1024 bytes." in told(caught)[1]


@pytest.mark.parametrize("bad", ["\x00", "a\x0bb", "\ufffe", "\x1f"])
def test_characters_outside_xml_are_refused(sqs: Any, queue: str, bad: str) -> None:
    with pytest.raises(sqs.exceptions.InvalidMessageContents):
        sqs.send_message(QueueUrl=queue, MessageBody=bad)


def test_empty_body_is_refused(sqs: Any, queue: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="")

    assert told(caught) == (
        "MissingParameter",
        "The request must contain the parameter MessageBody.",
    )


@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        ({"": text("x")}, "attribute name"),
        ({"a b": text("x")}, "attribute name"),
        ({".a": text("x")}, "attribute name"),
        ({"a.": text("x")}, "attribute name"),
        ({"a..b": text("x")}, "attribute name"),
        ({"AWS.x": text("x")}, "attribute name"),
        ({"amazon.x": text("x")}, "attribute name"),
        ({"x" * 257: text("x")}, "attribute name"),
        *(
            (
                {bad: text("x")},
                f"The message attribute name '{bad}' is invalid. Attribute name can {CAN}",
            )
            for bad in ("a b", "a/b", "a\n", "ø.", ".ø", "ø..ø", "a☃", "½", "a\u0301", "a\u00a0b")
        ),
        *(
            ({"a": text("x", kind)}, f"The message attribute 'a' has an invalid {TYPES}")
            for kind in ("Text", "string", "Strings", ".label", "String:x", " Number")
        ),
        ({"a": text("")}, "'a' must contain a non-empty value of type 'String'."),
        ({"a": text("seven", "Number")}, "'a' to a number."),
        ({"a": {"DataType": "Binary"}}, "'a' must contain a non-empty value of type 'Binary'."),
        ({f"a{n}": text("x") for n in range(11)}, "[11] exceeds the allowed maximum [10]."),
    ],
)
def test_bad_message_attribute_is_refused(
    sqs: Any, queue: str, attributes: dict[str, Any], part: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)

    assert told(caught)[0] == "InvalidParameterValue"
    assert part in told(caught)[1]
    assert receive(sqs, queue) == []


@pytest.mark.parametrize(
    ("options", "text_"),
    [
        (
            {"DelaySeconds": 901},
            "Value 901 for parameter DelaySeconds is invalid."
            " Reason: DelaySeconds must be >= 0 and <= 900.",
        ),
        (
            {"MessageGroupId": "a b"},
            "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only"
            " include alphanumeric and punctuation characters. 1 to 128 in length.",
        ),
        (
            {"MessageDeduplicationId": "a"},
            "Value a for parameter MessageDeduplicationId is invalid. Reason: The request include"
            " parameter that is not valid for this queue type.",
        ),
    ],
)
def test_send_with_bad_parameter_is_refused(
    sqs: Any, queue: str, options: dict[str, Any], text_: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="x", **options)

    assert told(caught) == ("InvalidParameterValue", text_)


@pytest.mark.parametrize(
    ("options", "text_"),
    [
        (
            {"MaxNumberOfMessages": 11},
            "Value 11 for parameter MaxNumberOfMessages is invalid."
            " Reason: Must be between 1 and 10, if provided.",
        ),
        (
            {"MaxNumberOfMessages": 0},
            "Value 0 for parameter MaxNumberOfMessages is invalid."
            " Reason: Must be between 1 and 10, if provided.",
        ),
        (
            {"WaitTimeSeconds": 21},
            "Value 21 for parameter WaitTimeSeconds is invalid."
            " Reason: Must be >= 0 and <= 20, if provided.",
        ),
        (
            {"VisibilityTimeout": 43201},
            "Value 43201 for parameter VisibilityTimeout is invalid."
            " Reason: VisibilityTimeout must be >= 0 and <= 43200.",
        ),
    ],
)
def test_receive_with_bad_parameter_is_refused(
    sqs: Any, queue: str, options: dict[str, Any], text_: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.receive_message(QueueUrl=queue, **options)

    assert told(caught) == ("InvalidParameterValue", text_)


def test_receive_gives_one_message_by_default_and_at_most_what_is_asked(
    sqs: Any, queue: str
) -> None:
    for n in range(5):
        sqs.send_message(QueueUrl=queue, MessageBody=str(n))

    one = sqs.receive_message(QueueUrl=queue)["Messages"]
    three = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=3)["Messages"]

    assert (len(one), len(three), len(receive(sqs, queue))) == (1, 3, 1)


def test_delete_is_final_and_may_be_repeated(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue, VisibilityTimeout=0)

    for _ in range(2):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    assert receive(sqs, queue) == []


def test_delete_with_an_earlier_handle_succeeds_and_deletes_nothing(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (earlier,) = receive(sqs, queue, VisibilityTimeout=0)
    (later,) = receive(sqs, queue, VisibilityTimeout=0)

    sqs.delete_message(QueueUrl=queue, ReceiptHandle=earlier["ReceiptHandle"])

    assert earlier["ReceiptHandle"] != later["ReceiptHandle"]
    assert len(receive(sqs, queue)) == 1


@pytest.mark.parametrize("handle", ["nonsense", "AQAA", "ß", "x" * 2000])
def test_handle_that_was_never_given_is_invalid(sqs: Any, queue: str, handle: str) -> None:
    for call in (
        lambda: sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle),
        lambda: sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=1
        ),
    ):
        with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid) as caught:
            call()
        assert told(caught) == (
            "ReceiptHandleIsInvalid",
            f'The input receipt handle "{repeated(handle)}" is not a valid receipt handle.',
        )


def test_handle_of_another_queue_is_invalid(sqs: Any, queue: str, name: str) -> None:
    other = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (message,) = receive(sqs, queue)

    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=other, ReceiptHandle=message["ReceiptHandle"])


def test_standard_queue_with_deduplication_seconds_takes_an_id(sqs: Any, queue: str) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DeduplicationSeconds": "3600"})

    def entry(number: int, **given: str) -> dict[str, str]:
        return {"Id": str(number), "MessageBody": f"body {number}", **given}

    ids = [
        each["MessageId"]
        for each in sqs.send_message_batch(
            QueueUrl=queue,
            Entries=[
                entry(0, MessageDeduplicationId="a"),
                entry(1, MessageDeduplicationId="a"),
                entry(2),
                entry(3),
            ],
        )["Successful"]
    ]
    again = sqs.send_message(QueueUrl=queue, MessageBody="again", MessageDeduplicationId="a")

    assert len({*ids}) == 3
    assert again["MessageId"] == ids[0] == ids[1]
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    assert sorted(each["Body"] for each in answer["Messages"]) == ["body 0", "body 2", "body 3"]

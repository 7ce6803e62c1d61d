import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from botocore.compat import HTTPHeaders
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from skipmq.protocol import answers, codec, errors, extensions, requests, shapes
from skipmq.protocol.call import Call, Request, Response
from skipmq.protocol.requests import AttributeValue
from support.wire import JSON, answer_of, plain, target

Ask = Callable[..., Request]
Allowed = Callable[..., SearchStrategy[Any]]

MESSAGE = {"QueueUrl": "http://localhost/1/q", "MessageBody": "hello"}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Id", "DataType", "StringValue", "BinaryValue", "x"]), inner
        )
    ),
    max_leaves=8,
)


def call(ask: Ask, action: str, document: Any, path: str = "/") -> Call:
    body = json.dumps(document).encode()
    return codec.decode(ask(body, headers=target(action), path=path))


def parsed(response: Response, shape: Any = None) -> dict[str, Any]:
    headers = HTTPHeaders()
    for name, value in response.headers:
        headers[name] = value
    answer: dict[str, Any] = create_parser("json").parse(
        {"headers": headers, "body": response.body, "status_code": response.status}, shape
    )
    return answer


@pytest.mark.parametrize("action", shapes.ACTIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_request_of_botocore_decodes_to_its_parameters(
    action: str, data: st.DataObject, json_model: ServiceModel, ask: Ask, allowed: Allowed
) -> None:
    parameters = data.draw(allowed(shapes.ACTIONS[action].input))
    serialised = create_serializer("json", include_validation=False).serialize_to_request(
        parameters, json_model.operation_model(action)
    )

    decoded = codec.decode(ask(serialised["body"], headers=serialised["headers"]))

    assert decoded.action == action
    assert plain(decoded) == parameters


@pytest.mark.parametrize("action", shapes.ACTIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_response_parses_in_botocore_to_the_result(
    action: str, data: st.DataObject, json_model: ServiceModel, ask: Ask, allowed: Allowed
) -> None:
    output = shapes.ACTIONS[action].output
    result = None if output is None else data.draw(allowed(output))

    call = Call(action, {}, ask(headers=target(action)))
    response = codec.encode(call, answer_of(action, result))

    answer = parsed(response, json_model.operation_model(action).output_shape)
    assert answer.pop("ResponseMetadata")["HTTPStatusCode"] == 200
    empty = {name for name in ("Successful", "Failed") if result and result.get(name) == []}
    assert answer == {name: each for name, each in (result or {}).items() if name not in empty}
    assert dict(response.headers) == {
        "content-type": "application/x-amz-json-1.0",
        "x-amzn-requestid": "4f1c3c1e-request",
    }


def test_members_of_answers_have_the_order_of_the_json(ask: Ask) -> None:
    value = AttributeValue(DataType="String", StringValue="v")
    message = answers.Message(Body="b", MD5OfMessageAttributes="n", MessageAttributes={"a": value})
    received = answers.ReceiveMessageResult(Messages=[message])
    sent = answers.SendMessageResult(MD5OfMessageAttributes="n", MessageId="i")
    asked = ask(headers=target("SendMessage"))

    assert codec.encode(Call("SendMessage", {}, asked), sent).body == (
        b'{"MessageId":"i","MD5OfMessageAttributes":"n"}'
    )
    assert codec.encode(Call("ReceiveMessage", {}, asked), received).body == (
        b'{"Messages":[{"Body":"b","MessageAttributes":{"a":{"StringValue":"v","DataType":"String"'
        b'}},"MD5OfMessageAttributes":"n"}]}'
    )


@pytest.mark.parametrize(("action", "body"), [("PurgeQueue", b""), ("ReceiveMessage", b"{}")])
def test_response_without_content_depends_on_the_shape(action: str, body: bytes, ask: Ask) -> None:
    assert codec.encode(Call(action, {}, ask(headers=target(action))), None).body == body


def test_member_unknown_or_null_is_left_out(ask: Ask) -> None:
    document = MESSAGE | {
        "DelaySeconds": None,
        "Colour": ["red"],
        "MessageAttributes": {"a": {"DataType": "String", "BinaryValue": None}},
    }

    assert plain(call(ask, "SendMessage", document)) == MESSAGE | {
        "MessageAttributes": {"a": {"DataType": "String"}}
    }


@pytest.mark.parametrize(
    ("action", "document", "missing"),
    [
        ("SendMessage", {"MessageBody": "x"}, "QueueUrl"),
        ("PurgeQueue", {}, "QueueUrl"),
        ("SendMessage", {"QueueUrl": "u"}, "MessageBody"),
        ("SendMessage", {"QueueUrl": "u", "MessageBody": None}, "MessageBody"),
        ("SendMessage", MESSAGE | {"MessageAttributes": {"a": {}}}, "DataType"),
        ("DeleteMessageBatch", {"QueueUrl": "u"}, "Entries"),
        ("DeleteMessageBatch", {"QueueUrl": "u", "Entries": [{"Id": "1"}]}, "ReceiptHandle"),
    ],
)
def test_member_required_but_missing_is_named(
    action: str, document: Any, missing: str, ask: Ask
) -> None:
    with pytest.raises(errors.MissingRequiredParameterException) as raised:
        call(ask, action, document)

    assert raised.value.message == f"The request must contain the parameter {missing}."


@pytest.mark.parametrize(
    ("member", "value", "text"),
    [
        ("MessageBody", 1, "NUMBER_VALUE can not be converted to a String"),
        ("MessageBody", 1.5, "NUMBER_VALUE can not be converted to a String"),
        ("MessageBody", True, "TRUE_VALUE can not be converted to a String"),
        ("MessageBody", [], "Start of list found where not expected"),
        ("MessageBody", {}, "Start of structure or map found where not expected."),
        ("DelaySeconds", "1", "STRING_VALUE can not be converted to an Integer"),
        ("DelaySeconds", False, "FALSE_VALUE can not be converted to an Integer"),
        ("DelaySeconds", 1.0, "NUMBER_VALUE can not be converted to an Integer"),
        ("DelaySeconds", 2**31, "NUMBER_VALUE can not be converted to an Integer"),
        ("DelaySeconds", -(2**31) - 1, "NUMBER_VALUE can not be converted to an Integer"),
        ("DelaySeconds", 10**30, "NUMBER_VALUE can not be converted to an Integer"),
        ("MessageAttributes", [], "Start of list found where not expected"),
        ("MessageAttributes", "x", "Unexpected field type"),
        ("MessageAttributes", {"a": "x"}, "Unexpected field type"),
        ("MessageAttributes", {"a": None}, "Unexpected field type"),
    ],
)
def test_member_of_another_type_is_a_serialization_error(
    member: str, value: Any, text: str, ask: Ask
) -> None:
    with pytest.raises(errors.SerializationException) as raised:
        call(ask, "SendMessage", MESSAGE | {member: value})

    assert raised.value.message == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "Unexpected field type"),
        ({}, "Start of structure or map found where not expected."),
        (["x", None], "NULL_VALUE can not be converted to a String"),
    ],
)
def test_list_of_another_type_is_a_serialization_error(value: Any, text: str, ask: Ask) -> None:
    with pytest.raises(errors.SerializationException) as raised:
        call(ask, "GetQueueAttributes", {"QueueUrl": "u", "AttributeNames": value})

    assert raised.value.message == text


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400 + ".0", "1E+999999"])
@pytest.mark.parametrize(
    ("members", "text"),
    [
        ('"MessageBody": N', "NUMBER_VALUE can not be converted to a String"),
        (
            '"MessageBody": "1e400", "DelaySeconds": N',
            "NUMBER_VALUE can not be converted to an Integer",
        ),
        ('"MessageBody": "x", "MessageAttributes": N', "Unexpected field type"),
        ('"MessageBody": "x", "MessageAttributes": {"a": N}', "Unexpected field type"),
        (
            '"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "B", "BinaryValue": N}}',
            "NUMBER_VALUE can not be converted to a Blob",
        ),
    ],
)
def test_number_that_no_float_can_be_is_one_of_another_type(
    number: str, members: str, text: str, ask: Ask
) -> None:
    body = f'{{"QueueUrl": "u", {members.replace("N", number)}}}'

    with pytest.raises(errors.SerializationException) as raised:
        codec.decode(ask(body.encode(), headers=target("SendMessage")))

    assert raised.value.message == text


@pytest.mark.parametrize("value", ["1e400", "-1e400", "1.5", "9" * 30, "[1e400]", '{"a": 1e400}'])
def test_no_number_is_said_to_be_no_base64(value: str, ask: Ask) -> None:
    kinds = {f"AmazonSQS.{name}": action.input.struct for name, action in shapes.ACTIONS.items()}
    kinds |= {f"SkipMQ.{name}": struct for name, struct in extensions.REQUESTS.items()}
    for name, struct in kinds.items():
        members = [f'{{"{each.encode_name}": {value}}}' for each in msgspec.structs.fields(struct)]
        for body in (value, *members):
            said = ""
            try:
                codec.decode(ask(body.encode(), headers=JSON | {"X-Amz-Target": name}))
            except errors.SqsError as error:
                said = error.message
            assert "base64" not in said, (name, body)


@pytest.mark.parametrize("value", ["====", "a", "a-_b", "é", 1])
def test_blob_that_is_not_base64_is_a_serialization_error(value: Any, ask: Ask) -> None:
    attribute = {"DataType": "Binary", "BinaryValue": value}

    with pytest.raises(errors.SerializationException):
        call(ask, "SendMessage", MESSAGE | {"MessageAttributes": {"a": attribute}})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}{}",
        b'{"QueueUrl": NaN}',
        b'{"QueueUrl": "\xff"}',
        b'{"QueueUrl": "\\ud800"}',
        b"[" * 1_000_000,
        b'{"a":' * 19_000,
        b'{"a":' * 1_000_000,
    ],
    ids=lambda body: f"{body[:20]!r}*{len(body)}",
)
def test_body_that_is_not_a_json_object_is_a_serialization_error(body: bytes, ask: Ask) -> None:
    with pytest.raises(errors.SerializationException):
        codec.decode(ask(body, headers=target("DeleteQueue")))


@pytest.mark.parametrize("text", ['"' * 100_000, '\\"' * 50_000, "\\" * 100_001])
def test_text_of_many_quotation_marks_is_one_text(text: str, ask: Ask) -> None:
    assert plain(call(ask, "SendMessage", MESSAGE | {"MessageBody": text}))["MessageBody"] == text


def test_list_of_too_many_elements_is_an_invalid_value(ask: Ask) -> None:
    names = ["All"] * (requests.MAXIMUM_ELEMENTS + 1)

    with pytest.raises(errors.InvalidParameterValueException):
        call(ask, "GetQueueAttributes", {"QueueUrl": "u", "AttributeNames": names})


@given(body=st.binary(), action=st.sampled_from(list(shapes.ACTIONS)))
def test_body_of_any_bytes_raises_only_sqs_errors(body: bytes, action: str, ask: Ask) -> None:
    try:
        codec.decode(ask(body, headers=target(action)))
    except errors.SqsError as error:
        codec.encode_error(ask(headers=target(action)), error)


@given(data=st.data(), action=st.sampled_from(list(shapes.ACTIONS)))
@settings(deadline=None)
def test_body_of_any_json_raises_only_sqs_errors(
    data: st.DataObject, action: str, ask: Ask
) -> None:
    members = list(shapes.ACTIONS[action].input.members)
    document = data.draw(st.dictionaries(st.sampled_from(members), JSON_VALUES) | JSON_VALUES)

    try:
        call(ask, action, document)
    except errors.SqsError as error:
        codec.encode_error(ask(headers=target(action)), error)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Amz-Target": "AmazonSQS.Explode"},
        {"X-Amz-Target": "AmazonSQS."},
        {"X-Amz-Target": "SendMessage"},
        {"X-Amz-Target": "AmazonSNS.SendMessage"},
        {"X-Amz-Target": ""},
        {"Content-Type": "application/x-amz-json-1.0"},
        {"content-type": "Application/X-AMZ-JSON-1.0; charset=utf-8"},
    ],
)
def test_target_unknown_or_missing_is_answered_in_json(headers: dict[str, str], ask: Ask) -> None:
    request = ask(b"{}", headers=headers)

    with pytest.raises(errors.UnknownOperationException) as raised:
        codec.decode(request)

    answer = parsed(codec.encode_error(request, raised.value))
    assert answer["Error"]["Code"] == "UnknownOperationException"


@pytest.mark.parametrize("path", ["/000000000000/jobs", "/queue/jobs", "/queue/jobs/"])
def test_path_of_a_queue_stands_in_for_the_url(path: str, ask: Ask) -> None:
    for document in ({"MessageBody": "x"}, {"MessageBody": "x", "QueueUrl": None}):
        parameters = plain(call(ask, "SendMessage", document, path))

        assert parameters["QueueUrl"] == "http://localhost:9324" + path.rstrip("/")


def test_path_of_a_queue_yields_to_the_url_in_the_body(ask: Ask) -> None:
    assert plain(call(ask, "SendMessage", MESSAGE, "/1/other")) == MESSAGE


def test_path_of_a_queue_is_no_parameter_of_other_actions(ask: Ask) -> None:
    assert plain(call(ask, "GetQueueUrl", {"QueueName": "q"}, "/1/q")) == {"QueueName": "q"}


@pytest.mark.parametrize("path", ["", "/", "/jobs", "/a/b/c", "//"])
def test_path_of_no_queue_leaves_the_url_missing(path: str, ask: Ask) -> None:
    with pytest.raises(errors.MissingRequiredParameterException):
        call(ask, "DeleteQueue", {}, path)


@pytest.mark.parametrize(
    ("mode", "error", "status"),
    [
        ("true", errors.OverLimit(), 403),
        ("false", errors.OverLimit(), 400),
        ("false", errors.ResourceNotFoundException(), 400),
        ("true", errors.ResourceNotFoundException(), 404),
        ("true", errors.QueueDoesNotExist(), 400),
        ("false", errors.InternalFailure(), 500),
        ("false", errors.ServiceUnavailable(), 503),
    ],
)
def test_error_status_depends_on_the_query_mode(
    mode: str, error: errors.SqsError, status: int, ask: Ask
) -> None:
    headers = target("SendMessage") | {"x-amzn-query-mode": mode}

    response = codec.encode_error(ask(headers=headers), error)

    assert response.status == status
    assert dict(response.headers).get("retry-after") == ("1" if status == 503 else None)


def test_error_parses_in_botocore_with_both_names(ask: Ask) -> None:
    error = errors.QueueDoesNotExist()

    response = codec.encode_error(ask(headers=target("SendMessage")), error)

    assert parsed(response)["Error"] == {
        "Code": "AWS.SimpleQueueService.NonExistentQueue",
        "Message": "The specified queue does not exist.",
        "QueryErrorCode": "QueueDoesNotExist",
        "Type": "Sender",
    }
    assert json.loads(response.body)["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

import pytest
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from skipmq.protocol import answers, codec, errors, query, shapes
from skipmq.protocol.call import Call, Request, Response
from skipmq.protocol.requests import AttributeValue
from support.wire import answer_of, plain

Ask = Callable[..., Request]
Allowed = Callable[..., SearchStrategy[Any]]

URL = "http://localhost/1/q"
RECEIVE = {"Action": "ReceiveMessage", "QueueUrl": URL}
JSON_FIRST = {"accept": "application/json"}
CREATE = {"Action": "CreateQueue", "QueueName": "q"}
FIELD_NAMES = st.lists(
    st.sampled_from(
        ["MessageAttribute", "Name", "Value", "Tag", "Attribute", "Entries", "1", "x", ""]
    )
    | st.text(max_size=3),
    max_size=5,
).map(".".join)


@given(st.binary(max_size=50).filter(lambda raw: b"&" not in raw))
def test_many_escapes_are_read_as_few(raw: bytes) -> None:
    """Compare with what the standard library makes of all of them."""
    body = raw.replace(b"%", b"%25") + b"%5C%78%c3%a9" * 100
    try:
        expected: str | None = unquote_to_bytes(body.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        expected = None

    try:
        found: str | None = query._unquoted(body)  # noqa: SLF001
    except UnicodeDecodeError:
        found = None

    assert found == expected


def form(fields: dict[str, Any]) -> bytes:
    return urlencode(fields).encode()


def parameters(ask: Ask, fields: dict[str, Any], path: str = "/") -> dict[str, Any]:
    return plain(codec.decode(ask(form(fields), path=path)))


def parsed(response: Response, shape: Any = None) -> dict[str, Any]:
    answer: dict[str, Any] = create_parser("query").parse(
        {
            "headers": dict(response.headers),
            "body": response.body,
            "status_code": response.status,
        },
        shape,
    )
    return answer


@pytest.mark.parametrize("action", shapes.ACTIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_request_of_botocore_decodes_to_its_parameters(
    action: str, data: st.DataObject, query_model: ServiceModel, ask: Ask, allowed: Allowed
) -> None:
    # This wire has no empty map, and its model is older than one member.
    sent = data.draw(allowed(shapes.ACTIONS[action].input, least_map=1))
    sent.pop("MessageSystemAttributeNames", None)
    serialised = create_serializer("query", include_validation=False).serialize_to_request(
        sent, query_model.operation_model(action)
    )

    decoded = codec.decode(ask(form(serialised["body"]), headers=serialised["headers"]))

    assert decoded.action == action
    assert plain(decoded) == sent


@pytest.mark.parametrize("action", shapes.ACTIONS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_response_parses_in_botocore_to_the_result(
    action: str, data: st.DataObject, query_model: ServiceModel, ask: Ask, allowed: Allowed
) -> None:
    output = shapes.ACTIONS[action].output
    # An empty list or map leaves no trace on this wire.
    result = None if output is None else data.draw(allowed(output, least_list=1, least_map=1))

    response = codec.encode(Call(action, {}, ask()), answer_of(action, result))

    answer = parsed(response, query_model.operation_model(action).output_shape)
    metadata = answer.pop("ResponseMetadata")
    assert metadata["RequestId"] == "4f1c3c1e-request"
    assert answer == (result or {})
    assert response.status == 200
    assert dict(response.headers) == {
        "content-type": "text/xml",
        "x-amzn-requestid": "4f1c3c1e-request",
    }


def test_response_escapes_what_xml_cannot_hold(ask: Ask) -> None:
    message = answers.Message(Body='<a b="c">&\'\r\n\0\ud800\uffff')
    result = answers.ReceiveMessageResult(Messages=[message])

    body = codec.encode(Call("ReceiveMessage", {}, ask()), result).body.decode()

    escaped = "&lt;a b=&quot;c&quot;&gt;&amp;'&#xD;\n\ufffd\ufffd\ufffd"
    assert body == (
        '<?xml version="1.0"?>'
        '<ReceiveMessageResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        f"<ReceiveMessageResult><Message><Body>{escaped}</Body></Message></ReceiveMessageResult>"
        "<ResponseMetadata><RequestId>4f1c3c1e-request</RequestId></ResponseMetadata>"
        "</ReceiveMessageResponse>"
    )


def test_members_of_answers_have_the_order_of_the_xml(ask: Ask) -> None:
    value = AttributeValue(DataType="String", StringValue="v")
    message = answers.Message(Body="b", MD5OfMessageAttributes="n", MessageAttributes={"a": value})
    received = answers.ReceiveMessageResult(Messages=[message])
    sent = answers.SendMessageResult(MD5OfMessageAttributes="n", MessageId="i")

    send = codec.encode(Call("SendMessage", {}, ask()), sent).body
    receive = codec.encode(Call("ReceiveMessage", {}, ask()), received).body

    assert b"><MD5OfMessageAttributes>n</MD5OfMessageAttributes><MessageId>i</MessageId><" in send
    assert receive.index(b"<MD5OfMessageAttributes>") < receive.index(b"<MessageAttribute>")


@pytest.mark.parametrize(("headers", "empty"), [({}, b"Failed"), (JSON_FIRST, b'"Failed":null')])
def test_batch_without_failures_has_no_list_of_them(
    ask: Ask, headers: dict[str, str], empty: bytes
) -> None:
    done = answers.DeleteMessageBatchResult(
        Successful=[answers.DeleteMessageBatchResultEntry(Id="1")]
    )

    body = codec.encode(Call("DeleteMessageBatch", {}, ask(headers=headers)), done).body

    assert b"1" in body
    assert (empty in body) == bool(headers)


def test_response_without_result_has_no_result_element(ask: Ask) -> None:
    body = codec.encode(Call("PurgeQueue", {}, ask()), None).body.decode()

    assert "PurgeQueueResult" not in body


def test_elements_with_gaps_and_out_of_order_come_by_number(ask: Ask) -> None:
    fields = RECEIVE | {
        "AttributeName.10": "c",
        "AttributeName.007": "b",
        "AttributeName.2": "a",
        "MessageSystemAttributeName.1": "All",
    }

    assert parameters(ask, fields) == {
        "QueueUrl": URL,
        "AttributeNames": ["a", "b", "c"],
        "MessageSystemAttributeNames": ["All"],
    }


@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("AttributeName", "All", ["All"]),
        ("AttributeName", "", []),
        ("AttributeNames", "", []),
    ],
)
def test_list_without_numbers_has_one_element_or_none(
    field: str, value: str, names: list[str], ask: Ask
) -> None:
    assert parameters(ask, RECEIVE | {field: value})["AttributeNames"] == names


def test_batch_without_entries_is_an_empty_one(ask: Ask) -> None:
    fields = {"Action": "SendMessageBatch", "QueueUrl": URL}

    assert parameters(ask, fields) == {"QueueUrl": URL, "Entries": []}


def test_field_unknown_is_ignored(ask: Ask) -> None:
    fields = RECEIVE | {"Version": "2012-11-05", "X-Amz-Date": "x", "Colour.1.Red": "y", "": "z"}

    assert parameters(ask, fields) == {"QueueUrl": URL}


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"Action": "CreateQueue"}, "QueueName"),
        ({"Action": "CreateQueue", "QueueName.1": "q"}, "QueueName"),
        ({"Action": "TagQueue", "QueueUrl": URL}, "Tag"),
        ({"Action": "UntagQueue", "QueueUrl": URL}, "TagKey"),
        (CREATE | {"Attribute.1.Value": "1"}, "Attribute.1.Name"),
        (CREATE | {"Attribute.2.Name": "Policy"}, "Attribute.2.Value"),
        (CREATE | {"Attribute": "Policy"}, "Attribute..Name"),
        (
            {"Action": "DeleteMessageBatch", "QueueUrl": URL, "Entries.3.Id": "a"},
            "DeleteMessageBatchRequestEntry.3.ReceiptHandle",
        ),
        (
            {"Action": "SendMessage", "QueueUrl": URL, "MessageBody": "x"}
            | {"MessageAttribute.1.Name": "n"},
            "MessageAttribute.1.Value.DataType",
        ),
    ],
)
def test_field_required_but_missing_is_named(
    fields: dict[str, str], missing: str, ask: Ask
) -> None:
    with pytest.raises(errors.MissingRequiredParameterException) as raised:
        parameters(ask, fields)

    assert raised.value.message == f"The request must contain the parameter {missing}."


@pytest.mark.parametrize(
    "value", ["abc", "", "1.0", "1_0", " 1", "٣", "2147483648", "-2147483649", "9" * 5000, "0x1"]
)
def test_number_that_is_none_is_an_invalid_value(value: str, ask: Ask) -> None:
    with pytest.raises(errors.InvalidParameterValueException) as raised:
        parameters(ask, RECEIVE | {"MaxNumberOfMessages": value})

    assert raised.value.message == (
        f"Value {errors.shown(value)} for parameter MaxNumberOfMessages is invalid."
        " Reason: Must be an integer."
    )


@pytest.mark.parametrize("number", ["x", "-1", "1e3", "٣", "9" * 5000])
def test_element_without_a_proper_number_is_an_invalid_value(number: str, ask: Ask) -> None:
    with pytest.raises(errors.InvalidParameterValueException):
        parameters(ask, RECEIVE | {f"AttributeName.{number}": "All"})


def test_blob_that_is_not_base64_is_an_invalid_value(ask: Ask) -> None:
    attribute = {"Name": "n", "Value.DataType": "Binary", "Value.BinaryValue": "=é"}
    fields = {"Action": "SendMessage", "QueueUrl": URL, "MessageBody": "x"} | {
        f"MessageAttribute.1.{name}": value for name, value in attribute.items()
    }

    with pytest.raises(errors.InvalidParameterValueException):
        parameters(ask, fields)


@pytest.mark.parametrize(
    "body",
    [
        b"Action=CreateQueue&QueueName=%FF",
        b"Action=CreateQueue&QueueName=\xff",
        b"Action=CreateQueue&%C3=1",
        b"Action=CreateQueue&QueueName=%ED%A0%80",
    ],
)
def test_form_not_in_utf8_is_an_invalid_value(body: bytes, ask: Ask) -> None:
    with pytest.raises(errors.InvalidParameterValueException):
        codec.decode(ask(body))


def test_form_of_too_many_fields_is_an_invalid_value(ask: Ask) -> None:
    with pytest.raises(errors.InvalidParameterValueException):
        parameters(ask, CREATE | {f"x{number}": "" for number in range(2_000)})


def test_form_of_the_largest_batch_is_accepted(ask: Ask) -> None:
    fields = {"Action": "SendMessageBatch", "QueueUrl": URL}
    for entry in (f"SendMessageBatchRequestEntry.{number}" for number in range(1, 11)):
        fields |= {f"{entry}.Id": entry[-2:], f"{entry}.MessageBody": "x"}
        for attribute in (f"{entry}.MessageAttribute.{number}" for number in range(1, 11)):
            fields |= {f"{attribute}.Name": attribute[-2:], f"{attribute}.Value.DataType": "String"}
            fields |= {f"{attribute}.Value.StringValue": "x"}

    entries = parameters(ask, fields)["Entries"]

    assert [len(entry["MessageAttributes"]) for entry in entries] == [10] * 10


@given(body=st.binary(), query=st.text(max_size=20))
def test_form_of_any_bytes_raises_only_sqs_errors(body: bytes, query: str, ask: Ask) -> None:
    with pytest.raises(errors.SqsError):
        codec.decode(ask(body, query=query))


@given(
    fields=st.dictionaries(FIELD_NAMES, st.text(max_size=5)),
    action=st.sampled_from(list(shapes.ACTIONS)),
)
def test_form_of_any_fields_raises_only_sqs_errors(
    fields: dict[str, str], action: str, ask: Ask
) -> None:
    required = {"QueueUrl": URL, "QueueName": "q", "MessageBody": "x", "SourceArn": "a"}
    try:
        parameters(ask, required | fields | {"Action": action})
    except errors.SqsError as error:
        codec.encode_error(ask(), error)


def test_get_on_a_queue_reads_the_query_string(ask: Ask) -> None:
    query = "Action=SendMessage&MessageBody=a+b%20%C3%A9"

    decoded = codec.decode(ask(method="GET", query=query, path="/1/q"))

    assert plain(decoded) == {
        "QueueUrl": "http://localhost:9324/1/q",
        "MessageBody": "a b é",
    }


def test_post_with_a_query_string_reads_both(ask: Ask) -> None:
    decoded = codec.decode(ask(b"MaxResults=2", query="Action=ListQueues&MaxResults=1"))

    assert decoded.action == "ListQueues"
    assert plain(decoded) == {"MaxResults": 2}


def test_url_among_the_fields_overrides_the_path(ask: Ask) -> None:
    assert parameters(ask, RECEIVE, "/2/other")["QueueUrl"] == URL


@pytest.mark.parametrize("body", [b"", b"Action=", b"Version=2012-11-05", b"<xml/>"])
def test_action_missing_is_not_found(body: bytes, ask: Ask) -> None:
    request = ask(body)

    with pytest.raises(errors.UnknownOperationException) as raised:
        codec.decode(request)

    assert codec.encode_error(request, raised.value).status == 404


@pytest.mark.parametrize(
    ("action", "path"), [("Explode", "/"), ("CreateQueue", "/1/q"), ("ListQueues", "/queue/q")]
)
def test_action_not_for_the_endpoint_is_invalid(action: str, path: str, ask: Ask) -> None:
    with pytest.raises(errors.InvalidAction) as raised:
        parameters(ask, {"Action": action, "QueueName": "q"}, path)

    assert raised.value.message == f"The action {action} is not valid for this endpoint."


@pytest.mark.parametrize(
    ("error", "kind", "message", "status"),
    [
        (
            errors.QueueDoesNotExist(),
            "Sender",
            "The specified queue does not exist for this wsdl version.",
            400,
        ),
        (errors.QueueDoesNotExist("Gone."), "Sender", "Gone.", 400),
        (errors.OverLimit("a < b"), "Sender", "a < b", 403),
        (errors.ServiceUnavailable("Later."), "Receiver", "Later.", 503),
    ],
)
def test_error_parses_in_botocore(
    error: errors.SqsError, kind: str, message: str, status: int, ask: Ask
) -> None:
    response = codec.encode_error(ask(), error)

    answer = parsed(response)
    assert answer["Error"] == {"Type": kind, "Code": error.code, "Message": message, "Detail": None}
    assert answer["ResponseMetadata"]["RequestId"] == "4f1c3c1e-request"
    assert response.status == status
    assert dict(response.headers).get("retry-after") == ("1" if status == 503 else None)

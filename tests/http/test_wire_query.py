"""What the Query wire takes and what it refuses, in forms and in URLs."""

from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.http import ACCOUNT, NodeProcess, client
from support.wire import FORM, exchange, target, told

FRIEND = "111111111111"


@pytest.fixture
def sqs(clients: dict[str, Any]) -> Any:
    return clients["query"]


def post(broker: NodeProcess, form: str, path: str = "/") -> Any:
    return exchange(broker.port, form.encode(), FORM, path=path)


def get(broker: NodeProcess, path: str) -> Any:
    return exchange(broker.port, path=path, method="GET")


def presigned(url: str, account: str = ACCOUNT) -> str:
    """Return the path of a URL with the signature that AWS's own client puts into it."""
    request = AWSRequest("GET", url)
    SigV4QueryAuth(Credentials(account, "secret"), "sqs", "us-east-1").add_auth(request)
    return str(request.url).split("/", 3)[3].join(["/", ""])


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ("", "UnknownOperationException"),
        ("Action", "UnknownOperationException"),
        ("Action=", "UnknownOperationException"),
        ("action=ListQueues", "UnknownOperationException"),
        ("&&=&==&", "UnknownOperationException"),
        ('{"Action": "ListQueues"}', "UnknownOperationException"),
        ("Action=Fly", "InvalidAction"),
        ("Action=listqueues", "InvalidAction"),
        ("Action=ListQueues%00", "InvalidAction"),
        ("Action=ListQueues&Version=", "NoSuchVersion"),
        ("Action=ListQueues&Version=2012-11-06", "NoSuchVersion"),
        ("Action=ListQueues&Version=2012-11-05%00", "NoSuchVersion"),
        ("Action=ListQueues&MaxResults=", "InvalidParameterValue"),
        ("Action=ListQueues&MaxResults=1.0", "InvalidParameterValue"),
        ("Action=ListQueues&MaxResults=%2B1", "InvalidParameterValue"),
        ("Action=ListQueues&QueueNamePrefix=%FF", "InvalidParameterValue"),
        ("Action=ListQueues&QueueNamePrefix=%00", "InvalidParameterValue"),
        ("Action=ListQueues&QueueNamePrefix.1=a", "MissingParameter"),
        ("Action=CreateQueue", "MissingParameter"),
        ("Action=CreateQueue&QueueName=a&Attribute.Name=b&Attribute.Value=c", None),
        ("Action=CreateQueue&QueueName=a&Attribute.1.Name=DelaySeconds", "MissingParameter"),
        ("Action=CreateQueue&QueueName=a&Attribute.1=DelaySeconds", "MissingParameter"),
        ("Action=CreateQueue&QueueName=a&Attribute.-1.Name=a", "InvalidParameterValue"),
        ("Action=CreateQueue&QueueName=a&Attribute.1e3.Name=a", "InvalidParameterValue"),
        (
            "Action=SendMessage&QueueUrl=nonsense&MessageBody=x",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        ("Action=SendMessage&MessageBody=x", "MissingParameter"),
        ("&".join(f"x{n}=" for n in range(2001)) + "&Action=ListQueues", "InvalidParameterValue"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_form_that_says_nothing_valid_is_refused(
    broker: NodeProcess, form: str, code: str | None
) -> None:
    answer = post(broker, form)

    assert told(answer) == (code or "InvalidParameterValue")
    assert answer.status == (404 if code == "UnknownOperationException" else 400)


@pytest.mark.parametrize(
    "version", ["", *(f"&Version={v}" for v in ("2009-02-01", "2011-10-01", "2012-11-05"))]
)
def test_version_that_sqs_has_had_is_taken(broker: NodeProcess, version: str) -> None:
    answer = post(broker, f"Action=ListQueues&QueueNamePrefix=none{version}")

    assert answer.status == 200
    assert ET.fromstring(answer.body).tag.endswith("}ListQueuesResponse")  # noqa: S314 - ours.


def test_numbers_of_a_list_may_have_gaps_and_any_order(
    broker: NodeProcess, sqs: Any, queue: str
) -> None:
    form = urlencode(
        {
            "Action": "SetQueueAttributes",
            "QueueUrl": queue,
            "Attribute.7.Value": "3",
            "Attribute.7.Name": "DelaySeconds",
            "Attribute.3.Name": "VisibilityTimeout",
            "Attribute.3.Value": "4",
        }
    )

    assert post(broker, form).status == 200

    wanted = ["DelaySeconds", "VisibilityTimeout"]
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=wanted)["Attributes"]
    assert found == {"DelaySeconds": "3", "VisibilityTimeout": "4"}


def test_name_that_stands_twice_counts_the_second_time(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    path = f"/{ACCOUNT}/{name}?MessageBody=from+the+url"

    post(broker, "Action=SendMessage&MessageBody=first&MessageBody=second", path)

    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == "second"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a+b%2Bc%20d", "a b+c d"),
        ("%C3%9F%F0%9F%98%80", "ß\U0001f600"),
        ("ß", "ß"),
        ("a=b=c", "a=b=c"),
        ("100%", "100%"),
        ("%zz%2", "%zz%2"),
        ("%26%3D%23%3B", "&=#;"),
        ("a;b", "a;b"),
        ("%0D%0A%09%22", '\r\n\t"'),
    ],
)
def test_value_is_decoded_once_as_forms_are(
    broker: NodeProcess, sqs: Any, queue: str, name: str, written: str, meant: str
) -> None:
    post(broker, f"Action=SendMessage&MessageBody={written}", f"/{ACCOUNT}/{name}")

    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == meant


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_form_is_read_whatever_its_content_type(
    broker: NodeProcess, headers: dict[str, str]
) -> None:
    answer = exchange(broker.port, b"Action=GetQueueUrl&QueueName=nowhere", headers)

    assert told(answer) == "AWS.SimpleQueueService.NonExistentQueue"


def test_field_that_is_unknown_is_passed_over(broker: NodeProcess) -> None:
    form = "Action=ListQueues&QueueNamePrefix=none&Colour.1.Red=x&=y&Timestamp=1&SignatureVersion=2"

    assert post(broker, form).status == 200


@pytest.mark.parametrize("path", [f"/{ACCOUNT}/{{}}", f"/{ACCOUNT}/{{}}/", "/queue/{}/"])
def test_get_of_a_queues_url_acts_on_the_queue(
    broker: NodeProcess, sqs: Any, queue: str, name: str, path: str
) -> None:
    where = path.format(name)
    sqs.tag_queue(QueueUrl=queue, Tags={"where": "hello there"})

    found = get(broker, f"{where}?Action=ListQueueTags&Version=2012-11-05")

    assert found.status == 200
    assert "<Value>hello there</Value>" in found.body


@pytest.mark.parametrize("accept", [None, "application/json", "text/xml", "*/*"])
@pytest.mark.parametrize("path", [f"/{ACCOUNT}/{{}}", "/", "/?Version=2012-11-05", "/?Action="])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_without_action_is_an_unknown_operation_in_xml(
    broker: NodeProcess, queue: str, name: str, accept: str | None, path: str, method: str
) -> None:
    del queue
    headers = {"Accept": accept} if accept else {}

    answer = exchange(broker.port, b"", headers, path=path.format(name), method=method)

    assert answer.body == "<UnknownOperationException/>"
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/xml")


@pytest.mark.parametrize(
    ("action", "result"),
    [("ReceiveMessage", "ReceiveMessageResult"), ("ListQueueTags", "ListQueueTagsResult")],
)
def test_empty_result_is_an_element_that_closes_itself(
    broker: NodeProcess, queue: str, name: str, action: str, result: str
) -> None:
    del queue

    answer = post(broker, f"Action={action}", f"/{ACCOUNT}/{name}")

    assert f'/doc/2012-11-05/"><{result}/><ResponseMetadata>' in answer.body


def test_empty_list_of_queues_is_an_element_that_closes_itself(broker: NodeProcess) -> None:
    answer = post(broker, "Action=ListQueues&QueueNamePrefix=none")

    assert "<ListQueuesResult/>" in answer.body


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_action_that_is_not_a_queues_is_told(
    broker: NodeProcess, queue: str, name: str, action: str
) -> None:
    del queue

    answer = get(broker, f"/{ACCOUNT}/{name}?Action={action}&QueueName=x")

    assert (told(answer), answer.status) == ("InvalidAction", 400)
    assert f"The action {action} is not valid for this endpoint." in answer.body


def test_presigned_get_acts_for_the_account_that_signed(
    broker: NodeProcess, queue: str, name: str
) -> None:
    theirs = client(broker.url, "query", key=FRIEND).create_queue(QueueName=name)["QueueUrl"]
    query = f"{broker.url}/?Action=GetQueueUrl&QueueName={name}"

    ours_found = get(broker, presigned(query))
    theirs_found = get(broker, presigned(query, FRIEND))
    shown = get(broker, presigned(f"{queue}?Action=GetQueueAttributes&AttributeName.1=QueueArn"))

    assert f"<QueueUrl>{queue}</QueueUrl>" in ours_found.body
    assert f"<QueueUrl>{theirs}</QueueUrl>" in theirs_found.body
    assert f":{ACCOUNT}:{name}</Value>" in shown.body


def test_answer_escapes_what_xml_would_not_keep(broker: NodeProcess, queue: str, name: str) -> None:
    del queue
    body = b'{"MessageBody": "<a b=\\"c\\">&\'\\r\\n\\t]]>"}'
    exchange(broker.port, body, target("SendMessage"), path=f"/{ACCOUNT}/{name}")

    answer = post(broker, "Action=ReceiveMessage", f"/{ACCOUNT}/{name}")

    escaped = "&lt;a b=&quot;c&quot;&gt;&amp;'&#xD;\n\t]]&gt;"
    assert f"<Body>{escaped}</Body>" in answer.body


def test_error_repeats_forbidden_characters_as_replacements(broker: NodeProcess) -> None:
    answer = post(broker, "Action=%01%22%3C")

    assert told(answer) == "InvalidAction"
    assert "The action \ufffd&quot;&lt; is not valid for this endpoint." in answer.body

import json
import re
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest

from skipmq.actions.sqs.table import ACTIONS
from support.http import ACCOUNT, NodeProcess, client, eventually, raw
from support.wire import told

JSON = {"Content-Type": "application/x-amz-json-1.0"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def target(action: str) -> dict[str, str]:
    return {**JSON, "X-Amz-Target": f"AmazonSQS.{action}"}


def test_request_ids_differ(broker: NodeProcess) -> None:
    ids = {
        raw(broker.url, b"{}", target("ListQueues")).headers["x-amzn-RequestId"] for _ in range(5)
    }

    assert len(ids) == 5
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", id_) for id_ in ids)


@pytest.mark.parametrize(("query_mode", "status"), [(None, 400), ("true", 403)])
def test_json_error_has_the_modelled_status_only_in_query_mode(
    broker: NodeProcess, name: str, query_mode: str | None, status: int
) -> None:
    url = f"{broker.url}/{ACCOUNT}/{name}"
    raw(broker.url, json.dumps({"QueueName": name}).encode(), target("CreateQueue"))
    headers = target("PurgeQueue") | ({"x-amzn-query-mode": query_mode} if query_mode else {})
    body = json.dumps({"QueueUrl": url}).encode()
    raw(broker.url, body, headers)

    answer = raw(broker.url, body, headers)

    assert answer.status == status
    assert answer.headers["x-amzn-query-error"] == (
        "AWS.SimpleQueueService.PurgeQueueInProgress;Sender"
    )
    assert json.loads(answer.body)["__type"] == "com.amazonaws.sqs#PurgeQueueInProgress"


@pytest.mark.parametrize("path", [f"/{ACCOUNT}/{{}}", "/queue/{}"])
def test_query_request_to_the_queues_path_needs_no_queue_url(
    broker: NodeProcess, sqs: Any, queue: str, name: str, path: str
) -> None:
    form = urlencode({"Action": "SendMessage", "MessageBody": "a&b", "Version": "2012-11-05"})
    url = broker.url + path.format(name)

    answer = raw(url, form.encode(), FORM)

    assert answer.status == 200
    assert "<SendMessageResult>" in answer.body
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "a&b"


def test_json_to_the_queues_path_needs_no_queue_url(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    url = f"{broker.url}/{ACCOUNT}/{name}"

    answer = raw(url, b'{"MessageBody": "php"}', target("SendMessage"))

    assert answer.status == 200
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "php"


@pytest.mark.parametrize(
    ("headers", "body", "status", "part"),
    [
        (target("SendMessage"), b"{", 400, "SerializationException"),
        (target("SendMessage"), b"\xff\xfe", 400, "SerializationException"),
        (target("SendMessage"), b"[]", 400, "SerializationException"),
        (target("SendMessage"), b"{}", 400, "MissingRequiredParameterException"),
        (target("SendMessage"), b"[" * 100_000, 400, "SerializationException"),
        (target("Fly"), b"{}", 400, "UnknownOperationException"),
        (target("ListQueues"), b'{"MaxResults": "ten"}', 400, "SerializationException"),
        (FORM, b"Action=Fly", 400, "InvalidAction"),
        (FORM, b"", 404, "UnknownOperationException"),
        (FORM, b"Action=ListQueues&MaxResults=ten", 400, "InvalidParameterValue"),
        ({"Content-Type": "text/plain"}, b"hello", 404, "UnknownOperationException"),
    ],
)
def test_malformed_request_gets_an_error_of_sqs(
    broker: NodeProcess, headers: dict[str, str], body: bytes, status: int, part: str
) -> None:
    answer = raw(broker.url + "/", body, headers)

    assert (answer.status, part in answer.body) == (status, True), answer.body


@pytest.mark.parametrize("headers", [target("SendMessage"), FORM])
def test_huge_request_is_refused(broker: NodeProcess, headers: dict[str, str]) -> None:
    answer = raw(broker.url + "/", b"x" * (8 * 1_048_576 + 1), headers)

    assert answer.status == 400
    assert "Message must be shorter than 1048576 bytes." in answer.body


@pytest.mark.parametrize(
    ("path", "method"), [("/a/b/c", "GET"), ("/", "PUT"), ("/x", "POST"), ("/health/x", "POST")]
)
def test_request_that_is_nowhere_gets_an_error_document(
    broker: NodeProcess, path: str, method: str
) -> None:
    answer = raw(broker.url + path, b"", method=method)

    assert told(answer) == "UnknownOperationException"


@pytest.mark.parametrize(
    "endpoint", ["/000000000000", "/000000000000/", "/a/b/c", "//", "/healthy"]
)
def test_path_of_the_endpoint_does_not_matter_where_the_request_names_its_queue(
    broker: NodeProcess, sqs: Any, wire: str, name: str, endpoint: str
) -> None:
    """Some clients are given an endpoint that ends in the account."""
    client_there = client(broker.url + endpoint, wire)
    url = client_there.create_queue(QueueName=name)["QueueUrl"]
    client_there.send_message(QueueUrl=url, MessageBody="x")

    assert url == f"{broker.url}/{ACCOUNT}/{name}"
    assert client_there.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "x"


HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_browser_that_opens_the_nodes_address_is_led_to_the_console(broker: NodeProcess) -> None:
    connection = HTTPConnection("127.0.0.1", broker.port, timeout=40)
    try:
        connection.request("GET", "/", headers=HTML)
        response = connection.getresponse()
        response.read()
    finally:
        connection.close()

    assert (response.status, response.headers["Location"]) == (302, "/console/")
    assert "<html" in raw(f"{broker.url}/", None, HTML).body


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/xml"])
def test_get_without_action_that_is_no_browsers_is_an_unknown_operation(
    broker: NodeProcess, accept: str | None
) -> None:
    answer = raw(f"{broker.url}/", None, {"Accept": accept} if accept else {})

    assert (answer.status, told(answer)) == (404, "UnknownOperationException")


def test_other_requests_that_accept_html_are_answered_as_ever(
    broker: NodeProcess, queue: str, name: str
) -> None:
    del queue

    assert "<ListQueuesResult" in raw(f"{broker.url}/?Action=ListQueues", None, HTML).body
    assert told(raw(f"{broker.url}/", b"", HTML)) == "UnknownOperationException"
    assert told(raw(f"{broker.url}/{ACCOUNT}/{name}", None, HTML)) == "UnknownOperationException"


def test_health_says_live_and_ready(broker: NodeProcess) -> None:
    assert json.loads(raw(broker.url + "/health/live").body) == {"status": "live"}
    # The level is asked for at the first look.
    known = "none: what is acknowledged is on one server"
    ready = eventually(
        lambda: (
            (found := json.loads(raw(broker.url + "/health/ready").body)).get("replication")
            == known
            and found
        )
    )
    assert ready["status"] == "ready"


def test_log_has_the_request_and_never_the_body(broker: NodeProcess, sqs: Any, queue: str) -> None:
    answer = sqs.send_message(QueueUrl=queue, MessageBody="very-secret-words")

    request_id = answer["ResponseMetadata"]["RequestId"]
    (line,) = eventually(lambda: [json.loads(text) for text in broker.lines if request_id in text])
    assert (line["event"], line["action"], line["status"]) == ("request", "SendMessage", 200)
    assert "very-secret-words" not in broker.log


def test_routing_table_has_every_action() -> None:
    assert len(ACTIONS) == 23


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("GetQueueUrl", {"QueueName": "a\0b"}),
        ("ListQueues", {"QueueNamePrefix": "\0"}),
        ("ReceiveMessage", {"QueueUrl": "http://h/000000000000/a\0b"}),
        ("ReceiveMessage", {"QueueUrl": "http://[x/000000000000/b", "WaitTimeSeconds": 1}),
        ("ReceiveMessage", {"QueueUrl": f"http://h/{ACCOUNT}/{'x' * 9000}", "WaitTimeSeconds": 1}),
        ("CreateQueue", {"QueueName": "a", "tags": {"k": "\0"}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"KmsMasterKeyId": "\0"}}),
        ("CreateQueue", {"QueueName": "a", "Attributes": {"VisibilityTimeout": "9" * 5000}}),
        ("ListQueues", {"MaxResults": 1, "NextToken": "AA=="}),
    ],
)
def test_hostile_value_is_the_clients_error(
    broker: NodeProcess, action: str, body: dict[str, Any]
) -> None:
    answer = raw(broker.url + "/", json.dumps(body).encode(), target(action))

    assert answer.status == 400, answer.body


def test_queue_url_without_host_names_the_nodes_address(
    broker: NodeProcess, queue: str, name: str
) -> None:
    del queue
    body = json.dumps({"QueueName": name}).encode()
    head = [
        "POST / HTTP/1.0",
        "X-Amz-Target: AmazonSQS.GetQueueUrl",
        f"Content-Length: {len(body)}",
    ]

    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        answer = connection.makefile("rb").read()

    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "QueueUrl": f"http://127.0.0.1:{broker.port}/{ACCOUNT}/{name}"
    }

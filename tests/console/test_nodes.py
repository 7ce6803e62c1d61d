"""The pages of nodes and of a queue's consumers."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq.console.pages.database import problem
from support.browser import Browser
from support.http import NodeProcess, client, eventually, extension
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in


def test_consumer_appears_in_the_open_page(node: NodeProcess, browser: Browser) -> None:
    sqs = client(node.url)
    queue = sqs.create_queue(QueueName="consumed")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    browser.look("desktop", "light")
    with browser.hastened():
        browser.open(f"{node.url}/console/us-east-1/000000000000/queues/consumed/consumers")
    browser.wait("No consumer in the last ten minutes")

    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]

    eventually(lambda: browser.texts("[data-label=Received]") == ["1"])
    # Its messages come again.
    assert browser.count(".warn[data-label=Deleted]") == 1
    assert browser.texts("tbody th") == ["unsigned"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    eventually(lambda: browser.texts("[data-label=Deleted]") == ["1"])
    assert browser.complaints() == []


def test_consumer_with_a_key_is_named_by_it(signing: NodeProcess, keys: Keys) -> None:
    key = keys.create(ACCOUNT, "--name", "mailer")
    visitor = signed_in(signing, key)
    sqs = client(signing.url, **key)
    queue = sqs.create_queue(QueueName="consumed-by-key")["QueueUrl"]
    sqs.receive_message(QueueUrl=queue)

    named = f'mailer <code class="faint">{key["key"]}</code>'
    eventually(lambda: named in visitor.get("queues/consumed-by-key/consumers").body)


def test_user_who_is_refused_is_named_on_the_page(signing: NodeProcess, keys: Keys) -> None:
    visitor = signed_in(signing, key := keys.create(ACCOUNT, "--name", "storekeeper"))
    queue = client(signing.url, **key).create_queue(QueueName="refusing")["QueueUrl"]
    other = keys.create(ACCOUNT, "--name", "warehouse", "--role", "producer")

    def page() -> str:
        with pytest.raises(ClientError):
            client(signing.url, **other).receive_message(QueueUrl=queue)
        return visitor.get("queues/refusing/consumers").body

    eventually(lambda: "User warehouse is refused: AccessDenied, " in page())


def test_key_without_the_right_sees_no_nodes(signing: NodeProcess, keys: Keys) -> None:
    visitor = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))

    page = visitor.get("nodes").body

    assert "Your key may not view the nodes" in page


def worker(name: str, **members: Any) -> dict[str, Any]:
    return {
        "Process": name,
        "SeenSeconds": 1,
        "RequestsPerSecond": 2.0,
        "LatencyMilliseconds": 5.0,
        "LoopLagMilliseconds": None,
        **members,
    }


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, ""),
        ({"LatencyMilliseconds": 250.0}, "slow: p99"),
        ({"LoopLagMilliseconds": 180.0}, "slow: loop lag"),
        ({"LatencyMilliseconds": 90.0}, ""),
        ({"SeenSeconds": 60}, "no heartbeat"),
    ],
)
def test_worker_is_marked_that_is_slower_than_the_others(
    members: dict[str, Any], found: str
) -> None:
    workers = [worker("a", **members), worker("b"), worker("c")]

    assert [problem(each, workers) for each in workers] == [found, "", ""]


def test_worker_is_not_marked_where_all_are_slow() -> None:
    workers = [worker(name, LatencyMilliseconds=250.0) for name in "abc"]

    assert {problem(each, workers) for each in workers} == {""}


def test_worker_is_not_compared_with_those_without_requests() -> None:
    for idle in (
        {"LatencyMilliseconds": None},
        {"LatencyMilliseconds": 0.0, "RequestsPerSecond": 0},
    ):
        workers = [worker("a", LatencyMilliseconds=250.0), worker("b", **idle)]

        assert {problem(each, workers) for each in workers} == {""}


def test_nodes_are_named_by_host_and_port_and_errors_lead_to_their_codes(
    node: NodeProcess,
) -> None:
    visitor = Visitor(node.url)
    port = node.url.rpartition(":")[2]
    client(node.url).list_queues()

    def errors() -> bool:
        extension(node.url, "PeekMessages", status=400, QueueUrl=f"{node.url}/000000000000/none")
        return "?minutes=60#errors" in visitor.get("nodes").body

    eventually(errors)
    assert f":{port} <code" in visitor.get("nodes").body

    def codes() -> bool:  # A node notes them once a second.
        home = visitor.get("/console/us-east-1/000000000000/?minutes=60").body
        return 'id="errors"' in home and "NonExistentQueue</li>" in home.replace(" <b></b>", "")

    eventually(codes)

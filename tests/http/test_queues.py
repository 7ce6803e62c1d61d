import json
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess, WsgiProcess, client, raw
from support.postgres import as_node
from support.wire import FORM, target, told


def code(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_create_gives_a_url_that_works(sqs: Any, broker: NodeProcess, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]

    assert url == f"{broker.url}/{ACCOUNT}/{name}"
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url


def test_create_again_with_equal_attributes_gives_the_same_url(sqs: Any, name: str) -> None:
    first = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"})
    again = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "060"})
    bare = sqs.create_queue(QueueName=name)

    assert first["QueueUrl"] == again["QueueUrl"] == bare["QueueUrl"]


def test_create_again_with_another_attribute_is_a_conflict(sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"})

    with pytest.raises(sqs.exceptions.QueueNameExists) as caught:
        sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "61"})

    assert code(caught) == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute"
        " VisibilityTimeout",
    )


@pytest.mark.parametrize("bad", ["a b", "x" * 81, "a/b", "ä", "a.b"])
def test_create_with_bad_name_is_refused(sqs: Any, bad: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.create_queue(QueueName=bad)

    assert code(caught) == (
        "InvalidParameterValue",
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
    )


def test_get_url_of_no_queue_says_so_in_the_words_of_its_wire(sqs: Any, wire: str) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as caught:
        sqs.get_queue_url(QueueName="nowhere")

    tail = "." if wire == "json" else " for this wsdl version."
    assert code(caught) == (
        "AWS.SimpleQueueService.NonExistentQueue",
        "The specified queue does not exist" + tail,
    )


def test_list_pages_through_a_prefix(sqs: Any, name: str) -> None:
    urls = [sqs.create_queue(QueueName=f"{name}-{n}")["QueueUrl"] for n in range(5)]

    pages = [
        page.get("QueueUrls", [])
        for page in sqs.get_paginator("list_queues").paginate(
            QueueNamePrefix=f"{name}-", PaginationConfig={"PageSize": 2}
        )
    ]

    assert pages == [urls[:2], urls[2:4], urls[4:]]


def test_list_without_match_has_no_urls(sqs: Any) -> None:
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="no-such-prefix")


@pytest.mark.parametrize("bad", [0, 1001])
def test_list_with_bad_page_size_is_refused(sqs: Any, bad: int) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.list_queues(MaxResults=bad)

    assert code(caught)[0] == "InvalidParameterValue"


def test_list_with_forged_token_is_refused(sqs: Any) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.list_queues(MaxResults=1, NextToken="\x80?")

    assert code(caught)[0] == "InvalidParameterValue"


def test_delete_makes_the_queue_unknown_to_every_action(sqs: Any, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="lost")
    handle = sqs.receive_message(QueueUrl=queue)["Messages"][0]["ReceiptHandle"]
    sqs.delete_queue(QueueUrl=queue)

    for call in (
        lambda: sqs.delete_queue(QueueUrl=queue),
        lambda: sqs.get_queue_url(QueueName=name),
        lambda: sqs.send_message(QueueUrl=queue, MessageBody="x"),
        lambda: sqs.receive_message(QueueUrl=queue),
        lambda: sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle),
        lambda: sqs.purge_queue(QueueUrl=queue),
        lambda: sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"]),
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "1"}),
    ):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            call()


def test_create_within_a_minute_of_delete_is_refused(sqs: Any, queue: str, name: str) -> None:
    sqs.delete_queue(QueueUrl=queue)

    with pytest.raises(sqs.exceptions.QueueDeletedRecently) as caught:
        sqs.create_queue(QueueName=name)

    assert code(caught) == (
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another"
        " with the same name.",
    )


def test_purge_empties_the_queue_and_refuses_another_for_a_minute(
    sqs: Any, queue: str, name: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="waiting")
    sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=5)
    sqs.purge_queue(QueueUrl=queue)

    with pytest.raises(sqs.exceptions.PurgeQueueInProgress) as caught:
        sqs.purge_queue(QueueUrl=queue)

    assert code(caught) == (
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        f"Only one PurgeQueue operation on {name} is allowed every 60 seconds.",
    )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="after")
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "after"


def test_queues_of_accounts_are_apart(broker: NodeProcess, wire: str, name: str) -> None:
    here = client(broker.url, wire, key="111111111111")
    other = client(broker.url, wire, key="222222222222")

    url = here.create_queue(QueueName=name)["QueueUrl"]

    assert url == f"{broker.url}/111111111111/{name}"
    with pytest.raises(other.exceptions.QueueDoesNotExist):
        other.get_queue_url(QueueName=name)
    arn = here.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    assert arn == {"QueueArn": f"arn:aws:sqs:us-east-1:111111111111:{name}"}


def test_region_of_the_settings_is_that_of_requests_that_name_none(
    request: pytest.FixtureRequest, broker: NodeProcess, name: str
) -> None:
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    url = as_node(broker.owner_url)
    with door(database_url=url, workers=1, region="eu-north-1") as node:
        there, here = client(node.ready().url, region="elasticmq"), client(broker.url)
        queue = there.create_queue(QueueName=name)["QueueUrl"]
        arn = there.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]

    assert arn == {"QueueArn": f"arn:aws:sqs:eu-north-1:{ACCOUNT}:{name}"}
    with pytest.raises(here.exceptions.QueueDoesNotExist):
        here.get_queue_url(QueueName=name)


@pytest.mark.parametrize(
    "form", ["https://sqs.us-east-1.amazonaws.com/{path}", "http://elsewhere:1/{path}", "/{path}"]
)
def test_any_host_in_a_queue_url_is_accepted(
    sqs: Any, queue: str, name: str, broker: NodeProcess, form: str
) -> None:
    del queue
    url = form.format(path=f"{ACCOUNT}/{name}")
    body = f'{{"QueueUrl": "{url}", "MessageBody": "x"}}'.encode()
    headers = {
        "X-Amz-Target": "AmazonSQS.SendMessage",
        "Content-Type": "application/x-amz-json-1.0",
    }

    assert raw(broker.url + "/", body, headers).status == 200
    assert sqs.receive_message(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])["Messages"]


def asked(sqs: Any, wire: str, action: str, url: str) -> Any:
    """Return the answer to an action on whatever stands for a queue's URL."""
    if wire == "query":
        form = urlencode({"Action": action, "QueueUrl": url, "MessageBody": "x"}).encode()
        return raw(sqs.meta.endpoint_url + "/", form, FORM)
    body = json.dumps({"QueueUrl": url, "MessageBody": "x"}).encode()
    return raw(sqs.meta.endpoint_url + "/", body, target(action) | {"x-amzn-query-mode": "true"})


@pytest.mark.parametrize(
    "bad",
    [
        *("http://nonsense", "http://host/", "http://host/only", "sqs.example.com", "", "/", "a b"),
        *("localhost", "nothing.fifo", "x" * 81, f"http://h/{ACCOUNT}/{'x' * 81}", "ftp://"),
        f"http://{'h' * 3000}/{ACCOUNT}/long",
    ],
)
def test_queue_url_that_names_no_queue_is_one_that_is_not_there(
    sqs: Any, wire: str, bad: str
) -> None:
    answer = asked(sqs, wire, "ReceiveMessage", bad)

    assert answer.status == 400
    assert told(answer) == (
        "QueueDoesNotExist" if wire == "json" else "AWS.SimpleQueueService.NonExistentQueue"
    )


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_queue_url_may_be_the_name_of_a_queue_of_the_callers(
    broker: NodeProcess, wire: str, name: str, suffix: str
) -> None:
    attributes = {"FifoQueue": "true"} if suffix else {}
    group = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if suffix else {}
    queue = name + suffix
    urls = {}
    for account in (ACCOUNT, "111111111111"):
        sqs = client(broker.url, wire, key=account)
        urls[account] = sqs.create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]
        # The SDKs themselves take a name for an URL.
        sqs.send_message(QueueUrl=queue, MessageBody=account, **group)

    for account, url in urls.items():
        sqs = client(broker.url, wire, key=account)
        received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert [m["Body"] for m in received] == [account]


def test_queue_url_follows_the_host_of_the_request(
    broker: NodeProcess, queue: str, name: str
) -> None:
    del queue
    body = f'{{"QueueName": "{name}"}}'.encode()
    headers = {"X-Amz-Target": "AmazonSQS.GetQueueUrl", "Host": "sqs.localhost:8080"}

    answer = raw(broker.url + "/", body, headers)

    assert answer.body == f'{{"QueueUrl":"http://sqs.localhost:8080/{ACCOUNT}/{name}"}}'


def test_create_stores_tags_with_the_queue(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name, tags={"team": "blue"})["QueueUrl"]

    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}


def test_create_with_bad_tag_makes_nothing(sqs: Any, name: str) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.create_queue(QueueName=name, tags={"aws:team": "blue"})

    assert code(caught)[0] == "InvalidParameterValue"
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)

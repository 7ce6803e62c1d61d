import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess, client, raw

CHARACTERS = "letters, digits, spaces and _ . : / = + - @"


def tags(sqs: Any, queue: str) -> dict[str, str]:
    found: dict[str, str] = sqs.list_queue_tags(QueueUrl=queue).get("Tags", {})
    return found


def refused(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_tags_of_a_fresh_queue_are_none(sqs: Any, queue: str) -> None:
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)


def test_tags_given_on_create_are_listed(sqs: Any, name: str) -> None:
    queue = sqs.create_queue(QueueName=name, tags={"team": "red"})["QueueUrl"]

    assert tags(sqs, queue) == {"team": "red"}


def test_tag_adds_replaces_and_leaves_the_others(sqs: Any, queue: str) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "red", "stage": "test"})
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "blue", "empty": ""})

    assert tags(sqs, queue) == {"team": "blue", "stage": "test", "empty": ""}


def test_untag_takes_what_is_named_and_passes_over_what_is_not_there(sqs: Any, queue: str) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "1", "b": "2", "c": "3"})

    sqs.untag_queue(QueueUrl=queue, TagKeys=["a", "c", "never"])

    assert tags(sqs, queue) == {"b": "2"}


def test_tags_are_seen_at_once_by_every_worker(broker: NodeProcess, sqs: Any, queue: str) -> None:
    for n in range(20):
        sqs.tag_queue(QueueUrl=queue, Tags={"n": str(n)})

        # A client of its own has a connection of its own, to whichever worker takes it.
        assert tags(client(broker.url), queue) == {"n": str(n)}


def test_tag_with_the_longest_texts_and_all_signs_is_kept(sqs: Any, queue: str) -> None:
    given = {"k" * 128: "v" * 256, "Größe_.:/=+-@ 数": "Ünï 1_.:/=+-@"}

    sqs.tag_queue(QueueUrl=queue, Tags=given)

    assert tags(sqs, queue) == given


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"": "v"}, "Tag keys must be between 1 and 128 characters in length."),
        ({"k" * 129: "v"}, "Tag keys must be between 1 and 128 characters in length."),
        ({"k": "v" * 257}, "A tag value must be at most 256 characters long."),
        ({"aws:k": "v"}, "The prefix aws: is reserved for AWS."),
        ({"AwS:k": "v"}, "The prefix aws: is reserved for AWS."),
        ({"k!": "v"}, CHARACTERS),
        ({"k\n": "v"}, CHARACTERS),
        ({"k": "<v>"}, CHARACTERS),
        ({"k": "☃"}, CHARACTERS),
    ],
)
def test_tag_out_of_bounds_is_refused_with_all_others(
    sqs: Any, queue: str, given: dict[str, str], text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        sqs.tag_queue(QueueUrl=queue, Tags={"good": "tag"} | given)

    code, message = refused(caught)
    assert code == "InvalidParameterValue"
    assert text in message
    assert tags(sqs, queue) == {}


def test_fifty_tags_fit_and_one_more_is_refused(sqs: Any, queue: str, name: str) -> None:
    fifty = {f"key-{n}": "old" for n in range(50)}
    sqs.tag_queue(QueueUrl=queue, Tags=fifty)

    with pytest.raises(ClientError) as caught:
        sqs.tag_queue(QueueUrl=queue, Tags={"one-more": ""})
    sqs.tag_queue(QueueUrl=queue, Tags={"key-0": "new"})

    text = f"Too many tags added for queue {name}."
    assert refused(caught) == ("InvalidParameterValue", text)
    assert tags(sqs, queue) == fifty | {"key-0": "new"}


def test_fifty_one_tags_at_once_are_refused(sqs: Any, queue: str, name: str) -> None:
    many = {f"key-{n}": "" for n in range(51)}
    for call, tagged in (
        (lambda: sqs.tag_queue(QueueUrl=queue, Tags=many), name),
        (lambda: sqs.create_queue(QueueName=f"{name}-new", tags=many), f"{name}-new"),
    ):
        with pytest.raises(ClientError) as caught:
            call()
        text = f"Too many tags added for queue {tagged}."
        assert refused(caught) == ("InvalidParameterValue", text)


def test_request_without_tags_is_refused(sqs: Any, queue: str, wire: str) -> None:
    with pytest.raises(ClientError) as tagging:
        sqs.tag_queue(QueueUrl=queue, Tags={})
    with pytest.raises(ClientError) as untagging:
        sqs.untag_queue(QueueUrl=queue, TagKeys=[])

    # An empty map leaves nothing in a form, which names what is missing as the form would.
    member = "Tags" if wire == "json" else "Tag"
    start = "The request must contain the parameter"
    assert refused(tagging) == ("MissingParameter", f"{start} {member}.")
    assert refused(untagging) == ("MissingParameter", f"{start} TagKeys.")


@pytest.mark.parametrize(
    ("action", "more"),
    [("TagQueue", {"Tags": {"k\0": "v"}}), ("UntagQueue", {"TagKeys": ["k\0"]})],
)
def test_key_that_cannot_be_stored_is_the_clients_error(
    broker: NodeProcess, action: str, more: dict[str, Any], name: str
) -> None:
    client(broker.url).create_queue(QueueName=name)
    body = {"QueueUrl": f"{broker.url}/{ACCOUNT}/{name}", **more}
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
    }

    answer = raw(broker.url, json.dumps(body).encode(), headers)

    assert answer.status == 400, answer.body
    assert "InvalidParameterValueException" in answer.body


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("tag_queue", {"Tags": {"a": "b"}}),
        ("untag_queue", {"TagKeys": ["a"]}),
        ("list_queue_tags", {}),
    ],
)
def test_queue_that_is_not_there_is_told(
    sqs: Any, broker: NodeProcess, name: str, action: str, more: dict[str, Any]
) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        getattr(sqs, action)(QueueUrl=f"{broker.url}/{ACCOUNT}/{name}", **more)

"""Texts that mean something to SQL, formats, paths or XML are data, or get the error of SQS."""

from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess
from support.postgres import Connection
from support.wire import FORM, exchange

TEXTS = [
    "'; drop table skipmq.message; --",
    '"; select pg_sleep(9); --',
    "$1",
    "$$;$$",
    "%s%(a)s%n",
    "{0.__class__}",
    "\\",
    "\\'; --",
    "E'\\x27'",
    "a\tb\r\nc",
    "../../etc/passwd",
    "]]><x>&amp;&#0;<!--",
    '"><Code>Forged</Code>',
    "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
    "\u2028\U0001f600\ufffd",
]
# What a group's id, a deduplication id and the like can have.
PUNCTUATION = ["';--", '";--', "$1", "$$", "%s", "{0}", "\\", "\\'", "../..", "<&>", "]]>"]


def code(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["Error"]["Message"]
    return str(caught.value.response["Error"]["Code"])


def test_body_and_attributes_come_back_as_they_were(sqs: Any, queue: str) -> None:
    for text in TEXTS:
        given = {"a": {"DataType": "String", "StringValue": text}}

        sqs.send_message(QueueUrl=queue, MessageBody=text, MessageAttributes=given)

        (message,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
        assert (message["Body"], message["MessageAttributes"]) == (text, given)


def test_tag_has_no_such_text(sqs: Any, queue: str) -> None:
    texts = [text for text in TEXTS if not text.startswith("../")]
    sqs.tag_queue(QueueUrl=queue, Tags={"key": "value"})

    for text in texts:
        for tags in ({"key": text}, {text: "value"}):
            assert "Invalid" in code(sqs.tag_queue, QueueUrl=queue, Tags=tags), text
    for text in texts:
        sqs.untag_queue(QueueUrl=queue, TagKeys=[text])

    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"key": "value"}


@pytest.mark.parametrize("text", PUNCTUATION)
def test_group_and_deduplication_ids_come_back_as_they_were(sqs: Any, name: str, text: str) -> None:
    queue = sqs.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    ids = {"MessageGroupId": text, "MessageDeduplicationId": text}

    sqs.send_message(QueueUrl=queue, MessageBody="x", **ids)

    answer = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["All"], ReceiveRequestAttemptId=text
    )
    assert {key: answer["Messages"][0]["Attributes"][key] for key in ids} == ids


def test_name_of_a_queue_has_no_such_text(sqs: Any, owner: Connection, name: str) -> None:
    expected = {"InvalidParameterValue", "InvalidParameterValueException"}

    for text in (*TEXTS, *PUNCTUATION):
        assert code(sqs.create_queue, QueueName=name + text) in expected, text
        assert "NonExistent" in code(sqs.get_queue_url, QueueName=name + text), text
        assert sqs.list_queues(QueueNamePrefix=name + text).get("QueueUrls", []) == [], text
    assert owner.execute("select to_regclass('skipmq.message') is not null").fetchone() == (True,)


def test_token_and_handles_have_no_such_text(sqs: Any, queue: str) -> None:
    for text in (*TEXTS, *PUNCTUATION):
        assert "Invalid" in code(sqs.list_queues, NextToken=text, MaxResults=1), text
        assert "Invalid" in code(sqs.delete_message, QueueUrl=queue, ReceiptHandle=text), text
        assert "Invalid" in code(sqs.cancel_message_move_task, TaskHandle=text), text


@pytest.mark.parametrize("text", TEXTS)
def test_error_that_repeats_a_text_is_xml_with_one_code(broker: NodeProcess, text: str) -> None:
    body = urlencode({"Action": text}).encode()

    document = ET.fromstring(exchange(broker.port, body, FORM).body)  # noqa: S314 - our own.

    space = "{http://queue.amazonaws.com/doc/2012-11-05/}"
    (found,) = document.iter(f"{space}Code")
    (message,) = document.iter(f"{space}Message")
    assert found.text == "InvalidAction"
    assert message.text == f"The action {text} is not valid for this endpoint."


@pytest.mark.parametrize(
    "path", [f"/{ACCOUNT}/..", f"/{ACCOUNT}/%2e%2e", "/../etc", f"/{ACCOUNT}/a%2Fb", "/%27/%3B"]
)
def test_path_leads_to_no_file_and_no_other_queue(broker: NodeProcess, path: str) -> None:
    answer = exchange(broker.port, b"Action=GetQueueAttributes", FORM, path=path)

    assert answer.status in (400, 404)
    assert "root:" not in answer.body

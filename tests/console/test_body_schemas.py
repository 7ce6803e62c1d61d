"""The schema of a queue's bodies: in its settings, and next to the body of a message."""

import json
from html import unescape
from itertools import count
from typing import Any

import pytest

from support.http import NodeProcess, client
from support.visitor import Visitor

SCHEMA = json.dumps({"type": "object", "properties": {"item": {"type": "string"}}})
_number = count(1)


@pytest.fixture
def visitor(node: NodeProcess) -> Visitor:
    return Visitor(node.url)


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture
def name() -> str:
    return f"schema-{next(_number)}"


def set_by_form(visitor: Visitor, name: str, schema: str, mode: str = "describe") -> Any:
    shown = {"was-BodySchema": "", "was-BodySchemaMode": "describe"}
    form = shown | {"BodySchema": schema, "BodySchemaMode": mode}
    return visitor.post(f"queues/{name}/settings", form)


def test_schema_is_set_and_shown_by_the_settings(sqs: Any, visitor: Visitor, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]

    assert set_by_form(visitor, name, SCHEMA, "enforce").status == 303

    page = visitor.get(f"queues/{name}/settings").body
    assert f">{SCHEMA}</textarea>" in unescape(page)
    assert '<option value="enforce" selected>' in page
    assert "<dt>Body schema</dt><dd>enforced</dd>" in visitor.get(f"queues/{name}/overview").body
    with pytest.raises(sqs.exceptions.InvalidMessageContents):
        sqs.send_message(QueueUrl=url, MessageBody="tea")
    refused = visitor.post(f"queues/{name}/send", {"body": '{"item": 1}'})
    assert refused.status == 400
    assert "Expected `str`, got `int`, at $.item" in unescape(refused.body)


def test_schema_that_is_refused_stays_in_the_form(sqs: Any, visitor: Visitor, name: str) -> None:
    sqs.create_queue(QueueName=name)

    answer = set_by_form(visitor, name, '{"not": {}}')

    assert answer.status == 400
    assert "Unsupported keyword `not`, at $" in unescape(answer.body)
    assert '{"not": {}}</textarea>' in unescape(answer.body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"item": "tea"}', "The body fits the queue's schema."),
        (
            '{"item": 1}',
            "Does not fit the queue's schema:</b> Expected `str`, got `int`, at $.item",
        ),
    ],
)
def test_page_of_a_message_says_whether_its_body_fits(
    sqs: Any, visitor: Visitor, name: str, body: str, text: str
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=body)
    found = visitor.get(f"queues/{name}/messages").body
    reference = found.partition('name="reference" value="')[2].partition('"')[0]
    page = f"queues/{name}/messages/{reference}"
    before = unescape(visitor.get(page).body)

    sqs.set_queue_attributes(QueueUrl=url, Attributes={"BodySchema": SCHEMA})

    assert "the queue's schema" not in before
    assert text in unescape(visitor.get(page).body)

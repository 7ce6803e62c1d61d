"""Whatever a client sends, a node answers with a result or a whole error of SQS."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from skipmq.protocol import shapes
from support.http import ACCOUNT, NodeProcess, client
from support.wire import FORM, Answer, read, target, told

QUEUE = f"/{ACCOUNT}/fuzzed"
ANY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# None of them makes a receiver wait: waiting is 1 to 20 seconds.
NUMBERS = [-(2**63), -(2**31) - 1, -1, 0, 21, 43_200, 1_048_577, 2**31 - 1, 2**31, 2**63, 10**30]
SIGNS = "\0\x01\t\n\r \"'&<>%+=.:/\\[]{}*,;\x7f\x80\xff\u2028\ufffe\U0001f600aA0-_"
TEXT = st.text(st.sampled_from(SIGNS), max_size=8) | st.sampled_from(
    [
        *("All", ".*", "String", "Number", "Binary", "AWSTraceHeader", "Policy", "DelaySeconds"),
        *("VisibilityTimeout", "RedrivePolicy", "SendMessage", "AQAA", "====", "{}", "[]", "{"),
        *(f"arn:aws:sqs:us-east-1:{ACCOUNT}:fuzzed", ACCOUNT, "true", "null", "x" * 300),
        *map(str, NUMBERS),
    ]
)
HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *("Content-Type", "X-Amz-Target", "x-amzn-query-mode", "X-Amzn-Trace-Id", "Accept"),
            *("Authorization", "Content-Encoding", "X-Forwarded-Host", "X-Amz-Date", "Cookie"),
        ]
    ),
    HEADER | st.sampled_from(["true", "application/x-amz-json-1.0", "AmazonSQS.SendMessage"]),
    max_size=3,
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
# A queue that is deleted would have nothing more to tell.
ACTIONS = sorted(set(shapes.ACTIONS) - {"DeleteQueue"})


@pytest.fixture(scope="module")
def port(broker: NodeProcess) -> int:
    client(broker.url).create_queue(QueueName="fuzzed")
    return broker.port


def values(shape: shapes.Shape, name: str = "") -> SearchStrategy[Any]:
    """Return values that nearly fit a shape, so that they are understood a good way in."""
    match shape:
        case shapes.Scalar("integer" | "long"):
            fitting: SearchStrategy[Any] = st.sampled_from(NUMBERS)
        case shapes.Scalar("boolean"):
            fitting = st.booleans()
        case shapes.Scalar():
            fitting = st.sampled_from([QUEUE, f"http://h{QUEUE}"]) if name == "QueueUrl" else TEXT
        case shapes.List(element):
            fitting = st.lists(values(element), max_size=3)
        case shapes.Map(value):
            fitting = st.dictionaries(TEXT, values(value), max_size=3)
        case shapes.Structure(members, required):
            each = {name: values(member, name) for name, member in members.items()}
            fitting = st.fixed_dictionaries(
                {name: each[name] for name in members if name in required},
                optional={name: each[name] for name in members if name not in required},
            )
    return st.integers(0, 15).flatmap(lambda n: JUNK if n == 15 else fitting)


def fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Give the fields of a form that say a value in the manner of the Query wire."""
    if isinstance(value, dict):
        for key, content in value.items():
            yield from fields(f"{name}.{key}" if name else str(key), content)
    elif isinstance(value, list):
        for number, content in enumerate(value, 1):
            yield from fields(f"{name}.{number}", content)
    else:
        yield name, str(value)


def flat(shape: shapes.Shape, value: Any) -> Any:
    """Return a value with the members' names, and the maps, of the Query wire."""
    match shape, value:
        case shapes.Structure(members), dict():
            return {
                shapes.location(name, members[name]): flat(members[name], content)
                for name, content in value.items()
                if name in members
            }
        case shapes.Map(inner), dict():
            return [
                {shape.key_location: key, shape.value_location: flat(inner, content)}
                for key, content in value.items()
            ]
        case shapes.List(element), list():
            return [flat(element, content) for content in value]
    return value


def ask(
    port: int, body: bytes, headers: dict[str, str], *, method: str = "POST", path: str = "/"
) -> Answer:
    """Send a request; fail unless the answer is a result or a whole error of SQS."""
    connection = HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        connection.request(method, path, body, headers)
        answer = read(connection.getresponse())
    finally:
        connection.close()
    if answer.status != 200:
        told(answer)
    return answer


@ANY
@given(data=st.data(), action=st.sampled_from(ACTIONS), headers=HEADERS)
def test_any_document_of_json_is_answered(
    port: int, data: st.DataObject, action: str, headers: dict[str, str]
) -> None:
    document = data.draw(values(shapes.ACTIONS[action].takes))

    ask(port, json.dumps(document).encode(), headers | target(action))


@ANY
@given(data=st.data(), action=st.sampled_from(ACTIONS), headers=HEADERS)
def test_any_form_is_answered(
    port: int, data: st.DataObject, action: str, headers: dict[str, str]
) -> None:
    takes = shapes.ACTIONS[action].takes
    form = dict(fields("", flat(takes, data.draw(values(takes)))))
    form |= data.draw(st.dictionaries(TEXT, TEXT, max_size=2))

    body = urlencode(form | {"Action": action}).encode()

    headers.pop("X-Amz-Target", None)
    assert "xml" in ask(port, body, headers | FORM).headers["Content-Type"]


@ANY
@given(
    body=st.binary(max_size=40) | st.sampled_from([b"{}", b"Action=ListQueues", b"[", b"{" * 99]),
    headers=HEADERS,
    method=st.sampled_from(["GET", "POST", "PUT", "OPTIONS", "X"]),
    path=st.lists(
        st.sampled_from(["/", ACCOUNT, "fuzzed", "%00", "%FF", "?", "&", "Action=", "a", "%2F"]),
        max_size=8,
    ),
)
def test_any_request_is_answered(
    port: int, body: bytes, headers: dict[str, str], method: str, path: list[str]
) -> None:
    ask(port, body, headers, method=method, path=f"/{''.join(path)}")

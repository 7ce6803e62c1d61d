"""Which fields of messages the console hides, in whole texts and in those that are cut off."""

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmq.console.masking import HIDDEN, Mask
from support.http import NodeProcess, client
from support.postgres import Databases, as_node
from support.visitor import Visitor

SECRET = "hunter2-4111"
MASK = Mask(["password", "card.number"])
NAMES = st.sampled_from(["password", "card", "number", "other", "PassWord"])
# Without quotation marks: a text that may be JSON is masked by itself.
TEXTS = st.text(st.characters(exclude_characters='"'))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)


def expected(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Mask a value that was read, where Mask goes through what was written."""
    if isinstance(value, list):
        return [expected(each, path) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: HIDDEN
        if key.casefold() == "password" or (*path, key)[-2:] == ("card", "number")
        else expected(member, (*path, key))
        for key, member in value.items()
    }


@given(st.dictionaries(NAMES, VALUES) | st.lists(VALUES), st.sampled_from([None, 2]))
def test_what_is_masked_is_what_has_the_name_or_the_path(value: Any, indent: int | None) -> None:
    assert json.loads(MASK.text(json.dumps(value, indent=indent))) == expected(value)


@given(st.integers(0, 400))
def test_secret_is_hidden_wherever_the_text_is_cut_off(length: int) -> None:
    inner = json.dumps({"password": SECRET})
    body = json.dumps({"a": [1, {"card": {"number": SECRET}}], "m": inner, "password": [SECRET]})

    assert SECRET[:4] not in MASK.text(body[:length])


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("password: x", "password: x"),
        ('{"n": 1.10, "n": 1e400}', '{"n": 1.10, "n": 1e400}'),
        ('{"p\\u0061ssword":"x","b":1}', '{"p\\u0061ssword": "***","b":1}'),
        ('{"card.number":"x"}', '{"card.number": "***"}'),
        ('{"number":"x"}', '{"number":"x"}'),
        ('[{"card":[{"number":1},{"number":2}]}]', None),
        ('{"password":{"a":[1,{"b":2}]},"c":3}', '{"password": "***","c":3}'),
        (r'"{\"password\":1}"', r'"{\"password\": \"***\"}"'),
        ('{"password" : "x" "y"}', '{"password" : "***"}'),
    ],
)
def test_body_keeps_all_else(body: str, shown: str | None) -> None:
    masked = MASK.text(body)

    if shown is None:
        assert json.loads(masked) == [{"card": [{"number": HIDDEN}, {"number": HIDDEN}]}]
    else:
        assert masked == shown


BEFORE = ["\ufeff", "\u200b", "\u2060\n", "\x1e", ")]}',\n", "42\n", "event: ", "\u00a0\t"]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("body", [{"password": SECRET}, [json.dumps({"password": SECRET})]])
def test_what_stands_before_the_json_hides_nothing_from_the_mask(before: str, body: Any) -> None:
    text = before + json.dumps(body)

    masked = MASK.text(text)

    assert masked.startswith(before)
    assert SECRET not in masked
    assert HIDDEN in masked
    assert SECRET not in MASK.text(json.dumps([text]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_json_in_binary_attributes_is_masked(encoding: str) -> None:
    def shown(value: Any) -> Any:
        binary = b64encode(json.dumps(value).encode(encoding)).decode()
        attribute = {"DataType": "Binary", "BinaryValue": binary}
        return MASK.message({"MessageAttributes": {"a": attribute}}), attribute

    masked, _ = shown({"password": SECRET})
    plain, given = shown({"other": SECRET})

    assert masked["MessageAttributes"]["a"]["BinaryValue"] == HIDDEN
    assert plain["MessageAttributes"]["a"] == given


@pytest.mark.parametrize(
    "body",
    [
        '{"a":' * 40_000 + f'{{"password":"{SECRET}"}}' + "}" * 40_000,
        f'{{"{"k" * 200_000}":[{{"a":1}},' + '{"a":1},' * 6_000 + f'{{"password":"{SECRET}"}}]}}',
    ],
    ids=["deep", "below a long name"],
)
def test_mask_takes_memory_and_time_by_the_length_of_a_body(body: str) -> None:
    tracemalloc.start()
    try:
        began = process_time()
        masked = MASK.text(body)
        seconds = process_time() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert SECRET not in masked
    assert HIDDEN in masked
    assert peak < 100 * len(body)
    assert seconds < 10


def test_digests_of_a_masked_body_are_masked_too() -> None:
    body = json.dumps({"password": SECRET})
    ids = {"MessageDeduplicationId": sha256(body.encode()).hexdigest(), "SenderId": "s"}

    shown = MASK.message({"Body": body, "MD5OfBody": "d", "Attributes": ids})

    assert shown["MD5OfBody"] == HIDDEN
    assert shown["Attributes"] == {"MessageDeduplicationId": HIDDEN, "SenderId": "s"}
    plain = {"Body": "x", "MD5OfBody": "d", "Attributes": ids}
    assert MASK.message(plain) == plain


@pytest.fixture(scope="module")
def masking(embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node whose console masks."""
    url = as_node(embedded_databases.migrated())
    with NodeProcess(
        database_url=url, workers=1, console_mask="password, card.number, X-Token"
    ) as process:
        yield process.ready()


@pytest.fixture
def visitor(masking: NodeProcess) -> Visitor:
    """Give a visitor of a node with a message that has secrets."""
    sqs: Any = client(masking.url)
    schema = json.dumps({"type": "object", "properties": {"password": {"enum": ["x"]}}})
    attributes = {"BodySchema": schema}
    url = sqs.create_queue(QueueName="secrets", Attributes=attributes)["QueueUrl"]
    body = json.dumps({"id": 7, "password": SECRET, "card": {"number": SECRET, "month": 12}})
    sqs.send_message(
        QueueUrl=url,
        MessageBody=body,
        MessageAttributes={
            "x-token": {"DataType": "Binary", "BinaryValue": SECRET.encode()},
            "card.number": {"DataType": "String", "StringValue": SECRET},
            "colour": {"DataType": "String", "StringValue": "red"},
        },
    )
    return Visitor(masking.url)


def test_no_page_has_what_is_masked(masking: NodeProcess, visitor: Visitor) -> None:
    found = visitor.get("queues/secrets").body
    reference = found.partition('name="reference" value="')[2].partition('"')[0]
    whole = visitor.get(f"queues/secrets/messages/{reference}").body

    tail = visitor.get("queues/secrets/tail").body

    assert (SECRET in tail, "month" in tail, HIDDEN in tail) == (False, True, True)
    assert "the queue's schema" not in whole
    copied = visitor.get(f"queues/secrets/send?like={reference}").body
    file = visitor.get(f"queues/secrets/messages/{reference}/body").body
    for page, masked in ((found, 2), (whole, 4), (copied, 4), (file, 2)):
        assert SECRET not in page
        assert "aHVudGVyMi00MTEx" not in page
        assert page.count(HIDDEN) >= masked
        assert "month" in page
    assert "Fields of this message are masked" in copied
    url = f"{masking.url}/000000000000/secrets"
    sqs: Any = client(masking.url)
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert SECRET in message["Body"]

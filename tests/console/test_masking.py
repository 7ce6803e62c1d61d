"""Which fields of messages the console hides, in whole texts and in those that are cut off."""

import bz2
import gzip
import json
import tracemalloc
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from time import process_time
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmq.console.masking import HIDDEN, Mask
from support.http import NodeProcess, client, extension
from support.postgres import Databases, as_node
from support.visitor import Visitor

SECRET = "hunter2-4111"
FIELDS = ["password", "card.number"]
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
    assert json.loads(Mask(FIELDS).text(json.dumps(value, indent=indent))) == expected(value)


@given(st.integers(0, 400))
def test_secret_is_hidden_wherever_the_text_is_cut_off(length: int) -> None:
    inner = json.dumps({"password": SECRET})
    body = json.dumps({"a": [1, {"card": {"number": SECRET}}], "m": inner, "password": [SECRET]})

    assert SECRET[:4] not in Mask(FIELDS).text(body[:length])


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
    masked = Mask(FIELDS).text(body)

    if shown is None:
        assert json.loads(masked) == [{"card": [{"number": HIDDEN}, {"number": HIDDEN}]}]
    else:
        assert masked == shown


BEFORE = ["\ufeff", "\u200b", "\u2060\n", "\x1e", ")]}',\n", "42\n", "event: ", "\u00a0\t"]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("body", [{"password": SECRET}, [json.dumps({"password": SECRET})]])
def test_what_stands_before_the_json_hides_nothing_from_the_mask(before: str, body: Any) -> None:
    text = before + json.dumps(body)

    masked = Mask(FIELDS).text(text)

    assert masked.startswith(before)
    assert SECRET not in masked
    assert HIDDEN in masked
    assert SECRET not in Mask(FIELDS).text(json.dumps([text]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_json_in_binary_attributes_is_masked(encoding: str) -> None:
    def shown(value: Any) -> Any:
        binary = b64encode(json.dumps(value).encode(encoding)).decode()
        attribute = {"DataType": "Binary", "BinaryValue": binary}
        return Mask(FIELDS).message({"MessageAttributes": {"a": attribute}}), attribute

    masked, _ = shown({"password": SECRET})
    plain, given = shown({"other": SECRET})

    assert masked["MessageAttributes"]["a"]["BinaryValue"] == HIDDEN
    assert plain["MessageAttributes"]["a"] == given


# Without the time, which would be in the names of tests: each worker must collect the same ones.
gzipped = partial(gzip.compress, mtime=0)


def base64(content: bytes) -> str:
    return b64encode(content).decode()


SECRETS = json.dumps({"password": SECRET}).encode()
# 6 MiB, of which a page shows the first four.
LONG = json.dumps({"a": "x" * (6 << 20), "password": SECRET}).encode()
UNREADABLE = {
    "a second member": base64(gzipped(b'{"a": 1}\n') + gzipped(SECRETS)),
    "a long text": base64(gzipped(LONG)),
    "gzip that is cut off": base64(gzipped(SECRETS * 9)[:-20]),
    "gzip with more behind it": base64(gzipped(b'{"a": 1}') + SECRETS),
    "gzip of gzip": base64(gzipped(gzipped(SECRETS))),
    "zlib": base64(zlib.compress(SECRETS)),
    "bzip2": base64(bz2.compress(SECRETS)),
    "UTF-16": base64(SECRETS.decode().encode("utf-16")),
    "UTF-16 within gzip": base64(gzipped(SECRETS.decode().encode("utf-16-le"))),
    "base64 in base64": base64(base64(SECRETS).encode()),
    "base64 of another alphabet": urlsafe_b64encode(b"\xff\xfe\xfb" + SECRETS).decode(),
    "base64 with spaces": " ".join(base64(SECRETS)),
    "base64 with a character more": base64(SECRETS[:-1]) + "e",
    "base64 in a string": json.dumps({"data": base64(SECRETS), "b": "c"}),
    "base64 in a list": json.dumps([base64(gzipped(SECRETS))]).replace("/", "\\/"),
    "base64 in lines": json.dumps([base64(SECRETS)[:20] + "\n" + base64(SECRETS)[20:]]),
    "base64 in JSON in a string": json.dumps({"m": json.dumps({"data": base64(SECRETS)})}),
    "an odd quote": f'5" wide {{"password": "{SECRET}"}}',
    "an odd quote in an object": f'{{"a": 5", "password":"{SECRET}"}}',
    "an odd quote between two": f'{{"a": 1}} 5" {{"password":"{SECRET}","b":{{"a":2}}}}',
    "an odd quote in a string": json.dumps({"a": f'5" {{"password": "{SECRET}"}}'}),
    "escaped too often": json.dumps(f'{{"password": "{SECRET}"}}')[1:-1],
    "a value with odd quotes": f'{{"password": "a" b", "c": "{SECRET}", "d": ""}}',
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_to_its_end_is_hidden(body: str) -> None:
    parts = {body[at : at + 16] for at in range(0, len(body), 16) if len(body[at : at + 16]) == 16}
    attributes = {"a": {"DataType": "String", "StringValue": body}}

    shown = Mask(FIELDS).message({"Body": body, "MessageAttributes": attributes})

    texts = (shown["Body"], shown["MessageAttributes"]["a"]["StringValue"])
    assert all(HIDDEN in text and SECRET not in text for text in texts)
    assert not any(base64(SECRETS)[8:24] in text for text in texts)
    if "{" not in body:
        assert not any(part in text for part in parts for text in texts)


@pytest.mark.parametrize(
    "content", [gzipped(SECRETS), zlib.compress(SECRETS)], ids=["gzip", "zlib"]
)
def test_compressed_binary_attribute_is_hidden(content: bytes) -> None:
    attribute = {"DataType": "Binary", "BinaryValue": base64(content)}

    shown = Mask(FIELDS).message({"MessageAttributes": {"a": attribute}})

    assert shown["MessageAttributes"]["a"]["BinaryValue"] == HIDDEN


OTHER = json.dumps({"other": SECRET, "id": "550e8400-e29b-41d4-a716-446655440000"}).encode()


@pytest.mark.parametrize(
    "body",
    [
        base64(gzipped(OTHER) + gzipped(OTHER) + bytes(9)),
        base64(zlib.compress(OTHER)),
        base64(OTHER.decode().encode("utf-16")),
        base64(b"x\x9c" + bytes(range(200))),
        json.dumps({"data": base64(OTHER), "number": 7}),
        f'5" wide {OTHER.decode()}',
        'the "password" is 5" long, is"nt it',
        json.dumps(OTHER.decode())[1:-1],
    ],
    ids=lambda body: body[:8],
)
def test_what_has_no_masked_field_is_shown(body: str) -> None:
    assert Mask(FIELDS).message({"Body": body})["Body"] == body


@pytest.mark.parametrize(
    "name", ['pass"word', "a/b", "tab\t", "\U0001f511", "stra\u00dfe", "\u212a"]
)
def test_name_is_known_however_it_is_escaped(name: str) -> None:
    mask = Mask([name])
    body = json.dumps({name: SECRET})

    for text in (body, body.replace("/", "\\/"), json.dumps([body])):
        assert SECRET not in mask.text(text)


def test_texts_of_a_page_share_what_masking_may_take() -> None:
    mask = Mask(FIELDS)
    many = {"Body": json.dumps([1] * 40_000 + [{"password": SECRET}])}
    packed = {"Body": base64(gzipped(b"{ " * 1_000_000))}

    shown = [mask.message(each)["Body"] for each in (many, packed, many, packed, many)]

    assert [len(body) > 10 for body in shown[:2]] == [True, True]
    assert shown[2:] == [HIDDEN] * 3
    assert mask.message({"Body": "plain"})["Body"] == "plain"


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
        masked = Mask(FIELDS).text(body)
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

    shown = Mask(FIELDS).message({"Body": body, "MD5OfBody": "d", "Attributes": ids})

    assert shown["MD5OfBody"] == HIDDEN
    assert shown["Attributes"] == {"MessageDeduplicationId": HIDDEN, "SenderId": "s"}
    plain = {"Body": "x", "MD5OfBody": "d", "Attributes": ids}
    assert Mask(FIELDS).message(plain) == plain


def test_reasons_of_all_failures_are_masked() -> None:
    failures = [{"Receives": 1, "FailureReason": json.dumps({"password": SECRET})}]

    shown = Mask(FIELDS).message({"Body": "x", "Attributes": {}, "Failures": failures})

    assert SECRET not in str(shown["Failures"])
    assert shown["Failures"][0]["Receives"] == 1


@pytest.fixture(scope="module")
def masking(embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node whose console masks."""
    url = as_node(embedded_databases.migrated())
    with NodeProcess(
        database_url=url, workers=1, console_mask="password, card.number, X-Token"
    ) as process:
        yield process.ready()


@pytest.fixture(scope="module")
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


REFUSED = [
    {"body": "4111"},
    {"path": '$.password starts with "h"'},
    {"path": '$.card ? (@.number > "h")'},
    {"path": '$."p\\u0061ssword" > "h"'},
    {"path": '$."p\\x61ssword" > "h"'},
    {"path": '$.* starts with "h"'},
    {"path": '$.** ? (@ > "h")'},
    {"path": '$.id starts with "{\\"password\\": \\"h"'},
    {"path": f'$.id starts with "{base64(SECRETS)[:28]}"'},
    {"attribute": "X-Token", "value": "h"},
    {"attribute": "colour", "value": '{"password": "h"}'},
    {"failure": '{"password": "h'},
]


@pytest.mark.parametrize("query", REFUSED, ids=str)
def test_masked_fields_are_not_searched(visitor: Visitor, query: dict[str, str]) -> None:
    page = visitor.get(f"queues/secrets/search?{urlencode(query)}")
    task = visitor.post("queues/secrets/search", query | {"how": "delete"})

    for answer in (page, task):
        assert answer.status == 400
        assert "The console hides fields of messages" in answer.body
    assert "deleted" not in visitor.get("queues/secrets/redrive/tasks").body


@pytest.mark.parametrize(
    "query",
    [
        {"path": "$.id == 7"},
        {"path": "$.card ? (@.month == 12 && exists(@.month)) .month".replace(" .", ".")},
        {"path": '$.id ? (@ != "password")'},
        {"attribute": "colour", "value": "red"},
        {"attribute": "X-Token"},
        {"go": "1"},
    ],
    ids=str,
)
def test_other_fields_are_searched(visitor: Visitor, query: dict[str, str]) -> None:
    assert "message" in visitor.get(f"queues/secrets/search?{urlencode(query)}").body


def test_filter_of_a_task_is_masked(masking: NodeProcess, visitor: Visitor) -> None:
    task = {"Kind": "copy", "DestinationQueueUrl": "copies", "MaxNumberOfMessagesPerSecond": 1}
    url: Any = client(masking.url).create_queue(QueueName="copies")["QueueUrl"]
    sent = task | {"QueueUrl": url.replace("copies", "secrets"), "BodyContains": "4111-x"}
    extension(masking.url, "StartMessageTask", **sent)

    page = visitor.get("queues/secrets/redrive/tasks").body

    assert "copied to copies" in page
    assert "4111-x" not in page


def test_no_page_has_what_is_masked(masking: NodeProcess, visitor: Visitor) -> None:
    found = visitor.get("queues/secrets/messages").body
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

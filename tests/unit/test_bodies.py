"""Bodies as they are shown: decoded, laid out, folded, and none of their text lost."""

import gzip
import html
import json
import re
from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmq.console.bodies import decoded, laid_out

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
TEXT = '{"order": 7, "customer": "Zoë"}'


def text(markup: str) -> str:
    """Return the text of HTML, without the numbers of members."""
    return html.unescape(re.sub("<[^>]*>", "", re.sub(" <small>.*?</small>", "", markup)))


@given(JSON)
def test_laid_out_json_has_the_same_value(value: object) -> None:
    body = json.dumps(value if isinstance(value, dict | list) else [value])

    assert json.loads(text(laid_out(body))) == json.loads(body)


@pytest.mark.parametrize(
    "body",
    ["plain", "{not json}", "[" * 100_000, "[" * 80 + "]" * 80, "<b>", '{"a": "</pre>"', "[1," * 9],
    ids=lambda body: body[:12],
)
def test_other_text_is_shown_as_it_is(body: str) -> None:
    assert html.unescape(laid_out(body)) == body
    assert "<" not in laid_out(body)


def test_digits_order_and_duplicates_are_kept() -> None:
    shown = text(laid_out('{"b":1.10,"a":1e400,"b":[],"c":{"d":{}}}'))

    assert "".join(shown.split()) == '{"b":1.10,"a":1e400,"b":[],"c":{"d":{}}}'


def test_large_part_is_folded_and_counted() -> None:
    shown = laid_out(json.dumps({"small": [1, 2], "lines": [{"sku": n} for n in range(50)]}))

    assert shown.count("<details open>") == 1
    assert re.search(r"<details><summary> *<b>\"lines\"</b>: \[ <small>50 items</small>", shown)
    assert "<small>2 members</small>" in shown


def test_body_of_a_mebibyte_is_laid_out() -> None:
    body = json.dumps([{"order": n, "lines": [{"sku": f"<{n}>"}]} for n in range(20_000)])

    assert json.loads(text(laid_out(body))) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "encodings"),
    [
        (b64encode(TEXT.encode()), ("base64",)),
        (urlsafe_b64encode(TEXT.encode()).rstrip(b"="), ("base64",)),
        (b64encode(gzip.compress(TEXT.encode(), mtime=0)), ("base64", "gzip")),
    ],
)
def test_encoded_body_is_decoded(body: bytes, encodings: tuple[str, ...]) -> None:
    assert decoded(body.decode()) == (TEXT, encodings, True)


def test_beginning_of_a_long_body_is_decoded() -> None:
    long = "é" * 10_000
    body = b64encode(gzip.compress(long.encode(), mtime=0)).decode()

    found = decoded(b64encode(long.encode()).decode(), 101)

    assert found.encodings == ("base64",)
    assert long.startswith(found.text)
    assert 30 < len(found.text) < 100
    assert decoded(body) == (long, ("base64", "gzip"), True)


@pytest.mark.parametrize(
    "body",
    [
        "a text of words that is not encoded",
        "deadbeefdeadbeefdeadbeef",
        "0123456789012345678",
        b64encode(bytes(range(64))).decode(),
        b64encode(b"\x1f\x8b\x08 no gzip at all").decode(),
        "short",
        "",
    ],
)
def test_other_body_stays_as_it_is(body: str) -> None:
    assert decoded(body) == (body, (), True)


def test_compressed_zeros_do_not_fill_the_memory() -> None:
    body = b64encode(gzip.compress(b"0" * 40_000_000, 9)).decode()

    found = decoded(body)

    assert found.encodings == ("base64", "gzip")
    assert len(found.text) == 4 << 20

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from skipmq import Queue
from skipmq.client import ClientError


@dataclass
class Order:
    id: int
    when: dt.date


class Mail(msgspec.Struct):
    to: str
    text: bytes = b""


class Invoice(pydantic.BaseModel):
    total: float
    lines: list[str] = []


class Typed(TypedDict):
    a: int


class Plain:
    pass


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        (Order, Order(7, dt.date(2030, 1, 2)), '{"id":7,"when":"2030-01-02"}'),
        (Mail, Mail("ann", b"\xff"), '{"to":"ann","text":"/w=="}'),
        (Invoice, Invoice(total=1.5), '{"total":1.5,"lines":[]}'),
        (dict, {"a": [1, None]}, '{"a":[1,null]}'),
        (dict[str, int], {"a": 1}, '{"a":1}'),
        (list[Mail], [Mail("ann")], '[{"to":"ann","text":""}]'),
        (Typed, {"a": 1}, '{"a":1}'),
        (int | None, None, "null"),
        (str, 'grün "', 'grün "'),
        (bytes, b"\x00\xff", "AP8="),
    ],
)
def test_value_becomes_a_body_and_the_same_value_again(kind: Any, value: Any, body: str) -> None:
    codec = Queue("orders", kind).codec

    assert codec.encode(value) == body
    assert codec.decode(body) == value


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ("text", "text"),
        (b"\xff", "/w=="),
        ({"a": 1}, '{"a":1}'),
        (Order(7, dt.date(2030, 1, 2)), '{"id":7,"when":"2030-01-02"}'),
        (Invoice(total=1), '{"total":1.0,"lines":[]}'),
    ],
)
def test_queue_without_a_type_sends_each(value: Any, body: str) -> None:
    codec = Queue("orders").codec

    assert codec.encode(value) == body
    assert codec.decode(body) == body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Order, '{"id":"seven","when":"2030-01-02"}'),
        (Order, "no JSON"),
        (Invoice, "{}"),
        (dict, "[]"),
        (bytes, "§"),
    ],
)
def test_body_of_another_type_does_not_decode(kind: Any, body: str) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        Queue("orders", kind).codec.decode(body)


@pytest.mark.parametrize("kind", [Plain, 7])
def test_type_without_json_is_refused(kind: Any) -> None:
    with pytest.raises(ClientError, match="cannot be the type of a body: take a dataclass"):
        Queue("orders", kind)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Order, {"id": 7}, "takes Order, not dict"),
        (dict[str, int], [1], "takes dict[str, int], not list"),
        (Typed, [], "takes Typed, not list"),
        (str, 7, "takes str, not int"),
    ],
)
def test_value_of_another_type_is_refused_before_anything_is_sent(
    kind: Any, value: Any, text: str
) -> None:
    with pytest.raises(ClientError, match=f"the queue 'orders' {re.escape(text)}: send one of"):
        Queue("orders", kind).send(value, using=None)


class Chosen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_inf_nan="strings")
    total: float
    note: str | None = None


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (dict, {"a": NAN}),
        (dict, {"a": [None, {"b": -INFINITE}]}),
        (list[float], [1.0, INFINITE]),
        (float, NAN),
        (Invoice, Invoice(total=NAN)),
        (None, {"a": NAN}),
        (None, Invoice(total=INFINITE)),
    ],
)
def test_number_that_json_does_not_have_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ClientError, match="NaN or infinite, which JSON cannot have"):
        Queue("orders", kind).codec.encode(value)


def test_null_and_numbers_that_are_written_otherwise_are_sent() -> None:
    assert Queue("orders", dict).codec.encode({"a": None, "b": "null", 1: 2.5}) == (
        '{"a":null,"b":"null","1":2.5}'
    )
    assert Queue("orders", Chosen).codec.encode(Chosen(total=NAN)) == '{"total":"NaN","note":null}'

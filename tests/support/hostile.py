"""Documents that fit the shape of their action but for some changes, on both wires.

The shapes are botocore's: tests/unit/test_shapes.py compares them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from skipmq.protocol import extensions, shapes
from support.http import ACCOUNT

NAME, OTHER = "fuzzed", "fuzzed.fifo"
QUEUE = f"/{ACCOUNT}/{NAME}"
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{NAME}"
# A queue that is deleted would have nothing more to tell.
ACTIONS = {
    **{f"AmazonSQS.{name}": action.input for name, action in shapes.ACTIONS.items()},
    **{f"SkipMQ.{name}": shapes.structure(kind) for name, kind in extensions.REQUESTS.items()},
}
ACTIONS.pop("AmazonSQS.DeleteQueue")

# None of them makes a receiver wait: waiting is 1 to 20 seconds.
NUMBERS = [-(2**63), -(2**31) - 1, -1, 0, 21, 43_200, 1_048_577, 2**31 - 1, 2**31, 2**63, 10**30]
SIGNS = "\0\x01\t\n\r \"'&<>%+=.:;/\\[]{}*,$\x7f\x80\xff\u2028\ufffe\U0001f600aA0-_"
TEXT = st.text(st.sampled_from(SIGNS), max_size=8) | st.sampled_from(
    [
        *("All", ".*", "String", "Number", "Binary", "AWSTraceHeader", "Policy", "DelaySeconds"),
        *("VisibilityTimeout", "RedrivePolicy", "SendMessage", "AQAA", "====", "{}", "[]", "{"),
        *(ARN, ACCOUNT, "true", "null", "x" * 300, "$1", "%s", "'; select 1; --", "\\"),
        *map(str, NUMBERS),
    ]
)
FITTING: dict[str, SearchStrategy[Any]] = {
    "QueueUrl": st.sampled_from([QUEUE, f"http://h{QUEUE}", f"/{ACCOUNT}/{OTHER}"]),
    "QueueName": st.sampled_from([NAME, OTHER]) | TEXT,
    "MaxNumberOfMessages": st.sampled_from([1, 10]),
    "WaitTimeSeconds": st.just(0),
    "MaxResults": st.sampled_from([1, 1000]),
    "VisibilityTimeout": st.sampled_from([0, 43_200]),
    "DelaySeconds": st.sampled_from([0, 900]),
    "SourceArn": st.just(ARN),
    "DataType": st.sampled_from(["String", "Number", "Binary", "String.x"]),
    "Id": st.sampled_from(["a", "b", "c-1"]),
}
JUNK = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that stands in a JSON document as it is."""

    text: str

    def __str__(self) -> str:
        return self.text


# What no encoder of JSON writes.
RAW = st.sampled_from(
    [
        *("NaN", "-Infinity", "1e999", "-0", "01", "1.0", "1e2", "9" * 5000, "0.1e-400", "+1"),
        *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\0"', '"\x1f"', '"\\x"', '"', "'a'"),
        *(
            "[" * 500 + "]" * 500,
            "[" * 100_000,
            "[" * 5000 + "]" * 5000,
            '{"a":' * 5000 + "1" + "}" * 5000,
            '{"a":' * 500 + "1" + "}" * 500,
            "{}}",
            "[1,]",
        ),
        *("//", "/**/1", "\ufeff1", '{"a":1,"a":2}', "tru", "nul", '"\ud800"', "AAA=", '"AA=A"'),
    ]
).map(Raw)
LENGTHS = st.sampled_from([11, 21, 101, 1_001])
# Of what is repeated, no more characters than this.
REPEATED = 500


class Pairs(list[tuple[str, Any]]):
    """An object of JSON that has a member twice."""


def fitting(shape: shapes.Shape, name: str = "") -> SearchStrategy[Any]:  # noqa: PLR0911
    """Return values that fit a shape."""
    if name in FITTING and isinstance(shape, shapes.Scalar):
        return FITTING[name]
    match shape:
        case shapes.Scalar("integer" | "long"):
            return st.sampled_from(NUMBERS[2:-3])
        case shapes.Scalar("boolean"):
            return st.booleans()
        case shapes.Scalar("blob"):
            return st.sampled_from(["", "AAAA", "AA=="])
        case shapes.Scalar():
            return TEXT
        case shapes.List(element):
            return st.lists(fitting(element), max_size=3)
        case shapes.Map(value):
            return st.dictionaries(TEXT, fitting(value), max_size=3)
        case shapes.Structure(members, required):
            each = {name: fitting(member, name) for name, member in members.items()}
            return st.fixed_dictionaries(
                {name: each[name] for name in members if name in required},
                optional={name: each[name] for name in members if name not in required},
            )


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list) and not isinstance(value, Pairs):
        items = enumerate(value)
    for key, inner in items:
        yield from _places(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...], change: Any) -> Any:
    """Return a value with what stands at a path changed."""
    if not path:
        return change(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _at(copy[path[0]], path[1:], change)
    return copy


@st.composite
def changed(draw: DrawFn, value: Any) -> Any:
    """Give a document with one change."""
    path = () if draw(st.booleans()) else draw(st.sampled_from([*_places(value)]))
    new = draw(RAW if draw(st.booleans()) else JUNK)
    name, length = draw(TEXT), draw(LENGTHS)

    def change(old: Any) -> Any:  # noqa: PLR0911
        match kind:
            case "another":
                return new
            case "more":
                return {name: new, **old} if isinstance(old, dict) else [old, new]
            case "twice":
                return Pairs([*old.items(), *old.items()]) if isinstance(old, dict) else [old, old]
            case "fewer":
                return dict([*old.items()][1:]) if isinstance(old, dict) else None
            case "nested":
                return {name: [old]}
            case "long list" if len(str(old)) < REPEATED:
                return [old] * length
        return str(old)[:REPEATED] * length

    kinds = ["another", "more", "more", "twice", "fewer", "nested", "long list", "long text"]
    kind = draw(st.sampled_from(kinds))
    return _at(value, path, change)


@st.composite
def documents(draw: DrawFn, shape: shapes.Shape) -> Any:
    value = draw(fitting(shape))
    for _ in range(draw(st.integers(0, 3))):
        value = draw(changed(value))
    return value


def in_json(value: Any) -> str:
    """Return a document as JSON, with whatever is no JSON in it."""
    match value:
        case Raw(text):
            return text
        case Pairs():
            pairs: Any = value
        case dict():
            pairs = value.items()
        case list():
            return f"[{','.join(map(in_json, value))}]"
        case _:
            return json.dumps(value)
    return "{" + ",".join(f"{json.dumps(str(k))}:{in_json(v)}" for k, v in pairs) + "}"


def fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Give the fields of a form that say a value in the manner of the Query wire."""
    if isinstance(value, dict | Pairs):
        for key, content in value.items() if isinstance(value, dict) else value:
            yield from fields(f"{name}.{key}" if name else str(key), content)
    elif isinstance(value, list):
        for number, content in enumerate(value, 1):
            yield from fields(f"{name}.{number}", content)
    else:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


def flat(shape: shapes.Shape, value: Any) -> Any:
    """Return a value with the members' names, and the maps, of the Query wire."""
    match shape, value:
        case shapes.Structure(members), dict():
            return {
                shapes.location(name, members[name]) if name in members else name: flat(
                    members[name], content
                )
                if name in members
                else content
                for name, content in value.items()
            }
        case shapes.Map(inner), dict():
            return [
                {shape.key_location: key, shape.value_location: flat(inner, content)}
                for key, content in value.items()
            ]
        case shapes.List(element), list():
            return [flat(element, content) for content in value]
    return value

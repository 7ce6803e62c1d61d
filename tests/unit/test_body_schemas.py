"""Schemas of bodies: what is read, what is refused and where, and the verdicts of jsonschema."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from skipmq.protocol.body_schemas import SchemaError, Shape, read

ORDER = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "enum": ["tea", "coffee"]},
        "quantity": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "gift": {"type": "boolean"},
    },
    "required": ["item"],
    "additionalProperties": False,
}


def problem(schema: Any, body: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    return read(json.dumps(schema)).problem(text)


def of(inner: Any, **others: Any) -> dict[str, Any]:
    """Return the schema of an object with one property, `a`."""
    return {"type": "object", "properties": {"a": inner}, **others}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"item": "tea"}, ""),
        (
            {"item": "tea", "quantity": 2, "price": None, "at": "2026-01-02T03:04:05.123456Z"}
            | {"tags": ["a", "b"], "gift": True},
            "",
        ),
        ({"item": "tea", "price": 3}, ""),
        ({"quantity": 1}, "Object missing required field `item`, at $"),
        ({"item": "milk"}, "Expected a value of the enum, at $.item"),
        ({"item": "tea", "quantity": "2"}, "Expected `int`, got `str`, at $.quantity"),
        ({"item": "tea", "quantity": 0}, "Expected `int` >= 1, at $.quantity"),
        ({"item": "tea", "quantity": True}, "Expected `int`, got `bool`, at $.quantity"),
        ({"item": "tea", "tags": ["a", 1]}, "Expected `str`, got `int`, at $.tags[1]"),
        ({"item": "tea", "tags": ["a"] * 3}, "Expected `array` of length <= 2, at $.tags"),
        ({"item": "tea", "gift": None}, "Expected `bool`, got `null`, at $.gift"),
        ({"item": "tea", "at": "yesterday"}, "Invalid RFC3339 encoded datetime, at $.at"),
        (
            {"item": "tea", "at": "2026-01-02T03:04:05"},
            "Expected `datetime` with a timezone component, at $.at",
        ),
        (
            {"item": "tea", "secret": 1},
            "Object contains a property that the schema does not have, at $",
        ),
        ([], "Expected `object`, got `array`, at $"),
    ],
)
def test_body_that_does_not_fit_has_its_place_and_reason(body: Any, reason: str) -> None:
    assert problem(ORDER, body) == reason


@pytest.mark.parametrize("body", ["", "tea", "{", '{"item": "tea"} x', '{"item": NaN}'])
def test_body_that_is_not_json_does_not_fit(body: str) -> None:
    assert problem(ORDER, body)


def test_body_of_any_depth_is_checked() -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000

    assert problem(of({}), deep) == "JSON is nested too deeply"


def test_reason_has_nothing_of_the_body() -> None:
    for body in ({"item": "hidden"}, {"item": "tea", "hidden": "hidden"}, {"item": {"hidden": 1}}):
        assert "hidden" not in problem(ORDER, body)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (3, "Expected `object`, got `int`, at $"),
        ({}, "Expected the type object with properties, which are columns, at $"),
        ({"type": "object"}, "Expected the type object with properties, which are columns, at $"),
        (
            {"type": ["object", "null"], "properties": {"a": {}}},
            "Expected the type object with properties, which are columns, at $",
        ),
        (of({"oneOf": []}), "Unsupported keyword `oneOf`, at $.properties.a"),
        (of({"type": "text"}), "Invalid enum value 'text', at $.properties.a.type"),
        (of({"type": []}), "Expected `array` of length >= 1, at $.properties.a.type"),
        (
            of({"type": ["string", "integer"]}),
            "Expected one type, or one and null, at $.properties.a.type",
        ),
        (of({"minLength": 1}), "Expected a type, at $.properties.a"),
        (of({"properties": {"b": {}}}), "Expected a type, at $.properties.a"),
        (
            of({"type": "array", "items": of({"type": 1})}),
            "Expected `str | array`, got `int`, at $.properties.a.items.properties.a.type",
        ),
        (of({}, required=["b"]), "b is not one of the properties, at $.required"),
        (
            {"type": "object", "properties": {"a": {}, "A": {}}},
            "Two names of columns differ in case alone, at $.properties",
        ),
        (
            {"type": "object", "properties": {"": {}}},
            "A name is empty, or has quotes, backslashes or control characters, at $.properties",
        ),
        (
            of({"type": "boolean", "enum": [1]}),
            "Expected the type string or integer with an enum, at $.properties.a.type",
        ),
        (of({"type": "string", "enum": [1]}), "No value is of the type, at $.properties.a.enum"),
        (of({"enum": [10**30]}), "Expected `int` <= 9223372036854775807"),
        (of({"enum": ["a"], "type": "string", "minLength": 1}), "Expected no bounds with an enum"),
        (of({"type": "number", "maximum": 10**400}), "Expected "),
        (of({"type": "string", "maxLength": 10**30}), "Expected `int` <= 2147483647"),
        (of({"enum": []}), "Expected `array` of length >= 1, at $.properties.a.enum"),
        (
            of({"type": "integer", "minimum": 0.5}),
            "Expected whole numbers as bounds, at $.properties.a",
        ),
        (
            of({"type": "number", "minimum": 1, "exclusiveMinimum": 1}),
            "Expected one minimum and one maximum, at $.properties.a",
        ),
        (of({"type": "string", "minLength": -1}), "Expected `int` >= 0"),
        (
            of({"$ref": "#/$defs/none"}),
            "Expected the name of one of the root's $defs, at $.properties.a.$ref",
        ),
        (
            of({"$ref": "#/$defs/b"}, **{"$defs": {"b": of({"$ref": "#/$defs/b"})}}),
            "A type cannot contain itself, at $.properties.a.properties.a.$ref",
        ),
        (
            of({"$ref": "#/$defs/b", "minimum": 1}, **{"$defs": {"b": {}}}),
            "Expected no other restrictions than $ref or anyOf, at $.properties.a",
        ),
        (
            of({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            "Expected one schema, and that of null, at $.properties.a.anyOf",
        ),
    ],
)
def test_schema_that_cannot_be_used_is_refused_with_its_place(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read(json.dumps(schema))

    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("text", ["", "{", "tea", '{"type":' * 5_000 + "1" + "}" * 5_000])
def test_schema_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        read(text)


def test_references_cannot_make_a_schema_large() -> None:
    both = {"type": "object", "properties": {"a": {}, "b": {}}}
    definitions: dict[str, Any] = {"0": both}
    for number in range(40):
        half = {"$ref": f"#/$defs/{number}"}
        definitions[str(number + 1)] = {"type": "object", "properties": {"a": half, "b": half}}

    with pytest.raises(SchemaError, match="The schema describes more than 500 values, at "):
        read(json.dumps({"$ref": "#/$defs/40", "$defs": definitions}))


def test_references_and_optional_values_are_read() -> None:
    schema = {
        "$ref": "#/$defs/Order",
        "$defs": {
            "Order": {
                "title": "Order",
                "type": "object",
                "properties": {
                    "item": {"$ref": "#/$defs/Item", "description": "what"},
                    "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                    "kind": {"const": "order", "type": "string"},
                    "way": {"anyOf": [{"type": "string", "enum": ["post"]}, {"type": "null"}]},
                },
                "required": ["item"],
            },
            "Item": of({"type": "integer"}),
        },
    }

    shape = read(json.dumps(schema)).shape

    assert shape.properties["note"] == Shape("string", is_nullable=True)
    assert shape.properties["item"].properties["a"].type == "integer"
    assert problem(schema, {"item": {"a": 1}, "note": None, "kind": "order"}) == ""
    assert problem(schema, {"item": {"a": 1}, "kind": "other"}) != ""
    assert [problem(schema, {"item": {}, "way": way}) == "" for way in ("post", None, "air")] == [
        True, True, False,
    ]  # fmt: skip
    assert problem(schema, {"item": {"a": "x"}}) == "Expected `int`, got `str`, at $.item.a"


# Numbers are whole, or far from it: 1.0 is an integer for JSON Schema, and not for a bigint.
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 1e300])
    | st.sampled_from(["", "a", "bb", "ccc", "é"])
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c d", "é", "$"])
BODIES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)


def nullable(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from([*names, *([name, "null"] for name in names), *([n] for n in names)])


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    def complete(properties: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        names = sorted(properties)
        required = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
        return st.builds(
            lambda kind, others: {"type": kind, "properties": properties, **others},
            nullable(("object",)),
            some(required=required, additionalProperties=st.booleans()),
        )

    return st.dictionaries(NAMES, inner, max_size=4).flatmap(complete)


COUNTS = st.integers(0, 3)
CHOICES = st.lists(st.sampled_from(["a", "bb", 1, 2, None]), min_size=1, max_size=4, unique=True)
LEAVES = st.one_of(
    st.just({}),
    st.just({"type": "null"}),
    st.builds(lambda kind: {"type": kind}, nullable(("boolean", "string", "number", "integer"))),
    st.builds(lambda choices: {"enum": choices}, CHOICES),
    st.builds(
        lambda kind, bounds: {"type": kind, **bounds},
        nullable(("string",)),
        some(minLength=COUNTS, maxLength=COUNTS, title=st.just("x")),
    ),
    st.builds(
        lambda kind, least, most: {"type": kind, **least, **most},
        nullable(("integer", "number")),
        some(minimum=st.integers(-3, 3)) | some(exclusiveMinimum=st.integers(-3, 3)),
        some(maximum=st.integers(-3, 3)) | some(exclusiveMaximum=st.integers(-3, 3)),
    ),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: objects(inner) | st.builds(
        lambda kind, others: {"type": kind, **others},
        nullable(("array",)),
        some(items=inner, minItems=COUNTS, maxItems=COUNTS),
    ),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(inner=SCHEMAS, body=BODIES)
def test_verdict_is_that_of_json_schema(inner: dict[str, Any], body: Any) -> None:
    schema = of(inner)

    fits = problem(schema, {"a": body}) == ""

    assert fits == Draft202012Validator(schema).is_valid({"a": body})


BOUND = st.sampled_from([-(2**63), 2**63 - 1, 0])


@settings(deadline=None)
@given(
    least=some(minimum=BOUND) | some(exclusiveMinimum=BOUND),
    most=some(maximum=BOUND) | some(exclusiveMaximum=BOUND),
    value=BOUND,
)
def test_bounds_may_be_those_of_the_type(
    least: dict[str, int], most: dict[str, int], value: int
) -> None:
    inner = {"type": "integer", **least, **most}
    try:
        fits = problem(of(inner), {"a": value}) == ""
    except SchemaError:  # No integer of 64 bits is within them.
        fits = False

    assert fits == Draft202012Validator(inner).is_valid(value)


class Line(msgspec.Struct):
    sku: str
    quantity: Annotated[int, msgspec.Meta(ge=1)] = 1


class Order(msgspec.Struct):
    """What is ordered."""

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    lines: list[Line]
    status: Literal["new", "paid"] = "new"
    note: str | None = None
    gift: Line | None = None


def test_schema_of_msgspec_is_read() -> None:
    shape = read(json.dumps(msgspec.json.schema(Order))).shape

    assert shape.properties["at"].type == "date-time"
    assert shape.properties["note"] == Shape("string", is_nullable=True)
    assert shape.properties["gift"].properties["quantity"].bounds["ge"] == 1


def test_schema_of_pydantic_is_read() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Order", at=(datetime, ...), note=(str | None, None))

    shape = read(json.dumps(model.model_json_schema())).shape

    assert shape.properties["at"].type == "date-time"
    assert shape.properties["note"] == Shape("string", is_nullable=True)

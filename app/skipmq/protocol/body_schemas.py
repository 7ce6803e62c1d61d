"""Schemas of message bodies: the part of JSON Schema whose values are columns of a table.

A schema is read into a `Shape`, of which msgspec's types are made: here the one that checks bodies.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

_Name: TypeAlias = Literal["object", "array", "string", "integer", "number", "boolean", "null"]
# Those of PostgreSQL's, Spark's and DuckDB's bigint.
_MINIMUM, _MAXIMUM = -(2**63), 2**63 - 1
Integer: TypeAlias = Annotated[int, Meta(ge=_MINIMUM, le=_MAXIMUM)]
# RFC 3339 requires the offset.
DateTime: TypeAlias = Annotated[datetime, Meta(tz=True)]
_Number: TypeAlias = Integer | float | UnsetType
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType

# The values that a schema describes, at most: each is a column, and references repeat them.
_MAXIMUM_VALUES = 500
# Of up to 0.8 MB each.
_CACHED = 128
# The names that msgspec can compare without decoding them.
_PROPERTY = re.compile(r'[^\x00-\x1f"\\]+')
_DEFINITION = "#/$defs/"
_TYPES: Mapping[str, Any] = MappingProxyType({
    "": Any,
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
    "date-time": DateTime,
})  # fmt: skip
# Beginnings of msgspec's reasons that contain parts of the body, and what replaces these: the
# reasons are logged.
_WITHOUT_CONTENT: Mapping[str, str] = MappingProxyType({
    "Invalid enum value": "Expected a value of the enum",
    "Object contains unknown field": "Object contains a property that the schema does not have",
})  # fmt: skip


class SchemaError(ValueError):
    """A text is not a schema of bodies; the error text names the place in it."""


class Shape(NamedTuple):
    """The values that a schema allows; the type "" is any JSON, and "date-time" a string.

    An object without properties may have any.
    """

    type: str = ""
    is_nullable: bool = False
    choices: tuple[str | int | None, ...] = ()
    bounds: Mapping[str, Any] = MappingProxyType({})
    properties: Mapping[str, "Shape"] = MappingProxyType({})
    required: frozenset[str] = frozenset()
    is_closed: bool = False
    items: "Shape | None" = None


class _Restrictions(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The keywords that restrict a value."""

    type: _Name | Annotated[list[_Name], Meta(min_length=1)] | UnsetType = UNSET
    enum: Annotated[list[str | Integer | None], Meta(min_length=1)] | UnsetType = UNSET
    const: str | Integer | UnsetType = UNSET
    properties: dict[str, Raw] = {}
    required: list[str] = []
    additional_properties: bool | UnsetType = UNSET
    items: Raw | UnsetType = UNSET
    format: str = ""
    minimum: _Number = UNSET
    maximum: _Number = UNSET
    exclusive_minimum: _Number = UNSET
    exclusive_maximum: _Number = UNSET
    min_length: _Count = UNSET
    max_length: _Count = UNSET
    min_items: _Count = UNSET
    max_items: _Count = UNSET


class _Keywords(_Restrictions, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The keywords of a schema; any other is refused, because it would have no effect."""

    any_of: list[Raw] = []
    ref: str = msgspec.field(default="", name="$ref")
    definitions: dict[str, Raw] = msgspec.field(default_factory=dict, name="$defs")
    # These restrict nothing.
    dialect: Any = msgspec.field(default=None, name="$schema")
    id: Any = msgspec.field(default=None, name="$id")
    comment: Any = msgspec.field(default=None, name="$comment")
    title: Any = None
    description: Any = None
    default: Any = None
    examples: Any = None
    deprecated: Any = None


_ABSENT: tuple[Any, ...] = (UNSET, "", [], {})
_NEEDING_A_TYPE = set(_Restrictions.__struct_fields__) - {"type", "enum", "const", "format"}
# By type, the members of `_Restrictions` and those of msgspec's Meta.
_BOUNDS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "string": {"min_length": "min_length", "max_length": "max_length"},
    "array": {"min_items": "min_length", "max_items": "max_length"},
    "number": {
        "minimum": "ge", "maximum": "le", "exclusive_minimum": "gt", "exclusive_maximum": "lt",
    },
})  # fmt: skip


class BodySchema:
    """A schema of bodies, ready to check them."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._decoder = msgspec.json.Decoder(_type(shape))

    def problem(self, body: str) -> str:
        """Return why a body does not fit, with the place in it and nothing of it, or nothing."""
        try:
            self._decoder.decode(body)
        except msgspec.DecodeError as error:
            reason, place = _reason(error)
            for beginning, text in _WITHOUT_CONTENT.items():
                reason = text if reason.startswith(beginning) else reason
            return (
                f"{reason}, at ${place}" if isinstance(error, msgspec.ValidationError) else reason
            )
        except RecursionError:
            return "JSON is nested too deeply"
        return ""


@lru_cache(_CACHED)
def read(text: str) -> BodySchema:
    """Read a schema; raise SchemaError."""
    try:
        raw = Raw(text.encode())
        keywords = _keywords(raw, "$")
        shape = _Reader(keywords.definitions).shape(raw, "$")
        if shape.type != "object" or not shape.properties or shape.is_nullable:
            raise SchemaError("Expected the type object with properties, which are columns, at $")
        return BodySchema(shape)
    except RecursionError:
        raise SchemaError("The schema is nested too deeply") from None


class _Reader:
    """Reads a schema and the parts that it refers to."""

    def __init__(self, definitions: Mapping[str, Raw]) -> None:
        self._definitions = definitions
        self._values = 0

    def shape(self, raw: Raw, place: str, within: tuple[str, ...] = ()) -> Shape:
        """Return the shape of a schema; `within` are the references that led to it."""
        keywords = _keywords(raw, place)
        if keywords.ref or keywords.any_of:
            _check_alone(keywords, place)
        if name := keywords.ref:
            definition = self._definitions.get(name.removeprefix(_DEFINITION))
            if definition is None or not name.startswith(_DEFINITION):
                raise SchemaError(f"Expected the name of one of the root's $defs, at {place}.$ref")
            if name in within:
                raise SchemaError(f"A type cannot contain itself, at {place}.$ref")
            return self.shape(definition, place, (*within, name))
        if keywords.any_of:
            return self._optional(keywords.any_of, place, within)
        self._values += 1
        if self._values > _MAXIMUM_VALUES:
            raise SchemaError(
                f"The schema describes more than {_MAXIMUM_VALUES} values, at {place}"
            )
        kind, is_nullable = _kind(keywords, place)
        if not kind and any(getattr(keywords, each) not in _ABSENT for each in _NEEDING_A_TYPE):
            raise SchemaError(f"Expected a type, at {place}")
        properties = {
            each: self.shape(inner, f"{place}.properties.{each}", within)
            for each, inner in keywords.properties.items()
        }
        _check_names(properties, keywords.required, place)
        items = None
        if kind == "array":
            given = keywords.items
            items = Shape() if given is UNSET else self.shape(given, f"{place}.items", within)
        choices = _choices(keywords, kind, place, is_nullable=is_nullable)
        return Shape(
            "date-time" if (kind, keywords.format) == ("string", "date-time") else kind,
            is_nullable and not choices,
            choices,
            {} if choices else _bounds(keywords, kind, place),
            properties if kind == "object" else {},
            frozenset(keywords.required),
            keywords.additional_properties is False,
            items,
        )

    def _optional(self, schemas: list[Raw], place: str, within: tuple[str, ...]) -> Shape:
        """Return the shape of `anyOf` with a schema and null, as generators write optional ones."""
        shapes = [
            self.shape(each, f"{place}.anyOf[{number}]", within)
            for number, each in enumerate(schemas)
        ]
        others = [each for each in shapes if each.type != "null"]
        if len(others) != 1:
            raise SchemaError(f"Expected one schema, and that of null, at {place}.anyOf")
        return others[0]._replace(is_nullable=len(shapes) > 1 or others[0].is_nullable)


def _keywords(raw: Raw, place: str) -> _Keywords:
    try:
        return msgspec.json.decode(raw, type=_Keywords)
    except (msgspec.DecodeError, UnicodeError) as error:
        reason, inner = _reason(error)
        reason = reason.replace("Object contains unknown field", "Unsupported keyword")
        raise SchemaError(f"{reason}, at {place}{inner}") from error


def _reason(error: Exception) -> tuple[str, str]:
    """Return an error's text without its place, and the place without the `$`."""
    reason, _, place = str(error).partition(" - at `$")
    return reason, place.rstrip("`")


def _check_alone(keywords: _Keywords, place: str) -> None:
    for name in _Restrictions.__struct_fields__:
        if getattr(keywords, name) not in _ABSENT:
            raise SchemaError(f"Expected no other restrictions than $ref or anyOf, at {place}")
    if keywords.ref and keywords.any_of:
        raise SchemaError(f"Expected $ref or anyOf, not both, at {place}")


def _kind(keywords: _Keywords, place: str) -> tuple[str, bool]:
    """Return the type, and whether null is allowed, too."""
    given = keywords.type
    if given is UNSET:
        return "", False
    names = given if isinstance(given, list) else [given]
    others = [each for each in names if each != "null"]
    if len(others) > 1:
        raise SchemaError(f"Expected one type, or one and null, at {place}.type")
    return (others[0], "null" in names) if others else ("null", False)


def _check_names(properties: Mapping[str, Shape], required: list[str], place: str) -> None:
    for each in properties:
        if not _PROPERTY.fullmatch(each):
            raise SchemaError(
                "A name is empty, or has quotes, backslashes or control characters,"
                f" at {place}.properties"
            )
    if len({each.lower() for each in properties}) < len(properties):
        # Spark's and DuckDB's.
        raise SchemaError(f"Two names of columns differ in case alone, at {place}.properties")
    for each in required:
        if each not in properties:
            raise SchemaError(f"{each} is not one of the properties, at {place}.required")


def _choices(
    keywords: _Keywords, kind: str, place: str, *, is_nullable: bool
) -> tuple[str | int | None, ...]:
    if keywords.enum is UNSET and keywords.const is UNSET:
        return ()
    given: list[Any] = [keywords.const] if keywords.enum is UNSET else keywords.enum
    allowed = {"string": str, "integer": int, "": object}.get(kind)
    if allowed is None:
        raise SchemaError(f"Expected the type string or integer with an enum, at {place}.type")
    choices = [
        each
        for each in given
        if (kind == "" or is_nullable if each is None else isinstance(each, allowed))
    ]
    if not choices:
        raise SchemaError(f"No value is of the type, at {place}.enum")
    if _given_bounds(keywords, kind):
        raise SchemaError(f"Expected no bounds with an enum, at {place}")
    return tuple(choices)


def _given_bounds(keywords: _Keywords, kind: str) -> dict[str, Any]:
    """Return the bounds by the names of msgspec's Meta."""
    members = _BOUNDS.get("number" if kind == "integer" else kind, {})
    given = {bound: getattr(keywords, member) for member, bound in members.items()}
    return {bound: value for bound, value in given.items() if value is not UNSET}


def _bounds(keywords: _Keywords, kind: str, place: str) -> dict[str, Any]:
    bounds = _given_bounds(keywords, kind)
    for inclusive, exclusive in (("ge", "gt"), ("le", "lt")):
        if inclusive in bounds and exclusive in bounds:
            raise SchemaError(f"Expected one minimum and one maximum, at {place}")
    if kind != "integer":
        return bounds
    if any(isinstance(each, float) for each in bounds.values()):
        raise SchemaError(f"Expected whole numbers as bounds, at {place}")
    least = bounds["gt"] + 1 if "gt" in bounds else bounds.get("ge", _MINIMUM)
    most = bounds["lt"] - 1 if "lt" in bounds else bounds.get("le", _MAXIMUM)
    if least > _MAXIMUM or most < _MINIMUM:
        raise SchemaError(f"No integer of 64 bits is within the bounds, at {place}")
    return {"ge": least, "le": most}


def _type(shape: Shape) -> Any:
    """Return msgspec's type of the values."""
    made: Any = _TYPES.get(shape.type)
    if shape.choices:
        made = Literal[shape.choices]
    elif shape.type == "object":
        made = _struct(shape) if shape.properties or shape.is_closed else dict[str, Any]
    elif shape.type == "array":
        made = list[_type(shape.items or Shape())]  # type: ignore[misc]
    if shape.bounds:
        made = Annotated[made, Meta(**shape.bounds)]
    return made | None if shape.is_nullable else made


def _struct(shape: Shape) -> Any:
    """Return a struct whose optional members are absent, or else of their types."""
    fields: list[Any] = []
    names = {}
    for number, (name, inner) in enumerate(shape.properties.items()):
        names[f"_{number}"] = name
        made = _type(inner)
        if name in shape.required:
            fields.append((f"_{number}", made))
        else:
            fields.append((f"_{number}", made if made is Any else made | UnsetType, UNSET))
    return msgspec.defstruct(
        "Object", fields, kw_only=True, rename=names, forbid_unknown_fields=shape.is_closed
    )

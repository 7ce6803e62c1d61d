"""The inputs and outputs of the 23 SQS actions, in one table for both protocols.

The codecs walk shapes, which are derived from the classes in `requests` and `answers`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct, inspect, structs

from skipmq.protocol import answers, requests


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value."""

    kind: Literal["string", "integer", "long", "boolean", "blob"]


@dataclass(frozen=True, slots=True)
class List:
    """A list; `location` is the Query protocol's name of an element.

    That of SNS is not flattened: its elements are `inner` within the member.
    """

    element: "Shape"
    location: str = ""
    inner: str = ""


@dataclass(frozen=True, slots=True)
class Map:
    """A map; the locations are the Query protocol's names of an entry, its key and its value."""

    value: "Shape"
    location: str = ""
    key_location: str = "Name"
    value_location: str = "Value"
    inner: str = ""


@dataclass(frozen=True, slots=True)
class Structure:
    """Named members in order of the XML; `struct` is their class."""

    members: Mapping[str, "Shape"]
    required: frozenset[str]
    struct: type[Struct]


@dataclass(frozen=True, slots=True)
class ActionShape:
    """The input and output of an action; some have no output."""

    input: Structure
    output: Structure | None


Shape: TypeAlias = Scalar | List | Map | Structure


def location(name: str, shape: Shape) -> str:
    """Return the Query protocol's name of the member `name`."""
    return (shape.location or name) if isinstance(shape, List | Map) else name


@cache
def structure(struct: type[Struct]) -> Structure:
    """Return the structure that a class declares."""
    last: tuple[str, ...] = getattr(struct, "xml_order", ())
    fields = sorted(
        structs.fields(struct), key=lambda f: last.index(f.name) if f.name in last else -1
    )
    members = {each.name: _shape(inspect.type_info(each.type)) for each in fields}
    required = {each.name for each in fields if each.required or each.default_factory is list}
    if issubclass(struct, requests.QueueParameters):
        required.add("QueueUrl")
    return Structure(members, frozenset(required), struct)


def required_members(shape: Shape) -> Iterator[str]:
    """Yield the names of required members, of a shape and all shapes within it."""
    match shape:
        case Structure():
            yield from shape.required
            for member in shape.members.values():
                yield from required_members(member)
        case List():
            yield from required_members(shape.element)
        case Map():
            yield from required_members(shape.value)


def action_shape(request: type[Struct], answer: type[Struct] | None = None) -> ActionShape:
    """Return the shapes of an action by its classes."""
    return ActionShape(structure(request), None if answer is None else structure(answer))


def _shape(kind: inspect.Type, **locations: str) -> Shape:  # noqa: PLR0911 - one for each kind.
    """Return the shape of a type; for an optional one, that of the type itself."""
    match kind:
        case inspect.UnionType((inner, _)):
            return _shape(inner)
        case inspect.Metadata(inner, extra=extra):
            return _shape(inner, **(extra or {}))
        case inspect.ListType(inspect.StructType(struct)):
            return List(structure(struct), **locations or {"location": struct.__name__})
        case inspect.ListType(element):
            return List(_shape(element), **locations)
        case inspect.DictType(value_type=value):
            return Map(_shape(value), **locations)
        case inspect.StructType(struct):
            return structure(struct)
        case inspect.IntType(le=maximum):
            return Scalar("integer" if maximum == (1 << 31) - 1 else "long")
    return _SCALARS[type(kind)]


_SCALARS = {
    inspect.StrType: Scalar("string"),
    inspect.BoolType: Scalar("boolean"),
    inspect.BytesType: Scalar("blob"),
}

# The classes of requests but those of entries and of values, and the answers named after them.
ACTIONS: Mapping[str, ActionShape] = {
    name: action_shape(each, getattr(answers, f"{name}Result", None))
    for name, each in sorted(vars(requests).items())
    if isinstance(each, type)
    and issubclass(each, requests.Parameters)
    and not name.endswith(("Parameters", "Entry"))
}

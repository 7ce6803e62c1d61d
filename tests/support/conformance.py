"""What of AWS's service model of SQS a client has truly exercised.

A fact is a member of an action's input that was in the bytes of a request, a member of its output
that was in the bytes of an answer, or an error that was answered. A member is named by its path:
`Entries[].MessageAttributes{}.DataType`, and `Attributes{Policy}` where the model lists the keys.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import product
from re import split
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import botocore.session
from botocore.model import OperationModel, ServiceModel, Shape

from support.conformance_table import ERRORS, EXCLUDED, TABLE, Kind

Tree = dict[str, Any]

_XML = {"sqs": "http://queue.amazonaws.com/doc/2012-11-05/"}
_ANYTHING: Any = object()


class Fact(NamedTuple):
    """A member or an error of an action."""

    action: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return " ".join(self)


@cache
def service() -> ServiceModel:
    """Return AWS's present model of SQS."""
    return botocore.session.Session().get_service_model("sqs")


def modelled() -> set[Fact]:
    """Return every fact that there is."""
    facts = set()
    for action in service().operation_names:
        operation = service().operation_model(action)
        facts |= {Fact(action, "errors", shape.name) for shape in operation.error_shapes}
        for kind, shape in _shapes(operation).items():
            facts |= {Fact(action, kind, name) for name in _members(shape)}
    return facts


@cache
def claims() -> dict[Fact, set[str]]:
    """Return the facts of the table, each with the tests that exercise it."""
    found: dict[Fact, set[str]] = {}
    for action, tests in TABLE.items():
        for test, does in tests.items():
            for kind, names in does.items():
                for name in _spelled_out(names):
                    found.setdefault(Fact(action, kind, name), set()).add(test)
    return found


def exclusions() -> dict[Fact, str]:
    """Return the facts that nothing exercises, each with the reason."""
    return {
        Fact(action, kind, name): reason
        for (actions, kind, names), reason in EXCLUDED.items()
        for action in (service().operation_names if actions == "every" else actions.split())
        for name in _spelled_out(names)
    }


def promises(test: str, action: str | None = None) -> set[Fact]:
    """Return the facts that the table says of a test, or of its run for one action."""
    return {
        fact for fact, tests in claims().items() if test in tests and action in (None, fact.action)
    }


def actions_of(test: str) -> list[str]:
    """Return the actions for which the table has a test run."""
    return [action for action, tests in TABLE.items() if test in tests]


@contextmanager
def recording(sqs: Any) -> Iterator[set[Fact]]:
    """Give a set that gets the facts of every call of a client."""
    facts: set[Fact] = set()
    as_json = sqs.meta.service_model.metadata["protocol"] == "json"

    def sent(*, model: OperationModel, params: Mapping[str, Any], **_: Any) -> None:
        body = params["body"]
        value = json.loads(body) if as_json else _nested(model.input_shape, _tree(body))
        keep(model.name, "takes", value)

    def answered(*, model: OperationModel, parsed: Tree, http_response: Any, **_: Any) -> None:
        if http_response.status_code < 300:
            keep(model.name, "gives", parsed)
        else:
            told = _told_in_json(http_response) if as_json else _told_in_xml(http_response)
            facts.add(Fact(model.name, "errors", told))

    def keep(action: str, kind: Kind, value: Tree) -> None:
        shape = _shapes(service().operation_model(action)).get(kind)
        if shape is not None:
            facts.update(Fact(action, kind, name) for name in _members(shape, value))

    hooks = {"before-call.sqs": sent, "after-call.sqs": answered}
    for event, hook in hooks.items():
        sqs.meta.events.register(event, hook)
    try:
        yield facts
    finally:
        for event, hook in hooks.items():
            sqs.meta.events.unregister(event, hook)


def _shapes(operation: OperationModel) -> dict[Kind, Shape]:
    shapes: dict[Kind, Shape] = {"takes": operation.input_shape, "gives": operation.output_shape}
    return {kind: shape for kind, shape in shapes.items() if shape is not None}


def _members(shape: Shape, value: Any = _ANYTHING, path: str = "") -> Iterator[str]:
    """Give the path of every member of a shape, or of those that a value of it has."""
    any_value = value is _ANYTHING
    match shape.type_name:
        case "structure":
            for name, member in shape.members.items():
                if any_value or name in value:
                    here = f"{path}.{name}" if path else name
                    yield here
                    yield from _members(member, _ANYTHING if any_value else value[name], here)
        case "list":
            known = getattr(shape.member, "enum", [])
            yield from (f"{path}[{name}]" for name in known if any_value or name in value)
            for element in [_ANYTHING] if any_value else value:
                yield from _members(shape.member, element, f"{path}[]")
        case "map":
            # `All` asks for every attribute and is none.
            known = [name for name in getattr(shape.key, "enum", []) if name != "All"]
            yield from (f"{path}{{{name}}}" for name in known if any_value or name in value)
            for element in [_ANYTHING] if any_value else value.values():
                yield from _members(shape.value, element, f"{path}{{}}")


def _spelled_out(names: str) -> list[str]:
    """Return the names in a text, in which `a(b|c)d` stands for `abd acd`."""
    return [
        "".join(parts)
        for name in names.split()
        for parts in product(*(part.split("|") for part in split(r"[()]", name)))
    ]


def _tree(form: Mapping[str, str]) -> Tree:
    """Return the fields of a form by the parts of their names: `a.b=c` as {"a": {"b": {"": c}}}."""
    tree: Tree = {}
    for name, text in form.items():
        branch = tree
        for part in name.split("."):
            branch = branch.setdefault(part, {})
        branch[""] = text
    return tree


def _nested(shape: Shape, tree: Tree) -> Any:
    """Return what a form of the Query protocol says of a shape, by its members' own names."""
    match shape.type_name:
        case "structure":
            located = {name: (_location(name, each), each) for name, each in shape.members.items()}
            return {
                name: _nested(member, tree[location])
                for name, (location, member) in located.items()
                if location in tree
            }
        case "list":
            return [_nested(shape.member, tree[number]) for number in sorted(tree) if number]
        case "map":
            key, content = (half.serialization["name"] for half in (shape.key, shape.value))
            return {each[key][""]: _nested(shape.value, each[content]) for each in tree.values()}
        case _:
            return tree[""]


def _location(name: str, member: Shape) -> str:
    named = member.member if member.type_name == "list" else member
    location: str = named.serialization.get("name", name)
    return location


def _told_in_json(answer: Any) -> str:
    """Return the shape of the error that an answer tells of; fail where it is not well told."""
    document = json.loads(answer.content)
    namespace, shape = document["__type"].split("#")
    code, status = ERRORS[shape]

    is_modelled = any(shape == error.name for error in service().error_shapes)
    assert namespace == ("com.amazonaws.sqs" if is_modelled else "com.amazon.coral.service")
    assert answer.headers["x-amzn-query-error"] == f"{code};Sender"
    assert answer.headers["Content-Type"] == "application/x-amz-json-1.0"
    assert answer.headers["x-amzn-RequestId"]
    assert set(document) == {"__type", "message"}
    assert document["message"]
    assert answer.status_code == status
    return str(shape)


def _told_in_xml(answer: Any) -> str:
    """Return the shape of the error that an answer tells of; fail where it is not well told."""
    document = ET.fromstring(answer.content)  # noqa: S314 - our own node wrote it.
    told = {name: document.findtext(f"sqs:Error/sqs:{name}", namespaces=_XML) for name in _PARTS}
    shapes = {code: shape for shape, (code, _) in ERRORS.items()}
    shape = shapes[told["Code"] or ""]

    assert document.tag == f"{{{_XML['sqs']}}}ErrorResponse"
    assert told["Type"] == "Sender"
    assert told["Message"]
    assert document.findtext("sqs:RequestId", namespaces=_XML) == answer.headers["x-amzn-RequestId"]
    assert answer.headers["Content-Type"] == "text/xml"
    assert answer.status_code == ERRORS[shape][1]
    return shape


_PARTS = ("Type", "Code", "Message")

from collections.abc import Callable
from typing import Any

import pytest
from botocore.model import ServiceModel, Shape

from skipmq.protocol import codec, errors, shapes
from skipmq.protocol.call import Call, Request
from support.wire import answer_of

Ask = Callable[..., Request]

# The Query wire's model was frozen before this member came.
YOUNGER = {("ReceiveMessage", "MessageSystemAttributeNames")}
# The broker has no keys of KMS, serves plain HTTP too, and its receipt handles have one version.
NEVER_RAISED = {
    "InvalidAddress",
    *("InvalidIdFormat", "InvalidSecurity", "KmsAccessDenied", "KmsDisabled", "KmsInvalidKeyUsage"),
    *("KmsInvalidState", "KmsNotFound", "KmsOptInRequired", "KmsThrottled"),
}


def modelled(shape: Shape) -> Any:
    """Return a shape of botocore's as nested plain values."""
    match shape.type_name:
        case "structure":
            return {
                name: (name in shape.required_members, modelled(member))
                for name, member in shape.members.items()
            }
        case "list":
            return ["list", modelled(shape.member)]
        case "map":
            assert shape.key.type_name == "string"
            return ["map", modelled(shape.value)]
        case scalar:
            return scalar


def ours(shape: shapes.Shape) -> Any:
    """Return a shape of ours as nested plain values."""
    match shape:
        case shapes.Structure(members, required):
            return {name: (name in required, ours(member)) for name, member in members.items()}
        case shapes.List(element):
            return ["list", ours(element)]
        case shapes.Map(value):
            return ["map", ours(value)]
        case shapes.Scalar(kind):
            return kind


def modelled_locations(shape: Shape) -> Any:
    """Return the Query wire's names within a shape of botocore's."""
    match shape.type_name:
        case "structure":
            return {
                name: (_location(name, member), modelled_locations(member))
                for name, member in shape.members.items()
            }
        case "list":
            return modelled_locations(shape.member)
        case "map":
            halves = shape.key.serialization["name"], shape.value.serialization["name"]
            return halves, modelled_locations(shape.value)
        case _:
            return None


def _location(name: str, member: Shape) -> str:
    if member.type_name in ("list", "map"):
        assert member.serialization["flattened"]
    named = member.member if member.type_name == "list" else member
    location: str = named.serialization.get("name", name)
    return location


def our_locations(shape: shapes.Shape) -> Any:
    """Return the Query wire's names within a shape of ours."""
    match shape:
        case shapes.Structure(members):
            return {
                name: (shapes.location(name, member), our_locations(member))
                for name, member in members.items()
            }
        case shapes.List(element):
            return our_locations(element)
        case shapes.Map(value):
            return (shape.key_location, shape.value_location), our_locations(value)
        case _:
            return None


def test_actions_of_the_table_are_those_of_the_model(json_model: ServiceModel) -> None:
    assert list(shapes.ACTIONS) == sorted(json_model.operation_names)
    assert len(shapes.ACTIONS) == 23


@pytest.mark.parametrize("action", shapes.ACTIONS)
def test_shapes_of_an_action_match_the_json_model(action: str, json_model: ServiceModel) -> None:
    operation, shape = json_model.operation_model(action), shapes.ACTIONS[action]

    assert ours(shape.input) == modelled(operation.input_shape)
    assert (shape.output is None) == (operation.output_shape is None)
    if shape.output is not None:
        assert ours(shape.output) == modelled(operation.output_shape)


@pytest.mark.parametrize("action", shapes.ACTIONS)
def test_locations_of_an_action_match_the_query_model(
    action: str, query_model: ServiceModel
) -> None:
    operation, shape = query_model.operation_model(action), shapes.ACTIONS[action]
    members = our_locations(shape.input)
    for _, name in (pair for pair in YOUNGER if pair[0] == action):
        del members[name]

    assert members == modelled_locations(operation.input_shape)
    if shape.output is not None:
        assert our_locations(shape.output) == modelled_locations(operation.output_shape)


@pytest.mark.parametrize("action", shapes.ACTIONS)
def test_result_wrapper_of_an_action_matches_the_query_model(
    action: str, query_model: ServiceModel, ask: Ask
) -> None:
    output = query_model.operation_model(action).output_shape

    result = None if output is None else answer_of(action, {"queueUrls": []})
    body = codec.encode(Call(action, {}, ask()), result).body.decode()

    if output is None:
        assert "Result" not in body
    else:
        assert f"<{output.serialization['resultWrapper']}/>" in body
    assert f'<{action}Response xmlns="{query_model.metadata["xmlNamespace"]}">' in body


def test_errors_of_the_json_model_are_ours_by_name(json_model: ServiceModel) -> None:
    missing = {shape.name for shape in json_model.error_shapes if not hasattr(errors, shape.name)}

    assert missing == NEVER_RAISED
    for shape in json_model.error_shapes:
        if shape.name in NEVER_RAISED:
            continue
        error = getattr(errors, shape.name)

        assert issubclass(error, errors.SqsError)
        assert error.shape == shape.name
        assert error.namespace == errors.SQS


def test_errors_of_the_query_model_have_its_code_and_status(query_model: ServiceModel) -> None:
    checked = 0
    for shape in query_model.error_shapes:
        if shape.name in NEVER_RAISED:
            continue
        error = getattr(errors, shape.name)
        modelled_error = shape.metadata.get("error")
        if modelled_error:
            checked += 1
            assert error.code == modelled_error["code"]
            assert error.status == modelled_error["httpStatusCode"]
            assert (error.fault == "Sender") == modelled_error["senderFault"]

    assert checked == 13

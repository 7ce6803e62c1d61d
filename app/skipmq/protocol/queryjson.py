"""The Query protocol's documents as JSON, for clients that accept JSON first, as API Gateway does.

They correspond to those in XML: maps are lists of entries, and members without a value are null.
The names of two lists differ from the service model's.
Source: the responses of SQS to integrations of API Gateway.
"""

from typing import Any

import msgspec

from skipmq.protocol import errors, shapes, xml
from skipmq.protocol.call import Result

_serialise = msgspec.json.Encoder().encode
_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
# Null if empty.
_OUTCOMES = frozenset({"Successful", "Failed"})


def result(action: str, content: Result, request_id: str) -> bytes:
    """Return the document with an action's result."""
    shape = shapes.ACTIONS[action].output
    members = {} if shape is None else {f"{action}Result": _plain(shape, content)}
    metadata = {"ResponseMetadata": {"RequestId": request_id}}
    return _serialise({f"{action}Response": members | metadata})


def error(failure: errors.SqsError, request_id: str) -> bytes:
    """Return the document with an error."""
    content = {
        "Type": failure.fault,
        "Code": failure.code,
        "Message": xml.message(failure),
        "Detail": None,
    }
    return _serialise({"Error": content, "RequestId": request_id})


def _plain(shape: shapes.Shape, value: Any) -> Any:
    if value is None:
        return None
    match shape:
        case shapes.Structure(members):
            return {
                _NAMES.get(name, name): _plain(member, _member(value, name))
                for name, member in members.items()
            }
        case shapes.Map(inner):
            return [
                {shape.key_location: name, shape.value_location: _plain(inner, content)}
                for name, content in value.items()
            ]
        case shapes.List(element):
            return [_plain(element, content) for content in value]
    return value


def _member(value: Any, name: str) -> Any:
    content = getattr(value, name)
    return None if name in _OUTCOMES and not content else content

"""The documents of the Query wire in JSON, for clients that accept that first, as API Gateway does.

They are those of XML: maps are lists of entries, and a member without a value is null. Two lists
have names that the service model does not give them.
Source: the answers that SQS gives to integrations of API Gateway.
"""

from typing import Any

import msgspec

from skipmq import errors
from skipmq.protocol import shapes, xml

_serialise = msgspec.json.Encoder().encode
_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}


def result(action: str, content: dict[str, Any], request_id: str) -> bytes:
    """Return the document that carries an action's result."""
    shape = shapes.ACTIONS[action].gives
    members = {} if shape is None else {f"{action}Result": _plain(shape, content)}
    metadata = {"ResponseMetadata": {"RequestId": request_id}}
    return _serialise({f"{action}Response": members | metadata})


def error(failure: errors.SqsError, request_id: str) -> bytes:
    """Return the document that carries an error."""
    content = {
        "Type": failure.fault,
        "Code": failure.code,
        "Message": xml.message(failure),
        "Detail": None,
    }
    return _serialise({"Error": content, "RequestId": request_id})


def _plain(shape: shapes.Shape, value: Any) -> Any:
    match shape:
        case shapes.Structure(members):
            return {
                _NAMES.get(name, name): _plain(member, value[name]) if name in value else None
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

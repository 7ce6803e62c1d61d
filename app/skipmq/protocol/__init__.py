"""Between HTTP and calls: the codecs of the two wires, without any I/O.

A request is on the AWS JSON wire or on the legacy Query wire; its response is on the same.
"""

from typing import Any

from skipmq import errors
from skipmq.protocol import awsjson, extensions, query, shapes
from skipmq.protocol.call import Call, Request, Response

__all__ = ["REQUESTS", "Call", "Request", "Response", "decode", "encode", "encode_error"]

REQUESTS = {
    name: action.takes.struct for name, action in shapes.ACTIONS.items()
} | extensions.REQUESTS


def decode(request: Request) -> Call:
    """Return the call that a request makes.

    Raises an errors.SqsError, never anything else, when it makes none.
    """
    if request.is_json:
        return awsjson.decode(request)
    return query.decode(request)


def encode(call: Call, result: dict[str, Any] | None) -> Response:
    """Return the response that carries an action's result, by the names of AWS's JSON model."""
    if call.request.is_json:
        return awsjson.encode(call, result)
    return query.encode(call, result)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response that carries an error."""
    if request.is_json:
        return awsjson.encode_error(request, error)
    return query.encode_error(request, error)

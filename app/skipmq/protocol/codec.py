"""Decode requests into calls and encode responses, in both protocols of SQS, without I/O.

A request uses the AWS JSON protocol or the legacy Query protocol, and its response uses the same.
"""

from skipmq.protocol import awsjson, errors, extensions, query, shapes
from skipmq.protocol.call import Call, Request, Response, Result

__all__ = ["REQUESTS", "Call", "Request", "Response", "Result", "decode", "encode", "encode_error"]

REQUESTS = {
    name: action.input.struct for name, action in shapes.ACTIONS.items()
} | extensions.REQUESTS


def decode(request: Request) -> Call:
    """Return the call in a request; raise an errors.SqsError, and no other error."""
    if request.is_json:
        return awsjson.decode(request)
    return query.decode(request)


def encode(call: Call, result: Result) -> Response:
    """Return the response with an action's result, which has the names of AWS's JSON model."""
    if call.request.is_json:
        return awsjson.encode(call, result)
    return query.encode(call, result)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response with an error."""
    if request.is_json:
        return awsjson.encode_error(request, error)
    return query.encode_error(request, error)

"""The AWS JSON 1.0 wire: the action in `X-Amz-Target`, the parameters in a JSON object.

A body is decoded straight into the class of its action, which refuses what does not fit; the
decoder's error is then translated into the service's.
Source of the wire: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html and, for errors,
https://smithy.io/2.0/aws/protocols/aws-query-protocol.html (query compatibility).
"""

import re
from typing import Any

import msgspec

from skipmq import errors
from skipmq.protocol import extensions, requests, shapes
from skipmq.protocol.call import Call, Request, Response, queue_url, response_headers

_CONTENT_TYPE = "application/x-amz-json-1.0"
_serialise = msgspec.json.Encoder().encode
# Of a larger body the texts are counted first: a full batch with all its attributes has about
# 1,500, and decoding hundreds of thousands would block the event loop.
_LARGE_BODY, _MAXIMUM_TEXTS = 65_536, 20_000
_EXPECTED = re.compile("Expected `([a-z]+)(?:[^`a-z][^`]*)?`, got `([a-z]+)`")
_WANTED = {"str": "a String", "int": "an Integer", "bool": "a Boolean", "bytes": "a Blob"}
_FOUND = {"null": "NULL", "str": "STRING", "int": "NUMBER", "float": "NUMBER"}
# Of an element of a queue's tags, as the decoder names its place.
_TAG = (".Tags[", ".tags[")
_OUT_OF_RANGE = "NUMBER_VALUE can not be converted to an Integer"
_MISPLACED = {
    "array": "Start of list found where not expected",
    "object": "Start of structure or map found where not expected.",
}


def decode(request: Request) -> Call:
    """Return the call that a JSON request makes.

    Raises errors.UnknownOperationException for an unknown target, errors.SerializationException for
    a body that does not fit the action, errors.InvalidParameterValueException for a list that is
    too long, errors.MissingRequiredParameterException.
    """
    target = _TARGETS.get(request.headers.get("x-amz-target") or "")
    if target is None:
        raise errors.UnknownOperationException
    action, decoder, is_on_queue = target
    if len(request.body) > _LARGE_BODY:
        _check_texts(request.body)
    try:
        parameters: Any = decoder.decode(request.body)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), request.body) from error
    except (ValueError, RecursionError) as error:
        raise errors.SerializationException("The request body is not a JSON document.") from error
    if is_on_queue and parameters.QueueUrl is None:
        parameters.QueueUrl = queue_url(request)
        if parameters.QueueUrl is None:
            raise _missing("QueueUrl")
    return Call(action, parameters, request)


def encode(call: Call, result: dict[str, Any] | None) -> Response:
    """Return the response that carries an action's result; bytes in it become base64."""
    body = b"" if call.action in _GIVE_NOTHING else _serialise(result or {})
    return Response(200, response_headers(call.request, _CONTENT_TYPE), body)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response that carries an error.

    The modelled status is for clients that ask for the Query wire's errors; others get 400 for it.
    """
    status = error.status
    # These are the model's statuses of errors; others are HTTP's.
    if status in (403, 404, 408) and request.headers.get("x-amzn-query-mode") != "true":
        status = 400
    headers = response_headers(request, _CONTENT_TYPE, status)
    headers.append(("x-amzn-query-error", f"{error.code};{error.fault}"))
    body = {"__type": f"{error.namespace}#{error.shape}", "message": error.message}
    return Response(status, headers, _serialise(body))


def _check_texts(body: bytes) -> None:
    """Refuse a body of more texts than any valid one has, by its unescaped quotation marks."""
    marks = body.count(b'"')
    if marks > 2 * _MAXIMUM_TEXTS:
        marks = body.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')
    if marks > 2 * _MAXIMUM_TEXTS:
        raise errors.SerializationException(f"A request can have at most {_MAXIMUM_TEXTS} texts.")


def _refusal(complaint: str, body: bytes) -> errors.SqsError:
    """Return the error of the service for a complaint of the decoder."""
    if complaint.startswith("Object missing required field"):
        return _missing(complaint.split("`")[1])
    if complaint.startswith("Expected `array` of length"):
        limit = requests.MAXIMUM_ELEMENTS
        return errors.InvalidParameterValueException(f"A list can have at most {limit} elements.")
    mismatch = _EXPECTED.match(complaint)
    if mismatch is None:
        is_number = complaint.startswith("Expected `int` ")
        text = _OUT_OF_RANGE if is_number else "The value of a blob is not base64."
        return errors.SerializationException(text)
    wanted, found = mismatch.groups()
    place = complaint.partition(" - at `$")[2].rstrip("`")
    if found == "null" and place.startswith(_TAG):
        return errors.InvalidParameterValueException(
            "Value null for parameter TagValue is invalid. Reason: Must be a String."
        )
    member = place.rpartition(".")[2]
    if found == "null" and member in _REQUIRED:
        return _missing(member)
    return errors.SerializationException(_mismatch(wanted, found, place, body))


def _mismatch(wanted: str, found: str, place: str, body: bytes) -> str:
    if not place:
        return "The request body is not a JSON object."
    if found in _MISPLACED:
        return _MISPLACED[found]
    if wanted not in _WANTED:
        return "Unexpected field type"
    value = _FOUND.get(found) or ("TRUE" if b"true" in body else "FALSE")
    return f"{value}_VALUE can not be converted to {_WANTED[wanted]}"


def _missing(member: str) -> errors.SqsError:
    return errors.MissingRequiredParameterException(
        f"The request must contain the parameter {member}."
    )


_REQUESTS = [
    ("AmazonSQS", name, action.takes.struct) for name, action in shapes.ACTIONS.items()
] + [("SkipMQ", *item) for item in extensions.REQUESTS.items()]
_TARGETS = {
    f"{service}.{name}": (
        name,
        msgspec.json.Decoder(kind),
        issubclass(kind, requests.QueueParameters),
    )
    for service, name, kind in _REQUESTS
}
_GIVE_NOTHING = {name for name, action in shapes.ACTIONS.items() if action.gives is None}
_REQUIRED = {
    member for *_, kind in _REQUESTS for member in shapes.required_members(shapes.structure(kind))
}

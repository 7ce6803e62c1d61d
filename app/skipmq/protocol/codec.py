"""Decode requests into calls and encode responses, in both protocols of SQS, without I/O.

A request uses the AWS JSON 1.0 protocol, with the action in `X-Amz-Target` and the parameters in a
JSON object, or the legacy Query protocol (query.py), and its response uses the same. A body is
decoded into the class of its action; the decoder's errors are translated into those of SQS.
Source: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html and, for errors,
https://smithy.io/2.0/aws/protocols/aws-query-protocol.html (query compatibility).
"""

import re
from math import isfinite
from typing import Any

import msgspec

from skipmq.protocol import errors, extensions, query, requests, shapes
from skipmq.protocol.call import (
    UNIDENTIFIED,
    Call,
    Request,
    Response,
    Result,
    queue_url,
    response_headers,
)
from skipmq.protocol.identity import Identity
from skipmq.protocol.sns import shapes as topics
from skipmq.protocol.sns import wire as sns

_CONTENT_TYPE = "application/x-amz-json-1.0"
_CONTENT = ("content-type", _CONTENT_TYPE)
_serialise = msgspec.json.Encoder().encode
# Texts of a larger body are counted before it is decoded: a full batch with all its attributes has
# about 1,500, and to decode hundreds of thousands would block the event loop.
_LARGE_BODY, _MAXIMUM_TEXTS = 65_536, 20_000
_EXPECTED = re.compile("Expected `([a-z]+)(?:[^`a-z][^`]*)?`, got `([a-z]+)`")
_TYPES = {"str": "a String", "int": "an Integer", "bool": "a Boolean", "bytes": "a Blob"}
_VALUES = {"null": "NULL", "str": "STRING", "int": "NUMBER", "float": "NUMBER"}
# The start of the decoder's path to a tag of a queue.
_TAG = (".Tags[", ".tags[")
# The decoder's messages that do not say what it expected, and those of SQS.
_OTHERS = {
    "Expected `int` ": "NUMBER_VALUE can not be converted to an Integer",
    "Invalid base64": "The value of a blob is not base64.",
}
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SMALLER = b"0.5"
_MISPLACED = {
    "array": "Start of list found where not expected",
    "object": "Start of structure or map found where not expected.",
}


def decode(request: Request, identity: Identity = UNIDENTIFIED, deadline: float = 0.0) -> Call:
    """Return the call in a request of a caller.

    Raises errors.UnknownOperationException for an unknown target, errors.SerializationException for
    a body of other types than the action's, errors.InvalidParameterValueException for a list that
    is too long, errors.MissingRequiredParameterException, the errors of query.decode, and no other
    error.
    """
    if not request.is_json:
        fields = query.fields_of(request)
        if sns.is_for_sns(request, fields):
            return sns.decode(request, fields, identity, deadline)
        return query.decode(request, fields, identity, deadline)
    target = _TARGETS.get(request.headers.get("x-amz-target") or "")
    if target is None:
        raise errors.UnknownOperationException
    action, decoder, is_on_queue = target
    if len(request.body) > _LARGE_BODY:
        _check_texts(request.body)
    try:
        parameters: Any = decoder.decode(request.body)
    except msgspec.ValidationError as error:
        raise _translated(_message(error, decoder, request.body), request.body) from error
    except (ValueError, RecursionError) as error:
        raise errors.SerializationException("The request body is not a JSON document.") from error
    if is_on_queue and parameters.QueueUrl is None:
        parameters.QueueUrl = queue_url(request)
        if parameters.QueueUrl is None:
            raise errors.missing("QueueUrl")
    return Call(action, parameters, request, identity, deadline)


def encode(call: Call, result: Result) -> Response:
    """Return the response with an action's result, which has the names of AWS's JSON model.

    Bytes in it become base64.
    """
    if not call.request.is_json:
        return sns.encode(call, result) if call.request.is_sns else query.encode(call, result)
    body = b"" if call.action in _WITHOUT_OUTPUT else _serialise(result or {})
    return Response(200, [_CONTENT, ("x-amzn-requestid", call.request.request_id)], body)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response with an error.

    Only clients in query mode get the status of the service model; others that use JSON get 400.
    """
    if not request.is_json:
        if request.is_sns or sns.is_scope(request):
            return sns.encode_error(request, error)
        return query.encode_error(request, error)
    status = error.status
    # The service model has these statuses; others are those of HTTP.
    if status in (403, 404, 408) and request.headers.get("x-amzn-query-mode") != "true":
        status = 400
    headers = response_headers(request, _CONTENT_TYPE, status)
    headers.append(("x-amzn-query-error", f"{error.code};{error.fault}"))
    body = {"__type": f"{error.namespace}#{error.shape}", "message": error.message}
    return Response(status, headers, _serialise(body))


def _check_texts(body: bytes) -> None:
    """Refuse a body with more texts than any valid one, counted by unescaped quotation marks."""
    marks = body.count(b'"')
    if marks > 2 * _MAXIMUM_TEXTS:
        marks = body.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')
    if marks > 2 * _MAXIMUM_TEXTS:
        raise errors.SerializationException(f"A request can have at most {_MAXIMUM_TEXTS} texts.")


def _message(
    error: msgspec.ValidationError, decoder: msgspec.json.Decoder[Any], body: bytes
) -> str:
    """Return the error message of the decoder.

    For a number that no float can be it is that for a smaller number, which names what it expected.
    """
    if str(error).startswith("Number out of range"):
        smaller = _NUMBER.sub(lambda n: n[0] if isfinite(float(n[0])) else _SMALLER, body)
        try:
            decoder.decode(smaller)
        except msgspec.ValidationError as found:
            return str(found)
    return str(error)


def _translated(message: str, body: bytes) -> errors.SqsError:
    """Return SQS's error for an error message of the decoder."""
    if message.startswith("Object missing required field"):
        return errors.missing(message.split("`")[1])
    if message.startswith("Expected `array` of length"):
        limit = requests.MAXIMUM_ELEMENTS
        return errors.InvalidParameterValueException(f"A list can have at most {limit} elements.")
    mismatch = _EXPECTED.match(message)
    if mismatch is None:
        texts = (text for start, text in _OTHERS.items() if message.startswith(start))
        return errors.SerializationException(next(texts, "Unexpected field type"))
    expected, found = mismatch.groups()
    place = message.partition(" - at `$")[2].rstrip("`")
    if found == "null" and place.startswith(_TAG):
        return errors.InvalidParameterValueException(
            "Value null for parameter TagValue is invalid. Reason: Must be a String."
        )
    member = place.rpartition(".")[2]
    if found == "null" and member in _REQUIRED:
        return errors.missing(member)
    return errors.SerializationException(_mismatch(expected, found, place, body))


def _mismatch(expected: str, found: str, place: str, body: bytes) -> str:
    if not place:
        return "The request body is not a JSON object."
    if found in _MISPLACED:
        return _MISPLACED[found]
    if expected not in _TYPES:
        return "Unexpected field type"
    value = _VALUES.get(found) or ("TRUE" if b"true" in body else "FALSE")
    return f"{value}_VALUE can not be converted to {_TYPES[expected]}"


_OF_SQS = {name: action.input.struct for name, action in shapes.ACTIONS.items()}
TOPIC_REQUESTS = {name: action.input.struct for name, action in topics.ACTIONS.items()}
REQUESTS = _OF_SQS | extensions.REQUESTS
_TARGETS = {
    f"{service}.{name}": (
        name,
        msgspec.json.Decoder(kind),
        issubclass(kind, requests.QueueParameters),
    )
    for service, kinds in (
        ("AmazonSQS", _OF_SQS),
        ("SkipMQ", extensions.REQUESTS),
        # No SDK of SNS speaks JSON: this is for commands.
        ("SNS_20100331", TOPIC_REQUESTS),
    )
    for name, kind in kinds.items()
}
_WITHOUT_OUTPUT = {name for name, action in shapes.ACTIONS.items() if action.output is None}
_REQUIRED = {
    member
    for kind in REQUESTS.values()
    for member in shapes.required_members(shapes.structure(kind))
}

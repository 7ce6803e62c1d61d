"""The AWS JSON 1.0 wire: the action in `X-Amz-Target`, the parameters in a JSON object.

A decoder is built once for each shape; a call walks ready-made functions and looks nothing up.
Source of the wire: https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html and, for errors,
https://smithy.io/2.0/aws/protocols/aws-query-protocol.html (query compatibility).
"""

from base64 import b64decode
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from skipmq import errors
from skipmq.protocol import shapes
from skipmq.protocol.call import Call, Request, Response, queue_url, response_headers

Reader: TypeAlias = Callable[[Any], Any]

_CONTENT_TYPE = "application/x-amz-json-1.0"
# As many as a form can have fields; what is asked of each message has its price for each of them.
_ELEMENTS_MOST = 2_000
_parse = msgspec.json.Decoder().decode
_serialise = msgspec.json.Encoder().encode


def decode(request: Request) -> Call:
    """Return the call that a JSON request makes.

    Raises errors.UnknownOperationException for an unknown target, errors.SerializationException for
    a body that does not fit the action, errors.InvalidParameterValueException for a list that is
    too long, errors.MissingRequiredParameterException.
    """
    target = request.headers.get("X-Amz-Target") or ""
    read = _READERS.get(target)
    if read is None:
        raise errors.UnknownOperationException
    document = _document(request.body)
    if document.get("QueueUrl") is None and (url := queue_url(request)) is not None:
        document["QueueUrl"] = url
    return Call(target.partition(".")[2], read(document), request)


def encode(call: Call, result: dict[str, Any] | None) -> Response:
    """Return the response that carries an action's result; bytes in it become base64."""
    gives = _GIVES[call.action]
    body = b"" if gives is None else _serialise(result or {})
    return Response(200, response_headers(call.request, _CONTENT_TYPE), body)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response that tells the client of an error.

    The modelled status is for clients that ask for the Query wire's errors; others get 400 for it.
    """
    sender = error.status < 500  # noqa: PLR2004 - the border between the client's and our faults.
    modelled = request.headers.get("x-amzn-query-mode") == "true"
    status = 400 if sender and not modelled else error.status
    headers = response_headers(request, _CONTENT_TYPE, status)
    headers["x-amzn-query-error"] = f"{error.code};{error.fault}"
    body = {"__type": f"{error.namespace}#{error.shape}", "message": error.message}
    return Response(status, headers, _serialise(body))


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = _parse(body)
    except (ValueError, RecursionError) as exc:
        raise errors.SerializationException("The request body is not a JSON document.") from exc
    if type(document) is not dict:
        raise errors.SerializationException("The request body is not a JSON object.")
    return document


def _reader(shape: shapes.Shape) -> Reader:
    match shape:
        case shapes.Scalar(kind):
            return _SCALARS[kind]
        case shapes.List(element):
            return _list_reader(_reader(element))
        case shapes.Map(value):
            return _map_reader(_reader(value))
        case shapes.Structure():
            return _structure_reader(shape)


def _structure_reader(shape: shapes.Structure) -> Reader:
    readers = {name: _reader(member) for name, member in shape.members.items()}
    required = [name for name in readers if name in shape.required]

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _misplaced(value)
        found = {}
        for name, content in value.items():
            if content is not None and (reader := readers.get(name)) is not None:
                found[name] = reader(content)
        for name in required:
            if name not in found:
                raise errors.MissingRequiredParameterException(
                    f"The request must contain the parameter {name}."
                )
        return found

    return read


def _list_reader(element: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _misplaced(value)
        if len(value) > _ELEMENTS_MOST:
            raise errors.InvalidParameterValueException(
                f"A list can have at most {_ELEMENTS_MOST} elements."
            )
        return [element(content) for content in value]

    return read


def _map_reader(member: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _misplaced(value)
        return {key: member(content) for key, content in value.items() if content is not None}

    return read


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    raise _inconvertible(value, "a String")


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise _inconvertible(value, "a Boolean")


def _blob(value: Any) -> bytes:
    try:
        return b64decode(_string(value), validate=True)
    except ValueError as exc:
        raise errors.SerializationException("The value of a blob is not base64.") from exc


def _number(bits: int, wanted: str) -> Reader:
    most = 1 << (bits - 1)

    def read(value: Any) -> int:
        if type(value) is int and -most <= value < most:
            return value
        raise _inconvertible(value, wanted)

    return read


def _inconvertible(value: Any, wanted: str) -> errors.SerializationException:
    match value:
        case list() | dict():
            return _misplaced(value)
        case None:
            kind = "NULL"
        case bool():
            kind = str(value).upper()
        case str():
            kind = "STRING"
        case _:
            kind = "NUMBER"
    return errors.SerializationException(f"{kind}_VALUE can not be converted to {wanted}")


def _misplaced(value: Any) -> errors.SerializationException:
    match value:
        case list():
            found = "Start of list found where not expected"
        case dict():
            found = "Start of structure or map found where not expected."
        case _:
            found = "Unexpected field type"
    return errors.SerializationException(found)


_SCALARS: dict[str, Reader] = {
    "string": _string,
    "integer": _number(32, "an Integer"),
    "long": _number(64, "a Long"),
    "boolean": _boolean,
    "blob": _blob,
}
_TARGETS = {f"AmazonSQS.{name}": action for name, action in shapes.ACTIONS.items()} | {
    f"SkipMQ.{name}": action for name, action in shapes.EXTENSIONS.items()
}
_READERS = {target: _reader(action.takes) for target, action in _TARGETS.items()}
_GIVES = {target.partition(".")[2]: action.gives for target, action in _TARGETS.items()}

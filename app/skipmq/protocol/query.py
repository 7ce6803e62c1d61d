"""The legacy Query protocol: a form in, XML out, or JSON if the client accepts that first.

Lists and maps are flattened: `Tag.2.Key=colour`. The numbers only order the elements. Fields are
grouped by the next part of their names while the shape is walked, so that the shape limits the
depth.
Documents in JSON, for clients that accept it first, as API Gateway does, correspond to those in
XML: maps are lists of entries, and members without a value are null. The names of two lists differ
from the service model's.
Sources: https://smithy.io/2.0/aws/protocols/aws-query-protocol.html; the responses of SQS to
integrations of API Gateway.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from skipmq.protocol import errors, shapes, xml
from skipmq.protocol.call import (
    Call,
    Request,
    Response,
    Result,
    queue_url,
    response_headers,
)
from skipmq.protocol.identity import Identity

# Values by the unread rest of their names: {"1.Key": "colour"}.
Fields: TypeAlias = dict[str, str]
Reader: TypeAlias = Callable[[Fields, str], Any]

_CONTENT_TYPE, _JSON_TYPE = "text/xml", "application/json"
_JSON_FIRST = re.compile(r"\s*application/json\s*(?:[,;]|$)", re.IGNORECASE)
_MAXIMUM_FIELDS = 2_000  # A full batch with all its attributes has about 400.
_ESCAPES_FEW = 64
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_POSITION = re.compile(r"[0-9]{0,9}")
_EMPTY: Fields = {"": ""}
_NOT_FOR_QUEUES = frozenset({"CreateQueue", "ListQueues"})
# The versions that SQS has published since lists are flattened; each only adds to the one before.
_VERSIONS = frozenset({"2008-01-01", "2009-02-01", "2011-10-01", "2012-11-05"})
_serialise = msgspec.json.Encoder().encode
_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
# Null if empty.
_OUTCOMES = frozenset({"Successful", "Failed"})


def decode(request: Request, fields: Fields, identity: Identity, deadline: float) -> Call:
    """Return the call in the fields of a request.

    Raises errors.UnknownOperationException without an action, errors.InvalidAction for an unknown
    one, errors.NoSuchVersion, errors.InvalidParameterValueException,
    errors.MissingRequiredParameterException.
    """
    action = fields.get("Action")
    if not action:
        raise errors.UnknownOperationException
    if fields.get("Version", "2012-11-05") not in _VERSIONS:
        raise errors.NoSuchVersion
    read = _READERS.get(action)
    if read is None or (action in _NOT_FOR_QUEUES and queue_url(request) is not None):
        raise errors.InvalidAction(
            f"The action {errors.shown(action)} is not valid for this endpoint."
        )
    if "QueueUrl" not in fields and (url := queue_url(request)) is not None:
        fields["QueueUrl"] = url
    parameters = read(fields, "")
    return Call(action, parameters, request, identity, deadline)


def encode(call: Call, result: Result) -> Response:
    """Return the response with an action's result, as XML unless the request accepts JSON."""
    if _accepts_json(call.request):
        body = _json_result(call.action, result, call.request.request_id)
        return Response(200, response_headers(call.request, _JSON_TYPE), body)
    body = xml.result(call.action, result, call.request.request_id)
    return Response(200, response_headers(call.request, _CONTENT_TYPE), body)


def encode_error(request: Request, error: errors.SqsError) -> Response:
    """Return the response with an error, and the status of the service model.

    An unknown operation is reported as XML, whatever the request accepts.
    """
    unknown = isinstance(error, errors.UnknownOperationException)
    if _accepts_json(request) and not unknown:
        content_type, body = _JSON_TYPE, _json_error(error, request.request_id)
    else:
        content_type, body = _CONTENT_TYPE, xml.error(error, request.request_id)
    return Response(error.status, response_headers(request, content_type, error.status), body)


def _accepts_json(request: Request) -> bool:
    """Return whether JSON is the first type that a request accepts."""
    accepted = request.headers.get("accept")
    return accepted is not None and _JSON_FIRST.match(accepted) is not None


def fields_of(request: Request) -> Fields:
    """Return the values in a form and a query string, by name; the form has precedence."""
    # WSGI decodes the bytes of a query string as Latin-1.
    query = request.query.encode("latin-1", "replace")
    return dict(pairs(b"&".join(part for part in (query, request.body) if part)))


def pairs(form: bytes) -> list[tuple[str, str]]:
    """Return the names and values in a form; raise errors.InvalidParameterValueException."""
    if form.count(b"&") >= _MAXIMUM_FIELDS:
        raise errors.InvalidParameterValueException(
            f"A request can have at most {_MAXIMUM_FIELDS} parameters."
        )
    try:
        return [
            (_unquoted(name), _unquoted(value))
            for name, _, value in (field.partition(b"=") for field in form.split(b"&"))
        ]
    except UnicodeDecodeError as exc:
        raise errors.InvalidParameterValueException("The request is not UTF-8 text.") from exc


def _unquoted(raw: bytes) -> str:
    raw = raw.replace(b"+", b" ")
    if raw.count(b"%") <= _ESCAPES_FEW:
        return unquote_to_bytes(raw).decode()
    # This codec is many times faster, but raises for an invalid escape.
    escaped = raw.replace(b"\\", b"\\\\").replace(b"%", b"\\x")
    return escaped.decode("unicode_escape").encode("latin-1").decode()


def _branches(fields: Fields) -> dict[str, Fields]:
    branches: dict[str, Fields] = {}
    for name, value in fields.items():
        head, _, rest = name.partition(".")
        branches.setdefault(head, {})[rest] = value
    return branches


def _numbered(fields: Fields, path: str) -> list[tuple[str, Fields]]:
    """Return the branches of a list or map in order of their numbers; one without comes first."""
    if fields == _EMPTY:
        return []
    branches = _branches(fields)
    for head in branches:
        if _POSITION.fullmatch(head) is None:
            raise errors.invalid(head, path, "Must be the number of an element.")
    return sorted(branches.items(), key=lambda branch: int(branch[0] or 0))


def reader(shape: shapes.Shape) -> Reader:
    """Return the function that reads a shape from fields and the path to them."""
    match shape:
        case shapes.Scalar(kind):
            return _scalar_reader(_SCALARS[kind])
        case shapes.List(element):
            return _within(shape.inner, _list_reader(reader(element)))
        case shapes.Map():
            return _within(shape.inner, _map_reader(shape))
        case shapes.Structure():
            return _structure_reader(shape)


def _scalar_reader(parse: Callable[[str, str], Any]) -> Reader:
    return lambda fields, path: parse(_text(fields, path), path)


def _list_reader(element: Reader) -> Reader:
    def read(fields: Fields, path: str) -> list[Any]:
        return [element(branch, f"{path}.{head}") for head, branch in _numbered(fields, path)]

    return read


def _within(inner: str, read: Reader) -> Reader:
    """Return a reader of what is below the part `inner` of the names, if there is one."""
    if not inner:
        return read
    return lambda fields, path: read(_branches(fields).get(inner, {}), f"{path}.{inner}")


def _map_reader(shape: shapes.Map) -> Reader:
    key_location, value_location = shape.key_location, shape.value_location
    value = reader(shape.value)

    def read(fields: Fields, path: str) -> dict[str, Any]:
        found = {}
        for head, branch in _numbered(fields, path):
            entry = _branches(branch)
            key = _text(entry.get(key_location, {}), f"{path}.{head}.{key_location}")
            found[key] = value(entry.get(value_location, {}), f"{path}.{head}.{value_location}")
        return found

    return read


def _structure_reader(shape: shapes.Structure) -> Reader:
    members = [
        (name, shapes.location(name, member), reader(member))
        for name, member in shape.members.items()
    ]

    struct = shape.struct

    def read(fields: Fields, path: str) -> msgspec.Struct:
        branches, found = _branches(fields), {}
        for name, location, read_member in members:
            here = f"{path}.{location}" if path else location
            # SDKs write an empty list by the member's name: `AttributeNames=`.
            branch = branches.get(location) or branches.get(name)
            if branch is not None:
                found[name] = read_member(branch, here)
            elif name == "Entries":
                found[name] = []  # Forms do not distinguish an empty list from a missing one.
            elif name in shape.required:
                raise errors.missing(here)
        return struct(**found)

    return read


def _text(fields: Fields, path: str) -> str:
    if "" not in fields:
        raise errors.missing(path)
    return fields[""]


def _number(bits: int) -> Callable[[str, str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str, path: str) -> int:
        if _NUMBER.fullmatch(text) is None or not -limit <= (number := int(text)) < limit:
            raise errors.invalid(text, path, "Must be an integer.")
        return number

    return parse


def _boolean(text: str, path: str) -> bool:
    if text not in ("true", "false"):
        raise errors.invalid(text, path, "Must be true or false.")
    return text == "true"


def _blob(text: str, path: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as exc:
        raise errors.invalid(text, path, "Must be base64.") from exc


_SCALARS: dict[str, Callable[[str, str], Any]] = {
    "string": lambda text, _: text,
    "integer": _number(32),
    "long": _number(64),
    "boolean": _boolean,
    "blob": _blob,
}
_READERS = {name: reader(action.input) for name, action in shapes.ACTIONS.items()}


def _json_result(action: str, content: Result, request_id: str) -> bytes:
    """Return the document with an action's result in JSON."""
    shape = shapes.ACTIONS[action].output
    members = {} if shape is None else {f"{action}Result": _plain(shape, content)}
    metadata = {"ResponseMetadata": {"RequestId": request_id}}
    return _serialise({f"{action}Response": members | metadata})


def _json_error(failure: errors.SqsError, request_id: str) -> bytes:
    """Return the document with an error in JSON."""
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

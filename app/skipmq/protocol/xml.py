"""The XML documents of the Query protocol: results and errors."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

from skipmq.protocol import errors, limits, shapes
from skipmq.protocol.call import Result

Writer: TypeAlias = Callable[[Any], str]

_HEAD = '<?xml version="1.0"?>'
_NAMESPACE = 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"'


def result(action: str, content: Result, request_id: str) -> bytes:
    """Return the document with an action's result."""
    writer = _WRITERS[action]
    written = "" if writer is None or content is None else writer(content)
    return (
        f"{_HEAD}<{action}Response {_NAMESPACE}>{written}<ResponseMetadata>"
        f"<RequestId>{escape(request_id)}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def error(failure: errors.SqsError, request_id: str) -> bytes:
    """Return the document with an error."""
    if isinstance(failure, errors.UnknownOperationException):
        return b"<UnknownOperationException/>"
    return (
        f"{_HEAD}<ErrorResponse {_NAMESPACE}><Error><Type>{failure.fault}</Type>"
        f"<Code>{escape(failure.code)}</Code><Message>{escape(message(failure))}</Message><Detail/></Error>"
        f"<RequestId>{escape(request_id)}</RequestId></ErrorResponse>"
    ).encode()


def message(failure: errors.SqsError) -> str:
    """Return an error's text in the Query protocol."""
    text = failure.message
    if isinstance(failure, errors.QueueDoesNotExist) and text.endswith(" does not exist."):
        return f"{text[:-1]} for this wsdl version."
    return text


def escape(text: str) -> str:
    """Return text as XML content, with characters that XML 1.0 excludes replaced."""
    escaped = (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("\r", "&#xD;")
    )
    return limits.FORBIDDEN_CHARACTER.sub("\ufffd", escaped)


def _writer(shape: shapes.Shape, tag: str) -> Writer:
    match shape:
        case shapes.Scalar(kind):
            text = _SCALARS[kind]
            return lambda value: f"<{tag}>{text(value)}</{tag}>"
        case shapes.List(element):
            each = _writer(element, tag)
            return lambda values: "".join(each(value) for value in values)
        case shapes.Map():
            key, value = (
                _writer(shapes.Scalar("string"), shape.key_location),
                _writer(shape.value, shape.value_location),
            )
            return lambda entries: "".join(
                f"<{tag}>{key(name)}{value(content)}</{tag}>" for name, content in entries.items()
            )
        case shapes.Structure():
            return _structure_writer(shape, tag)


def _structure_writer(shape: shapes.Structure, tag: str) -> Writer:
    writers = [
        (name, _writer(member, shapes.location(name, member)))
        for name, member in shape.members.items()
    ]

    def write(value: Any) -> str:
        inner = "".join(
            writer(content)
            for name, writer in writers
            if (content := getattr(value, name)) is not None
        )
        return f"<{tag}>{inner}</{tag}>" if inner else f"<{tag}/>"

    return write


_SCALARS: dict[str, Writer] = {
    "string": escape,
    "integer": str,
    "long": str,
    "boolean": lambda value: "true" if value else "false",
    "blob": lambda value: b64encode(value).decode(),
}
_WRITERS = {
    name: None if action.output is None else _structure_writer(action.output, f"{name}Result")
    for name, action in shapes.ACTIONS.items()
}

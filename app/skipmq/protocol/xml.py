"""The XML documents of the Query protocol: results and errors."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from skipmq.protocol import errors, limits, shapes
from skipmq.protocol.call import Result

Writer: TypeAlias = Callable[[Any], str]

_HEAD = '<?xml version="1.0"?>'
_NAMESPACE = 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"'


def result(action: str, content: Result, request_id: str) -> bytes:
    """Return the document with an action's result."""
    return document(action, _WRITERS[action], content, request_id, _NAMESPACE)


def document(
    action: str, write: Writer | None, content: Result, request_id: str, namespace: str
) -> bytes:
    """Return the document with an action's result, which `write` writes."""
    written = "" if write is None or content is None else write(content)
    return (
        f"{_HEAD}<{action}Response {namespace}>{written}<ResponseMetadata>"
        f"<RequestId>{escape(request_id)}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def error(failure: errors.SqsError, request_id: str) -> bytes:
    """Return the document with an error."""
    if isinstance(failure, errors.UnknownOperationException):
        return b"<UnknownOperationException/>"
    content = f"<Message>{escape(message(failure))}</Message><Detail/>"
    return error_document(failure.fault, failure.code, content, request_id, _NAMESPACE)


def error_document(fault: str, code: str, content: str, request_id: str, namespace: str) -> bytes:
    """Return the document with an error, of which `content` is what follows the code."""
    return (
        f"{_HEAD}<ErrorResponse {namespace}><Error><Type>{fault}</Type>"
        f"<Code>{escape(code)}</Code>{content}</Error>"
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


def writer(shape: shapes.Shape, tag: str) -> Writer:
    """Return the function that writes a value of a shape as an element."""
    if isinstance(shape, shapes.List | shapes.Map) and shape.inner:
        parts = writer(replace(shape, inner=""), shape.inner)
        return lambda value: f"<{tag}>{parts(value)}</{tag}>" if value else f"<{tag}/>"
    match shape:
        case shapes.Scalar(kind):
            text = _SCALARS[kind]
            return lambda value: f"<{tag}>{text(value)}</{tag}>"
        case shapes.List(element):
            each = writer(element, tag)
            return lambda values: "".join(each(value) for value in values)
        case shapes.Map():
            key = writer(shapes.Scalar("string"), shape.key_location)
            value = writer(shape.value, shape.value_location)
            return lambda entries: "".join(
                f"<{tag}>{key(name)}{value(content)}</{tag}>" for name, content in entries.items()
            )
        case shapes.Structure():
            return _structure_writer(shape, tag)


def _structure_writer(shape: shapes.Structure, tag: str) -> Writer:
    writers = [
        (name, writer(member, shapes.location(name, member)))
        for name, member in shape.members.items()
    ]

    def write(value: Any) -> str:
        inner = "".join(
            write_member(content)
            for name, write_member in writers
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

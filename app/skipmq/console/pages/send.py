"""The page that sends a message."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.masking import HIDDEN
from skipmq.console.pages import heading, messages
from skipmq.console.visit import current, text, whole_number
from skipmq.protocol import errors

# Attribute rows of the form: the maximum number of attributes of a message.
ROWS = 10
TYPES = ("String", "Number", "Binary")


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/queues/<name>/send", "send", _send, methods=["GET", "POST"])


def _send(name: str) -> ResponseReturnValue:
    if flask.request.method != "POST":
        like = flask.request.args.get("like")
        message = messages.find(name, like) if like else None
        return _page(name, given=_fields(message) if message else {}, like=message)
    try:
        sent = current().act(
            "SendMessage",
            QueueUrl=name,
            MessageBody=text("body") or "",
            DelaySeconds=whole_number("DelaySeconds"),
            MessageGroupId=text("MessageGroupId"),
            MessageDeduplicationId=text("MessageDeduplicationId"),
            MessageAttributes=_attributes() or None,
        )
    except errors.SqsError as error:
        return _page(name, error)
    site.notice(f"Sent as {sent['MessageId']}.")
    return site.see("send" if flask.request.form.get("again") else "messages", name=name)


def _fields(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of the form for a message like another one."""
    fields = {"body": message["Body"]}
    if "MessageGroupId" in message["Attributes"]:
        fields["MessageGroupId"] = message["Attributes"]["MessageGroupId"]
    attributes = dict(message.get("MessageAttributes", {}))
    attributes.pop(messages.FAILURE, None)
    for row, (key, value) in enumerate(sorted(attributes.items())):
        fields |= {
            f"key-{row}": key,
            f"type-{row}": value["DataType"],
            f"value-{row}": value.get("StringValue", value.get("BinaryValue", "")),
        }
    return fields


def _page(
    name: str,
    error: errors.SqsError | None = None,
    given: Mapping[str, str] | None = None,
    like: Mapping[str, Any] | None = None,
) -> ResponseReturnValue:
    given = flask.request.form if given is None else given
    own = {given[field] for field in given if field.startswith("type-")}
    page = flask.render_template(
        "send.html",
        **heading.build(name, "send"),
        rows=range(ROWS),
        types=[*TYPES, *sorted(own - {*TYPES})],
        like=like,
        is_masked=like is not None and HIDDEN in str((like["Body"], like.get("MessageAttributes"))),
        error=error,
        given=given,
    )
    return page, 200 if error is None else error.status


def _attributes() -> dict[str, Any]:
    """Return the message attributes of the form; rows without a name and a value are ignored."""
    form = flask.request.form
    attributes: dict[str, Any] = {}
    for row in range(ROWS):
        key, value = form.get(f"key-{row}", "").strip(), form.get(f"value-{row}", "")
        if not key and not value:
            continue
        kind = form.get(f"type-{row}", TYPES[0])
        if key in attributes:
            raise errors.InvalidParameterValueException(f"The attribute {key} is a duplicate.")
        attributes[key] = {"DataType": kind} | (
            {"BinaryValue": _bytes(key, value)}
            if kind.startswith("Binary")
            else {"StringValue": value}
        )
    return attributes


def _bytes(key: str, value: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise errors.InvalidParameterValueException(
            f"The value of the attribute {key} is not base64."
        ) from None

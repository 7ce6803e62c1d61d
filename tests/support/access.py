"""Calls of keys that may do some things and not others."""

from typing import Any

from botocore.exceptions import ClientError

from support.http import eventually


def code(call: Any, **parameters: Any) -> str:
    """Return the error code of a call, or nothing when it is done."""
    try:
        call(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def known(sqs: Any) -> Any:
    """Return a client whose key the node has read."""
    eventually(lambda: code(sqs.list_queues) in ("", "AccessDenied"))
    return sqs

"""Bodies of messages: values of a type as the text that a message has, and back."""

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple, get_origin

import msgspec

from skipmq.client.errors import ClientError
from skipmq.protocol import limits

# The types of bodies, for sentences.
TYPES = "a dataclass, a msgspec.Struct, a pydantic model, dict, str or bytes"
_CONTAINERS = (dict, list, tuple, set, frozenset)


class Codec(NamedTuple):
    """How values of a type become bodies; `decode` raises what its library raises."""

    encode: Callable[[Any], str]
    decode: Callable[[str], Any]


def codec(kind: Any) -> Codec:
    """Return how values of a type become bodies: str as it is, bytes in base64, others as JSON.

    Without a type (None) what is sent decides, and what is received stays text. Raises ClientError
    for a type that has no JSON.
    """
    if kind is None or kind is Any:
        return Codec(_encode, str)
    if kind is str:
        return Codec(str, str)
    if kind is bytes:
        return Codec(_base64, lambda body: base64.b64decode(body, validate=True))
    if hasattr(kind, "model_validate_json"):
        return Codec(_model_json, kind.model_validate_json)
    try:
        is_known = not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
    except TypeError:
        is_known = False
    if not is_known:
        raise ClientError(f"{shown(kind)} cannot be the type of a body: take {TYPES}")
    return Codec(_json, msgspec.json.Decoder(kind).decode)


def check(value: Any, kind: Any, queue: str) -> None:
    """Raise ClientError where a value is plainly not of the type of a queue."""
    wanted = get_origin(kind) if get_origin(kind) in _CONTAINERS else kind
    if isinstance(wanted, type) and not _is(value, wanted):
        raise ClientError(
            f"the queue {queue!r} takes {shown(kind)}, not {shown(type(value))}: send one of that"
            " type, or declare the queue with another"
        )


def check_size(body: str) -> None:
    """Raise ClientError for a body that is longer than any message."""
    if (size := len(body.encode())) > limits.MESSAGE_BYTES:
        raise ClientError(
            f"a body of {size:,} bytes is more than the {limits.MESSAGE_BYTES:,} of a message:"
            " store it elsewhere, and send where it is"
        )


def shown(kind: Any) -> str:
    """Return the name of a type."""
    return kind.__qualname__ if isinstance(kind, type) and not get_origin(kind) else str(kind)


def _is(value: Any, wanted: type) -> bool:
    try:
        return isinstance(value, wanted)
    except TypeError:  # A TypedDict, which no value is an instance of.
        return isinstance(value, dict)


def _encode(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return _base64(value)
    try:
        own = codec(type(value))
    except ClientError:
        raise TypeError("its type has no JSON") from None
    return own.encode(value)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    if "null" in text:
        _check_numbers(msgspec.to_builtins(value, str_keys=True))
    return text


def _model_json(value: Any) -> str:
    """Return the JSON of a pydantic model, which may write NaN otherwise than as null."""
    text = str(value.model_dump_json())
    if "null" in text and type(value).model_config.get("ser_json_inf_nan", "null") == "null":
        _check_numbers(value.model_dump(mode="json"))
    return text


def _check_numbers(plain: Any) -> None:
    """Raise ClientError for a number that JSON does not have, which was written as null."""
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError as error:
        raise ClientError(
            "the body has a number that is NaN or infinite, which JSON cannot have: leave it out,"
            " or send it as a text"
        ) from error

"""The Condition element of a policy statement.

Source: AWS Identity and Access Management User Guide, "IAM JSON policy elements: Condition
operators" and "AWS global condition context keys". A request has at most one value for a key.
"""

import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from skipmq.auth.patterns import Pattern, UnsupportedElementError, is_arn
from skipmq.protocol import addresses

# Returns whether a context meets a condition; raises UnsupportedElementError.
Condition = Callable[[Mapping[str, str]], bool]
# Returns whether a value of the context matches the value in the policy.
_Test = Callable[[str, Mapping[str, str]], bool]

# No request to SkipMQ has the last two.
_KEYS = {
    "aws:currenttime", "aws:epochtime", "aws:principalaccount", "aws:principalarn",
    "aws:securetransport", "aws:sourceip", "aws:useragent", "aws:username",
    "aws:sourceaccount", "aws:sourcearn",
}  # fmt: skip
_OPERATOR = re.compile("(ForAnyValue:)?([A-Za-z]+?)(IfExists)?")
_SECONDS = re.compile("[0-9]{1,12}")


def conditions(element: Any, *, of_queue: bool, variables: bool) -> tuple[Condition, ...]:
    """Return the conditions of a statement, all of which must be met; raise ValueError.

    Like AWS, accept malformed ARNs in the policy of a queue; they match nothing.
    """
    if not isinstance(element, dict):
        raise ValueError("Condition must be an object")  # noqa: TRY004 - invalid input.
    result = []
    for name, keys in element.items():
        if not isinstance(keys, dict) or not keys:
            raise ValueError(f"Condition: {name} must be an object with condition keys")
        for key, values in keys.items():
            listed = values if isinstance(values, list) else [values]
            if not listed or not all(isinstance(each, str | int | float) for each in listed):
                raise ValueError(f"Condition: {name}: {key} must be a string or a list of strings")
            texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in listed]
            try:
                result.append(_condition(name, key.lower(), texts, of_queue, variables))
            except (ValueError, InvalidOperation) as error:
                raise ValueError(f"Condition: {name}: {key}: {', '.join(texts)}") from error
    return tuple(result)


def _condition(name: str, key: str, texts: list[str], of_queue: bool, variables: bool) -> Condition:
    match = _OPERATOR.fullmatch(name)
    for_any, kind, if_exists = match.groups() if match else (None, "", None)
    make = _TESTS.get(_NEGATED.get(kind, kind))
    if key not in _KEYS or (make is None and name != "Null"):
        return _unsupported
    if make is None:
        tests = [_bool(text, variables) for text in texts]
        return lambda context: any(test(str(key not in context), context) for test in tests)
    if of_queue and kind.startswith("Arn"):
        malformed = [text for text in texts if text != "*" and not is_arn(text)]
        if variables and any("${" in text for text in malformed):
            return _unsupported  # It may be an ARN in a request.
        texts = [text for text in texts if text not in malformed]
    tests = [make(text, variables) for text in texts]
    is_negated = kind in _NEGATED
    when_absent = bool(if_exists or (is_negated and not for_any))

    def is_met(context: Mapping[str, str]) -> bool:
        value = context.get(key)
        if value is None:
            return when_absent
        return any(test(value, context) for test in tests) != is_negated

    return is_met


def _unsupported(_: Mapping[str, str]) -> bool:
    raise UnsupportedElementError


def _text(
    text: str, variables: bool, *, literal: bool = False, fold: bool = False, arn: bool = False
) -> _Test:
    if arn and text != "*" and not is_arn(text):
        raise ValueError
    return Pattern(text, variables=variables, literal=literal, fold=fold).matches


def _bool(text: str, _: bool) -> _Test:
    expected = text.lower()
    if expected not in ("true", "false"):
        raise ValueError
    return lambda value, _: value.lower() == expected


def _address(text: str, _: bool) -> _Test:
    network = addresses.network(text, strict=False)
    return _false_if_malformed(lambda value: addresses.address(value) in network)


def _compared(
    convert: Callable[[str], Any], comparison: Callable[[Any, Any], bool], text: str, _: bool
) -> _Test:
    expected = convert(text)
    return _false_if_malformed(lambda value: comparison(convert(value), expected))


def _false_if_malformed(test: Callable[[str], bool]) -> _Test:
    def passes(value: str, _: Mapping[str, str]) -> bool:
        try:
            return test(value)
        except (ValueError, InvalidOperation):
            return False

    return passes


def _time(text: str) -> datetime:
    """Parse ISO 8601 (UTC without an offset) or seconds since 1970."""
    if _SECONDS.fullmatch(text):
        return datetime.fromtimestamp(int(text), UTC)
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_TESTS: dict[str, Callable[[str, bool], _Test]] = {
    "StringEquals": partial(_text, literal=True),
    "StringEqualsIgnoreCase": partial(_text, literal=True, fold=True),
    "StringLike": _text,
    "ArnEquals": partial(_text, arn=True),
    "ArnLike": partial(_text, arn=True),
    "Bool": _bool,
    "IpAddress": _address,
    **{
        f"{kind}{name}": partial(_compared, convert, comparison)
        for kind, convert in (("Numeric", Decimal), ("Date", _time))
        for name, comparison in (
            ("Equals", operator.eq),
            ("LessThan", operator.lt),
            ("LessThanEquals", operator.le),
            ("GreaterThan", operator.gt),
            ("GreaterThanEquals", operator.ge),
        )
    },
}
# The negated operators and the operators that they negate.
_NEGATED = {
    "NotIpAddress": "IpAddress",
    **{
        name.replace(word, f"Not{word}", 1): name
        for name in _TESTS
        for word in ("Equals", "Like")
        if word in name and "Than" not in name
    },
}

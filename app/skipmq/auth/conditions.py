"""The Condition element of a policy statement, and patterns with wildcards and variables.

Source: AWS Identity and Access Management User Guide, "IAM JSON policy elements: Condition
operators", "AWS global condition context keys", "IAM JSON policy elements: Resource" and "IAM
policy elements: Variables and tags". A request has at most one value for a key.
"""

import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any

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
_PIECES = re.compile(r"\$\{([^{}]*)\}|([*?])|([^*?$]+|\$)")
_VARIABLE = re.compile(r"([A-Za-z]+:[A-Za-z]+)(?:, *'([^']*)')?")
# An ARN has six parts.
_COLONS = 5


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


class UnsupportedElementError(Exception):
    """A statement uses an unsupported condition operator, condition key or variable."""


class Pattern:
    """A pattern in which `*` matches any characters, `?` one character and `${key}` a variable.

    A literal pattern has no wildcards. The parts of an ARN match separately: no wildcard matches
    across a colon.
    """

    __slots__ = ("_fold", "_is_arn", "_literal", "_static", "_text")

    def __init__(
        self, text: str, *, variables: bool, literal: bool = False, fold: bool = False
    ) -> None:
        self._text, self._literal, self._fold = text, literal, fold
        self._is_arn = is_arn(text) and not literal
        self._static = None if variables and "${" in text else self._compiled(None)

    def matches(self, value: str, context: Mapping[str, str]) -> bool:
        """Return whether a value matches.

        Raises UnsupportedElementError for a variable that the context does not define.
        """
        expressions = self._static or self._compiled(context)
        parts = value.split(":", _COLONS) if self._is_arn else [value]
        return len(parts) == len(expressions) and all(
            each.fullmatch(part) for each, part in zip(expressions, parts, strict=True)
        )

    def _compiled(self, context: Mapping[str, str] | None) -> tuple[re.Pattern[str], ...]:
        """Compile the pattern; substitute variables if there is a context."""
        # For each part of an ARN, the expressions between its `*` wildcards.
        parts = [[""]]
        for variable, wildcard, plain in _PIECES.findall(self._text):
            if wildcard and not self._literal:
                if wildcard == "*":
                    parts[-1].append("")
                else:
                    parts[-1][-1] += "."
            elif not (wildcard or plain) and context is not None:
                parts[-1][-1] += re.escape(_value(variable, context))
            else:
                text = wildcard or plain or f"${{{variable}}}"
                first, *others = (
                    text.split(":", _COLONS + 1 - len(parts)) if self._is_arn else [text]
                )
                parts[-1][-1] += re.escape(first)
                parts += [[re.escape(other)] for other in others]
        return tuple(_regex(tuple(part), self._fold) for part in parts)


def is_arn(text: str) -> bool:
    """Return whether a text has the six parts of an ARN."""
    return text.startswith("arn:") and text.count(":") >= _COLONS


@lru_cache(maxsize=256)
def _regex(between: tuple[str, ...], fold: bool) -> re.Pattern[str]:
    """Compile expressions separated by any characters.

    Atomic groups take the first match of each and never backtrack, so matching takes linear time.
    """
    first, *others = between
    inner = "".join(f"(?>.*?{each})" for each in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{inner}{last}", re.DOTALL | (re.IGNORECASE if fold else 0))


def _value(variable: str, context: Mapping[str, str]) -> str:
    """Return the value of a variable: an escaped wildcard, the context's value or the default."""
    if variable in ("*", "?", "$"):
        return variable
    match = _VARIABLE.fullmatch(variable)
    value = context.get(match[1].lower(), match[2]) if match else None
    if value is None:
        raise UnsupportedElementError(variable)
    return value

"""Filter policies, compiled to a jsonpath of PostgreSQL that a document of the message matches.

The lax mode of jsonpath searches arrays by element, as filter policies do. Networks are variables
of the path, which SQL sets for each message.
Source: Amazon SNS Developer Guide, "Amazon SNS subscription filter policies"; the error texts were
recorded from SNS, without the place in the text that SNS adds to most.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from ipaddress import ip_network
from itertools import product
from math import prod
from typing import Any, NamedTuple, NoReturn

BODY = "MessageBody"
_MAXIMUM_KEYS, _MAXIMUM_COMBINATIONS, _MAXIMUM_BYTES = 5, 150, 262_144
_MAXIMUM_WILDCARDS = 3
# A key with more parts is looked for nested, and with the dots in it, but not in every mix.
_MIXED_PARTS = 5
_MAXIMUM_EXPONENT = 1_000
_COMPARISONS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_LOWER, _UPPER = (">", ">="), ("<", "<=")
_ESCAPED_STAR = re.compile(r"(\\\*|\*)")
_NESTED = "Filter policy scope MessageAttributes does not support nested filter policy"


class FilterPolicyError(ValueError):
    """A filter policy that SNS refuses; `is_whole`: the text names no attribute."""

    def __init__(self, text: str, *, is_whole: bool = False) -> None:
        super().__init__(text)
        self.is_whole = is_whole


class Compiled(NamedTuple):
    """A filter policy: the jsonpath, and by the names of its variables the paths and networks."""

    filter: str
    networks: dict[str, dict[str, Any]] | None


def compile_policy(text: str, scope: str) -> Compiled | None:
    """Compile a filter policy; return None for one that matches all messages.

    Raises FilterPolicyError.
    """
    if len(text.encode()) > _MAXIMUM_BYTES:
        raise FilterPolicyError(f"Filter policy is larger than {_MAXIMUM_BYTES} bytes")
    policy = parsed(text)
    if len(policy) > _MAXIMUM_KEYS:
        raise FilterPolicyError("Filter policy can not have more than 5 keys")
    is_body = scope == BODY
    if _combinations(policy, is_body, 1) > _MAXIMUM_COMBINATIONS:
        raise FilterPolicyError("Filter policy is too complex")
    compiler = _Compiler(is_body)
    found = compiler.all_of(policy, ())
    return Compiled(found, compiler.networks or None) if policy else None


def _refuse(text: str) -> NoReturn:
    raise FilterPolicyError(f"failed to parse JSON. {text}")


def parsed(text: str) -> dict[str, Any]:
    """Return a JSON object; raise FilterPolicyError."""
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        if not (character := text[error.pos : error.pos + 1]):
            raise FilterPolicyError("failed to parse JSON. Unexpected end-of-input") from error
        expected = "was expecting double-quote to start field name"
        if "property name" not in error.msg:
            expected = "expected a valid value"
        shown = f"Unexpected character ('{character}' (code {ord(character)})): {expected}"
        raise FilterPolicyError(f"failed to parse JSON. {shown}") from error
    except (RecursionError, ValueError) as error:
        raise FilterPolicyError("failed to parse JSON. The policy is nested too deeply") from error
    if not isinstance(found, dict):
        raise FilterPolicyError("Filter policy must be an object")
    return found


def _is_or(key: str, value: Any) -> bool:
    return key == "$or" and isinstance(value, list) and all(isinstance(e, dict) for e in value)


def _combinations(policy: Mapping[str, Any], is_body: bool, depth: int) -> int:
    """Return the product of the lengths of lists, each times its depth; raise FilterPolicyError."""
    found = []
    for key, value in policy.items():
        if isinstance(value, dict):
            if not is_body:
                raise FilterPolicyError(_NESTED, is_whole=True)
            if not value:
                raise FilterPolicyError("Empty objects are not allowed")
            found.append(_combinations(value, is_body, depth + 1))
        elif not isinstance(value, list):
            raise FilterPolicyError(f'"{key}" must be an object or an array')
        elif not value:
            raise FilterPolicyError("Empty arrays are not allowed")
        elif _is_or(key, value):
            found.append(sum(_combinations(each, is_body, depth) for each in value))
        else:
            found.append(len(value) * depth)
    return prod(found)


class _Compiler:
    """Compiles the parts of one policy; `networks` are those that it has met."""

    def __init__(self, is_body: bool) -> None:
        self._is_body = is_body
        self.networks: dict[str, dict[str, Any]] = {}

    def all_of(self, policy: Mapping[str, Any], outer: tuple[str, ...]) -> str:
        """Return the condition of an object below these keys."""
        parts = []
        for key, value in policy.items():
            if isinstance(value, dict):
                parts.append(self.all_of(value, (*outer, key)))
            elif _is_or(key, value):
                parts.append(" || ".join(self.all_of(each, outer) for each in value))
            else:
                parts.append(self._any_of(value, [*self._paths((*outer, key))]))
        return " && ".join(f"({each})" for each in parts) or "(1 == 1)"

    def _paths(self, keys: Sequence[str]) -> Iterator[str]:
        """Yield where a value may be: dots of keys may also be nesting, and nesting dots."""
        if not self._is_body:
            yield f"$.{_quoted(keys[0])}[*][*]"
            return
        first, *others = ".".join(keys).split(".")
        for separators in product("\0.", repeat=len(others)):
            if len(others) >= _MIXED_PARTS and len({*separators}) > 1:
                continue
            joined = "".join(
                [first, *(s + each for s, each in zip(separators, others, strict=True))]
            )
            yield "$" + "".join(f".{_quoted(each)}[*][*]" for each in joined.split("\0"))

    def _any_of(self, rules: Sequence[Any], paths: Sequence[str]) -> str:
        """Return the condition of a list of rules."""
        whole, values = [], []
        for rule in rules:
            operator, operand = _operator(rule)
            if operator == "exists":
                if not isinstance(operand, bool):
                    raise FilterPolicyError("exists match pattern must be either true or false.")
                exists = _exists(paths, '@.type() != "object"')
                whole.append(exists if operand else f"!({exists})")
            elif operator == "cidr":
                name = f"c{len(self.networks)}"
                self.networks[name] = {"paths": [*paths], "network": _network(operand)}
                whole.append(f"${name} == true")
            else:
                values.append(_VALUE_TESTS[operator](operand))
        if values:
            whole.append(_exists(paths, " || ".join(values)))
        return " || ".join(whole)


def _exists(paths: Sequence[str], test: str) -> str:
    return " || ".join(f"exists({path} ? ({test}))" for path in paths)


def _operator(rule: Any) -> tuple[str, Any]:
    """Return the operator of a rule, which is = for a plain value, and its operand."""
    if isinstance(rule, list):
        raise FilterPolicyError("Match value must be String, number, true, false, or null")
    if not isinstance(rule, dict):
        return "=", rule
    if len(rule) != 1:
        raise FilterPolicyError("Only one key allowed in match expression")
    ((operator, operand),) = rule.items()
    if operator not in _VALUE_TESTS and operator not in ("exists", "cidr"):
        raise FilterPolicyError(f"Unrecognized match type {operator}")
    return operator, operand


def _quoted(text: str) -> str:
    """Return a text as a literal of jsonpath, without NUL and surrogates, which no text has."""
    return json.dumps(
        "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
    )


def _literal(value: Any) -> tuple[str, str]:
    """Return the type of a value, and the value, as jsonpath has them."""
    match value:
        case None:
            return "null", "null"
        case bool():
            return "boolean", str(value).lower()
        case str():
            return "string", _quoted(value)
        case int() | Decimal():
            return "number", _number(value)
    raise FilterPolicyError("Match value must be String, number, true, false, or null")


def _number(value: int | Decimal) -> str:
    if abs(Decimal(value).adjusted()) > _MAXIMUM_EXPONENT:
        raise FilterPolicyError("Match value must be a number between -10^9 and 10^9")
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _text_of(operator: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FilterPolicyError(f"{operator} match pattern must be a string")
    return value


def _equals(value: Any) -> str:
    return f"@ == {_literal(value)[1]}"


def _matches(pattern: str, flags: str = "s") -> str:
    return f'@ like_regex {_quoted(pattern)} flag "{flags}"'


def _prefix(value: Any) -> str:
    return f"@ starts with {_quoted(_text_of('prefix', value))}"


def _suffix(value: Any) -> str:
    return _matches(f"{re.escape(_text_of('suffix', value))}$")


def _ignoring_case(value: Any) -> str:
    return _matches(f"^{re.escape(_text_of('equals-ignore-case', value))}$", "is")


def _wildcard(value: Any) -> str:
    parts = _ESCAPED_STAR.split(_text_of("wildcard", value))
    if parts.count("*") > _MAXIMUM_WILDCARDS:
        raise FilterPolicyError("wildcard match pattern can not have more than 3 wildcards")
    inner = "".join(".*" if each == "*" else re.escape(each.replace("\\*", "*")) for each in parts)
    return _matches(f"^{inner}$")


def _anything_but(value: Any) -> str:
    if isinstance(value, dict):
        if [*value] != ["prefix"]:
            names = ", ".join(each for each in value if each != "prefix")
            raise FilterPolicyError(f"Unsupported anything-but pattern: {names}")
        refused = [("string", _prefix(value["prefix"]))]
    elif value == []:
        raise FilterPolicyError("Empty arrays are not allowed")
    else:
        values = value if isinstance(value, list) else [value]
        refused = [(kind, f"@ == {text}") for kind, text in map(_literal, values)]
    tests = [f'!(@.type() == "{kind}" && {test})' for kind, test in refused]
    joined = " && ".join(['@.type() != "object"', *tests])
    return f"({joined})"


def _numeric(value: Any) -> str:
    if not isinstance(value, list):
        raise FilterPolicyError("Value of numeric must be an array.")
    if not value or not isinstance(value[0], str):
        raise FilterPolicyError(f"Invalid member in numeric match: {value[0] if value else ']'}")
    operator, bound, *others = [*value, None][: max(len(value), 2)]
    if operator not in _COMPARISONS:
        raise FilterPolicyError(f"Unrecognized numeric range operator: {operator}")
    first = _compared(operator, bound)
    if not others:
        return first
    if operator not in _LOWER:
        raise FilterPolicyError("Too many elements in numeric expression")
    return f"({first} && {_upper(bound, others)})"


def _upper(bound: Any, others: Sequence[Any]) -> str:
    operator, top = [*others, None][:2]
    if not isinstance(operator, str):
        raise FilterPolicyError(f"Bad value in numeric range: {operator}")
    if operator not in _UPPER:
        raise FilterPolicyError(f"Bad numeric range operator: {operator}")
    test = _compared(operator, top)
    if top <= bound:
        raise FilterPolicyError("Bottom must be less than top")
    if len(others) > 2:  # noqa: PLR2004 - operator and bound.
        raise FilterPolicyError("Too many terms in numeric range expression")
    return test


def _compared(operator: str, bound: Any) -> str:
    if not _is_number(bound):
        shown = "equals" if operator == "=" else operator
        raise FilterPolicyError(f"Value of {shown} must be numeric")
    return f"@ {_COMPARISONS[operator]} {_number(bound)}"


def _network(value: Any) -> str:
    if not isinstance(value, str):
        raise FilterPolicyError("prefix match pattern must be a string")
    address, _, bits = value.partition("/")
    if value.count("/") != 1:
        raise FilterPolicyError("Malformed CIDR, one '/' required")
    if not (bits.isascii() and bits.isdecimal()):
        raise FilterPolicyError("Malformed CIDR, mask bits must be an integer")
    try:
        return str(ip_network(value, strict=False))
    except ValueError as error:
        raise FilterPolicyError(f"Nonstandard IP address: {address}") from error


_VALUE_TESTS = {
    "=": _equals,
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _ignoring_case,
    "wildcard": _wildcard,
    "anything-but": _anything_but,
    "numeric": _numeric,
}

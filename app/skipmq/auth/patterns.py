"""Policy patterns with wildcards and variables.

Source: AWS Identity and Access Management User Guide, "IAM JSON policy elements: Resource" and "IAM
policy elements: Variables and tags".
"""

import re
from collections.abc import Mapping
from functools import lru_cache

_PIECES = re.compile(r"\$\{([^{}]*)\}|([*?])|([^*?$]+|\$)")
_VARIABLE = re.compile(r"([A-Za-z]+:[A-Za-z]+)(?:, *'([^']*)')?")
# An ARN has six parts.
_COLONS = 5


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

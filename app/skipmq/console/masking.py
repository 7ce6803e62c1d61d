"""Values of messages that nobody shall see: replaced before a page is rendered."""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

HIDDEN = "***"
_DEEPEST = 4
# A string that is cut off at the end of a text counts as one.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)|[{}\[\],:]|\s+|[^\s{}\[\],:"]+', re.DOTALL)
Path: TypeAlias = tuple[str, ...]


class Mask:
    """The fields that are masked: by their names, or by paths whose last names those are.

    `number` is a member of this name wherever it stands, `card.number` one of a member `card`; the
    items of a list have the path of the list. Case does not matter.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._paths = [tuple(field.casefold().split(".")) for field in fields]

    def __bool__(self) -> bool:
        """Tell whether there is anything to mask."""
        return bool(self._paths)

    def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as PeekMessages gives it, masked.

        What is computed from a body that was masked goes too: digests tell short secrets.
        """
        shown = dict(message)
        if not self._paths:
            return shown
        body = message.get("Body", "")
        shown["Body"] = self.text(body)
        system = dict(message.get("Attributes", {}))
        if shown["Body"] != body:
            shown["MD5OfBody"] = HIDDEN
            if system.get("MessageDeduplicationId") == sha256(body.encode()).hexdigest():
                system["MessageDeduplicationId"] = HIDDEN
        shown["Attributes"] = {
            name: HIDDEN if self.hides((name,)) else value for name, value in system.items()
        }
        if "MessageAttributes" in message:
            shown["MessageAttributes"] = {
                name: self._attribute(name, value)
                for name, value in message["MessageAttributes"].items()
            }
        return shown

    def text(self, text: str, depth: int = 0) -> str:
        """Return a text with its fields masked where it is JSON, or the beginning of JSON.

        Numbers keep their digits, and members their order; JSON within a string is masked too.
        """
        if not self._paths or not text.lstrip().startswith(("{", "[", '"')):
            return text
        return _Walk(self, depth).over(text)

    def _attribute(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        kinds = [kind for kind in ("StringValue", "BinaryValue") if kind in value]
        if self.hides((name,)):
            return {**value, **dict.fromkeys(kinds, HIDDEN)}
        text = value.get("StringValue")
        return dict(value) if text is None else {**value, "StringValue": self.text(text)}

    def hides(self, path: Path) -> bool:
        """Tell whether the member at a path is masked."""
        names = tuple(".".join(path).casefold().split("."))
        return any(names[-len(each) :] == each for each in self._paths)


class _Walk:
    """One way through the tokens of a text, which need not be whole nor valid."""

    def __init__(self, mask: Mask, depth: int) -> None:
        self._mask, self._depth = mask, depth
        self._parts: list[str] = []
        # For each object or list that is open: its path, and whether it is an object.
        self._open: list[tuple[Path, bool]] = []
        self._key: str | None = None
        # A member that is masked: how many objects and lists were open before it.
        self._hidden: int | None = None

    def over(self, text: str) -> str:
        """Return the text, masked."""
        for part in _TOKEN.findall(text):
            self._take(part)
        return "".join(self._parts)

    def _take(self, part: str) -> None:
        if part in "{[":
            self._open.append((self._path(), part == "{"))
            self._key = None
        elif part in "}]" and self._open:
            self._open.pop()
            self._key = None
        if self._hidden is not None:
            is_last = part in "}]" and len(self._open) < self._hidden
            if is_last or (part == "," and len(self._open) == self._hidden):
                self._hidden = self._key = None
                self._parts.append(part)
            return
        if part[0] == '"':
            self._string(part)
            return
        self._parts.append(part)
        if part == ",":
            self._key = None
        elif part == ":" and self._key is not None and self._mask.hides(self._path()):
            self._parts.append(f' "{HIDDEN}"')
            self._hidden = len(self._open)

    def _string(self, part: str) -> None:
        is_key = bool(self._open) and self._open[-1][1] and self._key is None
        try:
            value: str | None = json.loads(part, strict=False)
        except ValueError:
            value = None
        if is_key:
            self._key = part.strip('"') if value is None else value
            self._parts.append(part)
            return
        self._parts.append(self._within(part, value))

    def _within(self, part: str, value: str | None) -> str:
        """Return a string, masked if it holds JSON itself."""
        if value is None:
            # Cut off or invalid: what cannot be read is not shown where it may be JSON.
            return f'"{HIDDEN}"' if part[1:].lstrip().startswith(("{", "[")) else part
        if not value.lstrip().startswith(("{", "[")):
            return part
        if self._depth >= _DEEPEST:
            return f'"{HIDDEN}"'
        inner = self._mask.text(value, self._depth + 1)
        return part if inner == value else json.dumps(inner, ensure_ascii=False)

    def _path(self) -> Path:
        above = self._open[-1][0] if self._open else ()
        return above if self._key is None else (*above, self._key)

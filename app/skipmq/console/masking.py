"""Values of messages that nobody shall see: replaced before a page is rendered."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

HIDDEN = "***"
_DEEPEST = 4
# A string that is cut off at the end of a text counts as one.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+["\\]?|[{}\[\],:]|\s+|[^\s{}\[\],:"]+', re.DOTALL)
# Only objects have members, and within a string of JSON their brace may be escaped.
_MAY_HOLD_JSON = re.compile(r"\{|\\u")
# What JSON may be written in, besides UTF-8, by its first bytes or by its zeros.
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
Path: TypeAlias = tuple[str, ...]


class Mask:
    """The fields that are masked: by their names, or by paths whose last names those are.

    `number` is a member of this name wherever it stands, `card.number` one of a member `card`; the
    items of a list have the path of the list. Case does not matter.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._paths = [tuple(field.casefold().split(".")) for field in fields]
        self._longest = max(map(len, self._paths), default=0)

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
            name: HIDDEN if self.hides(self.below((), name)) else value
            for name, value in system.items()
        }
        if "MessageAttributes" in message:
            shown["MessageAttributes"] = {
                name: self._attribute(name, value)
                for name, value in message["MessageAttributes"].items()
            }
        return shown

    def text(self, text: str, depth: int = 0) -> str:
        """Return a text with its fields masked where it holds JSON, or the beginning of JSON.

        Whatever stands before or between the JSON stays, such as a byte order mark; numbers keep
        their digits, and members their order; JSON within a string is masked too.
        """
        if not self._paths or not _MAY_HOLD_JSON.search(text):
            return text
        return _Walk(self, depth).over(text)

    def _attribute(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        kinds = [kind for kind in ("StringValue", "BinaryValue") if kind in value]
        if self.hides(self.below((), name)):
            return {**value, **dict.fromkeys(kinds, HIDDEN)}
        text = value.get("StringValue")
        if text is not None:
            return {**value, "StringValue": self.text(text)}
        if self._hides_in(value.get("BinaryValue", "")):
            return {**value, "BinaryValue": HIDDEN}
        return dict(value)

    def _hides_in(self, base64: str) -> bool:
        """Tell whether something is masked in bytes, as JSON in any of its encodings."""
        content = b64decode(base64)
        for encoding in _ENCODINGS if self._paths else ():
            text = content.decode(encoding, "ignore")
            if self.text(text) != text:
                return True
        return False

    def below(self, path: Path, name: str) -> Path:
        """Return the last names of the path of a member: as many as the longest field has."""
        return (*path, *name.casefold().split("."))[-self._longest :]

    def hides(self, path: Path) -> bool:
        """Tell whether the member is masked whose path ends in these names, as `below` has them."""
        return any(path[-len(each) :] == each for each in self._paths)


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
        for found in _TOKEN.finditer(text):
            self._take(found[0])
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
            # Cut off or invalid: what cannot be read is not shown where it may hold JSON.
            return f'"{HIDDEN}"' if _MAY_HOLD_JSON.search(part) else part
        if not _MAY_HOLD_JSON.search(value):
            return part
        if self._depth >= _DEEPEST:
            return f'"{HIDDEN}"'
        inner = self._mask.text(value, self._depth + 1)
        return part if inner == value else json.dumps(inner, ensure_ascii=False)

    def _path(self) -> Path:
        above = self._open[-1][0] if self._open else ()
        return above if self._key is None else self._mask.below(above, self._key)

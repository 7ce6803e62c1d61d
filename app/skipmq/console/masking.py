"""Masking of confidential fields in messages before a page is rendered."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from skipmq.console.bodies import decoded

HIDDEN = "***"
_MAXIMUM_DEPTH = 4
# A string that is truncated at the end of the text is a token, too.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+["\\]?|[{}\[\],:]|\s+|[^\s{}\[\],:"]+', re.DOTALL)
# Only objects have members; in a JSON string their brace may be escaped.
_MAY_HAVE_JSON = re.compile(r"\{|\\u")
# The encodings of JSON in binary attributes.
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
Path: TypeAlias = tuple[str, ...]


class Mask:
    """A set of fields to mask, given as paths of JSON members.

    `number` matches every member of this name, `card.number` one in a member `card`. The items of a
    list have the path of the list. Case is ignored.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._paths = [tuple(field.casefold().split(".")) for field in fields]
        self._longest = max(map(len, self._paths), default=0)

    def __bool__(self) -> bool:
        """Return whether there are any fields to mask."""
        return bool(self._paths)

    def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Mask a message of PeekMessages.

        Digests of a masked body are masked, too, because they would reveal short values.
        """
        masked = dict(message)
        if not self._paths:
            return masked
        body = message.get("Body", "")
        masked["Body"] = self.text(body)
        inner = decoded(body)
        if inner.encodings and (hidden := self.text(inner.text)) != inner.text:
            # Encoded again it could be read by anyone.
            masked |= {"Body": hidden, "Encodings": inner.encodings}
        system = dict(message.get("Attributes", {}))
        if masked["Body"] != body:
            masked["MD5OfBody"] = HIDDEN
            if system.get("MessageDeduplicationId") == sha256(body.encode()).hexdigest():
                system["MessageDeduplicationId"] = HIDDEN
        masked["Attributes"] = {
            name: HIDDEN if self.hides(self.below((), name)) else value
            for name, value in system.items()
        }
        if "MessageAttributes" in message:
            masked["MessageAttributes"] = {
                name: self._attribute(name, value)
                for name, value in message["MessageAttributes"].items()
            }
        return masked

    def text(self, text: str, depth: int = 0) -> str:
        """Mask the fields of JSON in a text, which may be truncated.

        Other text around the JSON is unchanged; numbers keep their digits and members their order.
        JSON in strings is masked, too.
        """
        if not self._paths or not _MAY_HAVE_JSON.search(text):
            return text
        return _TokenMask(self, depth).masked(text)

    def _attribute(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        kinds = [kind for kind in ("StringValue", "BinaryValue") if kind in value]
        if self.hides(self.below((), name)):
            return {**value, **dict.fromkeys(kinds, HIDDEN)}
        text = value.get("StringValue")
        if text is not None:
            return {**value, "StringValue": self.text(text)}
        if self._matches_binary(value.get("BinaryValue", "")):
            return {**value, "BinaryValue": HIDDEN}
        return dict(value)

    def _matches_binary(self, base64: str) -> bool:
        """Return whether bytes have a field to mask, as JSON in any of its encodings."""
        content = b64decode(base64)
        for encoding in _ENCODINGS if self._paths else ():
            text = content.decode(encoding, "ignore")
            if self.text(text) != text:
                return True
        return False

    def below(self, path: Path, name: str) -> Path:
        """Return the path of a member, limited to its last names that fields can match."""
        return (*path, *name.casefold().split("."))[-self._longest :]

    def hides(self, path: Path) -> bool:
        """Return whether the member at a path of `below` is masked."""
        return any(path[-len(each) :] == each for each in self._paths)


class _TokenMask:
    """Masks the tokens of a text, which may be truncated or invalid JSON."""

    def __init__(self, mask: Mask, depth: int) -> None:
        self._mask, self._depth = mask, depth
        self._parts: list[str] = []
        # The path of each open object or list, and whether it is an object.
        self._open: list[tuple[Path, bool]] = []
        self._key: str | None = None
        # In a masked member: the number of objects and lists that were open before it.
        self._hidden: int | None = None

    def masked(self, text: str) -> str:
        """Return the masked text."""
        for found in _TOKEN.finditer(text):
            self._add(found[0])
        return "".join(self._parts)

    def _add(self, part: str) -> None:
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
        self._parts.append(self._masked_string(part, value))

    def _masked_string(self, part: str, value: str | None) -> str:
        """Mask a string that may contain JSON itself."""
        if value is None:
            # A truncated or invalid string cannot be parsed, so mask it if it may contain JSON.
            return f'"{HIDDEN}"' if _MAY_HAVE_JSON.search(part) else part
        if not _MAY_HAVE_JSON.search(value):
            return part
        if self._depth >= _MAXIMUM_DEPTH:
            return f'"{HIDDEN}"'
        inner = self._mask.text(value, self._depth + 1)
        return part if inner == value else json.dumps(inner, ensure_ascii=False)

    def _path(self) -> Path:
        parent = self._open[-1][0] if self._open else ()
        return parent if self._key is None else self._mask.below(parent, self._key)

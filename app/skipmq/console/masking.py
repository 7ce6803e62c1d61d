"""Masking of confidential fields in messages before a page is rendered."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, TypeAlias

from skipmq.console import bodies
from skipmq.protocol import errors

HIDDEN = "***"
_MAXIMUM_DEPTH = 4
# What the texts of one page may take, in tokens; the bytes that are decoded for one, and the tokens
# for each text that is decoded.
_BUDGET, _BYTES_PER_TOKEN, _CALL_TOKENS = 300_000, 16, 8
# A string that is truncated at the end of the text is a token, too.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+["\\]?|[{}\[\],:]|\s+|[^\s{}\[\],:"]+', re.DOTALL)
# Only objects have members; in a JSON string their brace may be escaped.
_MAY_HAVE_JSON = re.compile(r"\{|\\u")
_ESCAPE = re.compile(r"\\++(u[0-9a-fA-F]{4}|[/nrt])?")
# Names that may be escaped otherwise.
_SPECIAL = re.compile(r'["\\\0-\x1f\U00010000-\U0010ffff]')
# A string that may be base64, also within JSON in a string.
_MAY_BE_ENCODED = re.compile(r'"([A-Za-z0-9+/_\s-]{16,}+={0,2})\s*(?:["\\]|\Z)')
# The encodings of JSON in bytes, and what one with members has in all of them.
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
_BEGINNING = re.compile(rb"[{\\]")
# How bytes begin that are compressed as nothing here reads: bzip2, lz4, xz, zip and Zstandard.
_UNREADABLE = (b"BZh", b"\x04\x22\x4d\x18", b"\xfd7zXZ\0", b"PK\3\4", b"\x28\xb5\x2f\xfd")
# The parts of a JSON path: names of members, the wildcard of members, and literals.
_PATH_PART = re.compile(
    r'\.(?:("(?:[^"\\]++|\\.)*+["\\]?)|(\w++)|(\*))|("(?:[^"\\]++|\\.)*+["\\]?)', re.DOTALL
)
# The message attribute with the reason that a consumer left, of which its kind is the beginning.
_REASON = "FailureReason"
Path: TypeAlias = tuple[str, ...]


class Mask:
    """A set of fields to mask, given as paths of JSON members.

    `number` matches every member of this name, `card.number` one in a member `card`. The items of a
    list have the path of the list. Case is ignored.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._paths = [tuple(field.casefold().split(".")) for field in fields]
        self._longest = max(map(len, self._paths), default=0)
        self._names = {path[-1] for path in self._paths}
        self._has_special = any(map(_SPECIAL.search, self._names))
        self._left = _BUDGET

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
        inner = bodies.decoded(body) if self.spend(0) else bodies.Decoded(body)
        if not (inner.encodings and inner.is_whole):
            masked["Body"] = self.text(body)
        elif not self.spend(len(inner.text) // _BYTES_PER_TOKEN):
            masked["Body"] = HIDDEN
        elif (hidden := self.text(inner.text)) != inner.text:
            # Encoded again it could be read by anyone.
            masked |= {"Body": hidden, "Encodings": inner.encodings}
        system = dict(message.get("Attributes", {}))
        if masked.get("Body", "") != body:
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
        if "Failures" in message:
            masked["Failures"] = [
                each | {_REASON: self.reason(each[_REASON])} for each in message["Failures"]
            ]
        return masked

    def text(self, text: str, depth: int = 0) -> str:
        """Mask the fields of JSON in a text, which may be truncated or encoded.

        Other text around the JSON is unchanged; numbers keep their digits and members their order.
        JSON in strings is masked, too. Text that cannot be read to its end, as what has a quotation
        mark too many or exceeds what a page may take, is hidden if it may have one of the fields.
        """
        if not self._paths:
            return text
        encoded = "".join(text.split())
        content = bodies.bytes_of(encoded) or bodies.bytes_of(encoded[:-1])
        if content is not None and self._reveals(content, depth):
            return HIDDEN
        if not self._may_reveal(text, depth):
            return text
        masked = _TokenMask(self, depth).masked(text) if depth <= _MAXIMUM_DEPTH else None
        return HIDDEN if masked is None else masked

    def reason(self, reason: str) -> str:
        """Mask a reason of a failure, or its kind."""
        return HIDDEN if self.hides(self.below((), _REASON)) else self.text(reason)

    def check_filter(self, given: Mapping[str, Any]) -> None:
        """Raise errors.InvalidParameterValueException for a filter that could read a masked field.

        How many messages match would reveal it, letter by letter.
        """
        if not self._paths:
            return
        name, value = given.get("AttributeName") or "", given.get("AttributeValue")
        kind = given.get("FailureKind") or ""
        refused = {
            "text of their bodies": given.get("BodyContains") is not None,
            "this JSON path": self._may_select(given.get("BodyPath") or ""),
            "the value of this attribute": value is not None
            and (self.hides(self.below((), name)) or self.text(value) != value),
            "this failure": bool(kind) and self.reason(kind) != kind,
        }
        for what, is_refused in refused.items():
            if is_refused:
                raise errors.InvalidParameterValueException(
                    "The console hides fields of messages (SKIPMQ_CONSOLE_MASK), so that messages"
                    f" cannot be searched by {what}: use the JSON path of a field that is shown,"
                    " without wildcards of members."
                )

    def task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Mask the members of a task's filter by which it would not be started here."""
        masked = dict(task)
        for name in ("BodyContains", "BodyPath", "AttributeValue", "FailureKind"):
            if name in task:
                try:
                    self.check_filter(
                        {"AttributeName": task.get("AttributeName"), name: task[name]}
                    )
                except errors.InvalidParameterValueException:
                    masked[name] = HIDDEN
        return masked

    def _attribute(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        kinds = [kind for kind in ("StringValue", "BinaryValue") if kind in value]
        if self.hides(self.below((), name)):
            return {**value, **dict.fromkeys(kinds, HIDDEN)}
        text = value.get("StringValue")
        if text is not None:
            return {**value, "StringValue": self.text(text)}
        if self._reveals(b64decode(value.get("BinaryValue", "")), 0):
            return {**value, "BinaryValue": HIDDEN}
        return dict(value)

    def _reveals(self, content: bytes, depth: int) -> bool:
        """Return whether bytes have a field to mask, in any encoding, or cannot be read."""
        if not self.spend(_CALL_TOKENS + len(content) // _BYTES_PER_TOKEN):
            return True
        if bodies.is_compressed(content):
            found, is_whole = bodies.decompressed(content, self._left * _BYTES_PER_TOKEN)
            if found or is_whole or content.startswith(bodies.GZIP):
                return not is_whole or depth > _MAXIMUM_DEPTH or self._reveals(found, depth + 1)
        # Without what begins an object there is at most more base64.
        encodings = _ENCODINGS if _BEGINNING.search(content) else _ENCODINGS[:1]
        return content.startswith(_UNREADABLE) or any(
            self.text(text, depth + 1) != text
            for text in (content.decode(encoding, "ignore") for encoding in encodings)
        )

    def _may_reveal(self, text: str, depth: int) -> bool:
        """Return whether a text has the name of a field, or a string in base64 that has one."""
        plain = _ESCAPE.sub(_unescaped, text)
        folded = plain.casefold()
        return (
            _MAY_HAVE_JSON.search(text) is not None
            and (self._has_special or any(name in folded for name in self._names))
        ) or any(self.text(it, depth + 1) != it for it in _MAY_BE_ENCODED.findall(plain))

    def _may_select(self, path: str) -> bool:
        """Return whether a JSON path may select, or compare, what is masked."""
        for quoted, plain, wildcard, literal in _PATH_PART.findall(path):
            try:
                name = json.loads(quoted) if quoted else plain
                text = json.loads(literal) if literal else ""
            except ValueError:  # Escapes that JSON does not have.
                return True
            if wildcard or name.casefold().split(".")[-1] in self._names or self.text(text) != text:
                return True
        return False

    def spend(self, tokens: int = 1) -> bool:
        """Count tokens; return whether the page may take them."""
        self._left -= tokens
        return self._left >= 0

    def below(self, path: Path, name: str) -> Path:
        """Return the path of a member, limited to its last names that fields can match."""
        return (*path, *name.casefold().split("."))[-self._longest :]

    def hides(self, path: Path) -> bool:
        """Return whether the member at a path of `below` is masked."""
        return any(path[-len(each) :] == each for each in self._paths)


def _unescaped(escape: re.Match[str]) -> str:
    escaped = escape[1] or ""
    if escaped[:1] == "u":
        return chr(int(escaped[1:], 16))
    # Base64 may be in lines.
    return escaped.strip("nrt") if escaped else escape[0]


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

    def masked(self, text: str) -> str | None:
        """Return the masked text, or None for one in which it is unclear what is a string."""
        before = ""
        for found in _TOKEN.finditer(text):
            part = found[0]
            # A name after a string that ends before it, or a quotation mark that is escaped
            # outside of strings: there was a mark too many, or too few.
            is_odd = before[-1:] == ("\\" if part[0] == '"' else '"')
            if (
                is_odd and part[0] not in "{}[],:" and not part.isspace()
            ) or not self._mask.spend():
                return None
            self._add(part)
            before = part
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
        value: str | None = part[1:-1] if "\\" not in part and part[-1:] == '"' != part else None
        if value is None:
            with suppress(ValueError):
                value = json.loads(part, strict=False)
        if is_key and value is not None:
            self._key = value
            self._parts.append(part)
            return
        self._parts.append(self._masked_string(part, value))

    def _masked_string(self, part: str, value: str | None) -> str:
        """Mask a string that may contain JSON itself."""
        if value is None:
            # A truncated or invalid string cannot be parsed, so mask it if it may contain JSON.
            inner = self._mask.text(part.strip('"\\'), self._depth + 1)
            is_hidden = _MAY_HAVE_JSON.search(part) or inner != part.strip('"\\')
            return f'"{HIDDEN}"' if is_hidden else part
        inner = self._mask.text(value, self._depth + 1)
        return part if inner == value else json.dumps(inner, ensure_ascii=False)

    def _path(self) -> Path:
        parent = self._open[-1][0] if self._open else ()
        return parent if self._key is None else self._mask.below(parent, self._key)

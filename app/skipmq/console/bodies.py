"""Bodies of messages as a person reads them: decoded, and JSON coloured and folded."""

import binascii
import codecs
import html
import json
import re
import zlib
from base64 import b64decode
from typing import NamedTuple

from markupsafe import Markup, escape

# The characters that are decoded for the preview of a list.
PREVIEW = 4_096
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]{16,}={0,2}")
_CONTROL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
GZIP = b"\x1f\x8b\x08"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
# Compressed bodies are decompressed up to this number of bytes, and members of gzip.
_DECOMPRESSED, _MEMBERS = 4 << 20, 64
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*["\\]?|[{}\[\],:]|[^\s{}\[\],:"]+')
# Limits of JSON that is laid out: tokens, characters of indentation, and depth.
_MAXIMUM_TOKENS, _MAXIMUM_INDENTATION, _MAXIMUM_DEPTH = 300_000, 1 << 20, 64
# Objects and lists with more tokens can be folded, and are folded at first, below the top.
_FOLDABLE, _FOLDED = 12, 80


class Decoded(NamedTuple):
    """The text of a body, and the encodings that were removed, outermost first."""

    text: str
    encodings: tuple[str, ...] = ()
    is_whole: bool = True


def decoded(body: str, limit: int | None = None) -> Decoded:
    """Return a body without base64 and gzip, if it has text in them, else as it is.

    `limit` characters are decoded, if given: the beginning of the text.
    """
    plain = Decoded(body if limit is None else body[:limit])
    is_cut = limit is not None and len(body) > limit
    begin = plain.text.replace("\r", "").replace("\n", "")
    content = bytes_of(begin[: len(begin) - len(begin) % 4] if is_cut else begin)
    if content is None:
        return plain
    encodings: tuple[str, ...] = ("base64",)
    if content.startswith(GZIP):
        encodings = ("base64", "gzip")
        content, is_whole = decompressed(content, _DECOMPRESSED)
        is_cut = is_cut or not is_whole
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content, final=not is_cut)
    except UnicodeDecodeError:
        return plain
    return plain if not text or _CONTROL.search(text) else Decoded(text, encodings, not is_cut)


def bytes_of(text: str) -> bytes | None:
    """Return what a text has in base64, of either alphabet, or None."""
    alphabet = b"+/" if _BASE64.fullmatch(text) else b"-_" if _URL_SAFE.fullmatch(text) else b""
    if not alphabet:
        return None
    try:
        return b64decode(text + "==", alphabet)
    except (binascii.Error, ValueError):
        return None


def is_compressed(content: bytes) -> bool:
    """Return whether bytes begin as gzip or zlib."""
    return content.startswith((GZIP, *_ZLIB))


def decompressed(content: bytes, limit: int) -> tuple[bytes, bool]:
    """Return up to `limit` bytes of gzip, of all its members, or of zlib; and whether that is all.

    Invalid bytes are not all.
    """
    parts: list[bytes] = []
    try:
        for _ in range(_MEMBERS):
            member = zlib.decompressobj(47)  # Either format.
            # 0 would be no limit.
            parts.append(member.decompress(content, max(1, limit - sum(map(len, parts)))))
            content = member.unused_data.lstrip(b"\0")  # Padding.
            if not member.eof or not content:
                return b"".join(parts), member.eof
    except zlib.error:
        pass
    return b"".join(parts), False


def laid_out(text: str) -> Markup:
    """Return a text as HTML; a JSON object or list is indented, coloured, and folds.

    Only whitespace changes: numbers keep their digits, objects their order and duplicate members.
    """
    if not text.lstrip().startswith(("{", "[")):
        return escape(text)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return escape(text)
    tokens = _TOKEN.findall(text)
    if len(tokens) > _MAXIMUM_TOKENS:
        return escape(text)
    laid = _Layout().lay_out(tokens)
    return escape(text) if laid is None else laid


class _Layout:
    """The HTML of JSON, in parts: a place before each line becomes the beginning of a fold."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        # Of each open object or list: the places of its line and of its bracket, the number of the
        # bracket's token, and the number of commas.
        self._open: list[list[int]] = []
        self._line, self._indentation = 0, 0
        # A fold's end is a block: neither a comma nor a new line may follow it.
        self._end = ""

    def lay_out(self, tokens: list[str]) -> Markup | None:
        """Return the HTML, or None if it would be many times longer than the text."""
        self._begin_line()
        for place, part in enumerate(tokens):
            before = tokens[place - 1] if place else ""
            if part in ("}", "]"):
                self._close(part, place, is_empty=before in ("{", "["))
                continue
            if part == ",":
                self._open[-1][3] += 1
                self._parts.append(f",{self._end}")
                self._line_after(is_block=bool(self._end))
                self._end = ""
                continue
            if before in ("{", "["):
                self._line_after(is_block=False)
            if part in ("{", "["):
                self._parts += (part, "")
                self._open.append([self._line, len(self._parts) - 1, place, 0])
                if len(self._open) > _MAXIMUM_DEPTH:
                    return None
            else:
                is_key = part[0] == '"' and tokens[place + 1 : place + 2] == [":"]
                self._parts.append(_coloured(part, is_key=is_key))
            if self._indentation > _MAXIMUM_INDENTATION:
                return None
        return Markup("".join([*self._parts, self._end]))  # noqa: S704 - escaped in _coloured.

    def _close(self, part: str, place: int, *, is_empty: bool) -> None:
        line, end, first, commas = self._open.pop()
        inside = place - first - 1
        is_block, self._end = bool(self._end), ""
        if is_block:
            self._parts.append("</details>")
        if not is_empty:
            self._line_after(is_block=is_block)
        self._parts.append(part)
        if inside > _FOLDABLE:
            is_open = not self._open or inside <= _FOLDED
            self._parts[line] = f"<details{' open' if is_open else ''}><summary>"
            what = "member" if part == "}" else "item"
            self._parts[end] = f" <small>{commas + 1} {what}{'s' * (commas > 0)}</small></summary>"
            # A summary is a block, which ends its line.
            self._parts[end + 1] = self._parts[end + 1].removeprefix("\n")
            self._end = "</details>"

    def _line_after(self, *, is_block: bool) -> None:
        if not is_block:
            self._parts.append("\n")
        self._begin_line()

    def _begin_line(self) -> None:
        self._parts += ("", "  " * len(self._open))
        self._line = len(self._parts) - 2
        self._indentation += 2 * len(self._open)


def _coloured(part: str, *, is_key: bool) -> str:
    if part == ":":
        return ": "
    tag = "b" if is_key else "q" if part[0] == '"' else "i"
    return f"<{tag}>{html.escape(part, quote=False)}</{tag}>"

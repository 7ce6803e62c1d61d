"""Read HOCON, the form of ElasticMQ's configuration, and find the line of each key.

Source: the HOCON specification of Typesafe Config, "Include syntax" and "Substitutions".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from skipmq.imports.found import Difference, UnreadableError

# Where a file of the JVM's own is included: it is not here.
_CLASSPATH = re.compile(r"(?m)^[ \t]*include[ \t]+(?:required\()?classpath\(\"([^\"\n]*)\"\)\)?")
# ElasticMQ's own defaults, which its documentation includes.
_DEFAULTS = {"application.conf", "reference.conf"}
_INCLUDE = re.compile(r"(?m)^[ \t]*include[ \t]+(?:required\()?(?:file\()?\"([^\"\n]*)\"")
_TOKEN = re.compile(
    r'(?P<quoted>"""(?:[^"]|"(?!""))*"""|"(?:[^"\\\n]|\\.)*")'
    r"|(?P<comment>(?:#|//)[^\n]*)|(?P<substitution>\$\{[^}\n]*\})"
    r"|(?P<mark>\+=|[][{}=:,\n])|(?P<text>[^]\s\"#$/[{}=:,+]+|\S)"
)
_SUBSTITUTION = re.compile(r"\$\{\??([^}]*)\}")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ON, _OFF = {"true", "yes", "on"}, {"false", "no", "off"}


@dataclass(slots=True)
class Document:
    """The values of a file with those that it includes, substituted, and the lines of the keys."""

    file: Path
    values: Mapping[str, Any]
    differences: list[Difference] = field(default_factory=list)
    _lines: dict[tuple[str, ...], tuple[Path, int]] = field(default_factory=dict)
    _read: set[Path] = field(default_factory=set)

    def find_lines(self, text: str, file: Path | None = None) -> None:
        """Find the lines of the keys in a text of the file, and in the files that it includes."""
        file = file or self.file
        for name in _INCLUDE.findall(text):
            included = file.parent / name
            if included.is_file() and included not in self._read:
                self._read.add(included)
                self.find_lines(included.read_text(encoding="utf-8-sig"), included)
        self._lines.update({key: (file, line) for key, line in _keys(text)})

    def join(self, *path: str) -> None:
        """Let the last two keys of a path, and all below it, be found as one key with a dot."""
        joined = (*path[:-2], ".".join(path[-2:]))
        for key, line in [*self._lines.items()]:
            if key[: len(path)] == path:
                self._lines[(*joined, *key[len(path) :])] = line

    def place(self, *path: str) -> str:
        """Return the file and line of a key, or of the nearest one above it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                file, line = self._lines[path[:length]]
                return f"{file}, line {line}"
        return str(self.file)


@dataclass(slots=True)
class _Level:
    """An object or a list that has begun: its path, and the parts of the key that is read."""

    path: tuple[str, ...]
    is_list: bool = False
    key: list[str] = field(default_factory=list)

    def inner(self) -> tuple[str, ...]:
        """Return the path of the key that is read."""
        return (*self.path, *(part for part in "".join(self.key).split("\0") if part))


def read(file: Path) -> Document:
    """Return what a file says; `${X}` are variables of the environment where no key is named X.

    Raises UnreadableError.
    """
    try:
        hocon = import_module("zig_hocon")
    except ImportError as error:
        raise UnreadableError(
            f"{file}: reading HOCON needs the package zig-hocon: pip install 'skipmq[server]'"
        ) from error
    document = Document(file, {})
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{file} is not text in UTF-8") from error
    except OSError as error:
        raise UnreadableError(f"{file} cannot be read: {error.strerror}") from error
    text = _CLASSPATH.sub(lambda found: _omitted(found, document), text)
    try:
        values = hocon.ConfigFactory.parse_string(text, basedir=file.absolute().parent).as_dict()
    except hocon.ConfigException as error:
        raise UnreadableError(_explained(error, file)) from error
    if not isinstance(values, dict):
        raise UnreadableError(f"{file}: write keys and values, not a list")
    document.values = values
    document.find_lines(text)
    return document


def seconds(value: Any) -> float:
    """Return a duration in seconds; a bare number is of milliseconds. Raises ValueError."""
    duration = import_module("zig_hocon").parse_duration(str(value))
    return float(duration.total_seconds())


def boolean(value: Any) -> bool:
    """Return a truth value; raise ValueError."""
    text = str(value).lower()
    if text not in _ON | _OFF:
        raise ValueError
    return text in _ON


def number(value: Any) -> int:
    """Return an integer, which may be written as a text; raise ValueError."""
    return int(str(value))


def _explained(error: Any, file: Path) -> str:
    """Return where and what an error is, without quoting the line, which may have a password."""
    place = Path(error.file) if error.file else file
    if place.is_absolute() and place.is_relative_to(folder := file.absolute().parent):
        place = file.parent / place.relative_to(folder)
    where = f"{place}, line {error.line}"
    if error.name == "Unresolved":
        found = _SUBSTITUTION.search(error.source_line, max(error.column - 1, 0))
        name = found[1] if found else ""
        return (
            f"{where}: ${{{name}}} is neither a key nor a variable of the environment: set it, or"
            f" write ${{?{name}}} where it may be missing"
        )
    where = f"{where}, column {error.column}"
    if error.name == "UnexpectedToken":
        return f"{where}: this is not HOCON: check the braces, quotes and commas up to here"
    what = _WORD.sub(" ", error.name).lower()
    return f"{where}: this is not HOCON ({what})"


def _omitted(found: re.Match[str], document: Document) -> str:
    """Return what stands for a file of the JVM's classpath: nothing, in as many characters."""
    if found[1] not in _DEFAULTS:
        line = found.string.count("\n", 0, found.start()) + 1
        document.differences.append(
            Difference(
                f"{document.file}, line {line}: include classpath({found[1]!r})",
                "a file in a JAR is not read; put it next to this one, and write include"
                f' "{found[1]}"',
            )
        )
    return " " * len(found[0])


def _keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the path of each key of a text, with its line; text that is not HOCON yields any."""
    levels = [_Level(())]
    is_key, line, began, last = True, 1, 1, ""
    for token in _TOKEN.finditer(text):
        kind, word, level = token.lastgroup, token[0], levels[-1]
        if kind in {"quoted", "text"} and is_key:
            began = began if level.key else line
            level.key.append(word.strip('"') if kind == "quoted" else word.replace(".", "\0"))
        elif kind == "mark":
            path = level.inner()
            if is_key and level.key and word in {"=", ":", "+=", "{"}:
                yield path, began
                is_key = False
            if word in {"{", "["}:
                # Within a list no key is looked for.
                is_key = word == "{" and not level.is_list
                levels.append(_Level(path, is_list=not is_key))
            elif word in {"}", "]"} and len(levels) > 1:
                levels.pop()
                is_key = False
            elif word == "," or (word == "\n" and last not in {"=", ":", "+="}):
                is_key = not level.is_list
                level.key.clear()
        if kind != "comment":
            last = word
        line += word.count("\n")

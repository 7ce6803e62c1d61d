"""Read HOCON, the form of ElasticMQ's configuration.

Source: the HOCON specification of Typesafe Config, "Include syntax" and "Substitutions".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from skipmq.config.declarations import Difference, UnreadableError

# Where a file of the JVM's own is included: it is not here.
_CLASSPATH = re.compile(r"(?m)^[ \t]*include[ \t]+(?:required\()?classpath\(\"([^\"\n]*)\"\)\)?")
# ElasticMQ's own defaults, which its documentation includes.
_DEFAULTS = {"application.conf", "reference.conf"}
_INCLUDE = re.compile(r"(?m)^[ \t]*include\b")
_SUBSTITUTION = re.compile(r"\$\{\??([^}]*)\}")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ON, _OFF = {"true", "yes", "on"}, {"false", "no", "off"}


@dataclass(slots=True)
class Document:
    """The values of a file with those that it includes, substituted."""

    file: Path
    values: Mapping[str, Any]
    differences: list[Difference] = field(default_factory=list)
    # What `${…}` names in it, of which the parser leaves nothing; None where it includes others.
    substituted: set[str] | None = None


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
        remedy = ": check the path" if isinstance(error, FileNotFoundError) else ""
        raise UnreadableError(f"{file} cannot be read: {error.strerror}{remedy}") from error
    text = _CLASSPATH.sub(lambda found: _omitted(found, document), text)
    try:
        values = hocon.ConfigFactory.parse_string(text, basedir=file.absolute().parent).as_dict()
    except hocon.ConfigException as error:
        raise UnreadableError(_explained(error, file)) from error
    if not isinstance(values, dict):
        raise UnreadableError(f"{file}: write keys and values, not a list")
    document.values = values
    if not _INCLUDE.search(text):
        document.substituted = {name.partition(".")[0] for name in _SUBSTITUTION.findall(text)}
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
        document.differences.append(
            Difference(
                f"{document.file}: include classpath({found[1]!r})",
                "a file in a JAR is not read; put it next to this one, and write include"
                f' "{found[1]}"',
            )
        )
    return " " * len(found[0])

"""The repository speaks the field's language: no words of the dialect that it once had."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# What speaks of people where requests, callers and connections are meant, or is out of use.
DIALECT = re.compile(
    r"\b(nobody|whoever|whosoever|somebody|told|whence|upon|whereby|henceforth|thereof|anew|shall"
    r"|beside|besides|likewise|thereby|tells?|aside|deaf|surroundings|on behalf of|heard out"
    r"|goes on|given up|thrown away|gives? up"
    r"|outlasts?|hinder\w*|so many|as many as|who comes|of whom|incarnation|saboteur|nemesis)\b"
    r"|\b(_LAX|SOMEBODY|PATIENCE|scout)\b|\bdef _?of(_\w+)?\(",
    re.IGNORECASE,
)
# An account of Unix, and a comparison.
ALLOWED = re.compile(r"\"nobody\"|nor nobody;|twice as many as")
SUFFIXES = {".py", ".sql", ".html", ".md", ".yml", ".yaml", ".toml", ".cfg", ".js", ".css"}


def files() -> Iterator[Path]:
    for folder in ("app", "sql", "migrations", "deploy"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and not {"__pycache__", "locks"} & set(path.parts):
                yield path


def test_words_are_the_field_s() -> None:
    found = [
        f"{path.relative_to(ROOT)}, line {number}: {word[0]}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for word in DIALECT.finditer(ALLOWED.sub("", line))
    ]

    assert found == [], "use the field's words instead: name the request, the caller, the client"

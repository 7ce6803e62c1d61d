"""The runbook of this release by its sections, for the console and `skipmq runbook`."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PACKAGE = Path(__file__).resolve().parents[1]
_NO_SLUG = re.compile(r"[^\w -]")


class Section(NamedTuple):
    """A section with its heading and those below it; `slug` is its anchor."""

    slug: str
    title: str
    level: int
    text: str


def text() -> str:
    """Return the page in Markdown: in a wheel inside the package, or in a checkout.

    Raises FileNotFoundError when the installation is broken.
    """
    for file in (_PACKAGE / "runbook.md", _PACKAGE.parent / "docs" / "operate" / "runbook.md"):
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            # Comments, each a line, are for tests of the page.
            return "".join(each for each in lines if not each.lstrip().startswith("<!--"))
    raise FileNotFoundError("the runbook is missing from this installation of SkipMQ")


def parser() -> MarkdownIt:
    """Return a parser of the page, which renders no HTML of its own."""
    made = MarkdownIt("commonmark", {"html": False})
    return made.enable("table")


def slug(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return _NO_SLUG.sub("", title.lower()).replace(" ", "-")


def headings(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Yield the token that opens each heading, with its text."""
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            yield token, content.content


def sections() -> list[Section]:
    """Return the sections below the title of the page, in its order."""
    page = text()
    lines = page.splitlines(keepends=True)
    found = []
    for token, title in headings(parser().parse(page)):
        assert token.map
        found.append((token.map[0], int(token.tag[1:]), title))
    made = []
    for number, (start, level, title) in enumerate(found):
        ends = [line for line, other, _ in found[number + 1 :] if other <= level]
        whole = "".join(lines[start : ends[0] if ends else None])
        made.append(Section(slug(title), title, level, whole.rstrip() + "\n"))
    return [each for each in made if each.level > 1]

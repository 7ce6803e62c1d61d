"""The lines of all pages that run a command, also of those blocks that are slow or not run."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from unittest import mock

import click
import pytest

from skipmq.cli import cli
from support import pages
from support.http import ROOT

PAGES = [pages.read(file) for file in [*pages.files(), ROOT / "README.md"]]
# What stands between the commands of a line, and what may stand before one.
BETWEEN = re.compile(r"[|&;()<>]+")
BEFORE = re.compile(r"[|&;()]+|!|do|if|until|then|sudo|\w+=.*", re.DOTALL)


def lines(page: pages.Page) -> Iterator[tuple[int, list[str]]]:
    """Yield the words after each `skipmq`, with the line at which its block begins."""
    for block in (block for block in page.blocks if block.language == "sh"):
        text = block.text.replace("\\\n", " ").replace("\n", "\n; ")
        parts = shlex.shlex(text, posix=True, punctuation_chars=True)
        parts.whitespace_split = True
        words = list(parts)
        for place, word in enumerate(words):
            if word == "skipmq" and (place == 0 or BEFORE.fullmatch(words[place - 1])):
                found = [*takewhile(lambda each: not BETWEEN.fullmatch(each), words[place + 1 :])]
                if found:
                    yield block.line, found


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_options_of_each_line_exist(page: pages.Page) -> None:
    # Nothing is carried out: neither a command nor what its groups do.
    with mock.patch.object(click.Command, "invoke"):
        for line, words in lines(page):
            assert mistake(words) is None, f"{page.name}, line {line}: {' '.join(words)}"


def mistake(words: list[str]) -> str | None:
    """Return what the command line says of options and arguments that do not exist or miss."""
    try:
        cli.main(words, prog_name="skipmq", standalone_mode=False)
    except click.exceptions.Exit:
        pass  # `--help`
    except click.UsageError as error:
        # A value may name a file that is there only when the block runs.
        return None if type(error) is click.BadParameter else error.format_message()
    return None


def test_lines_are_found_and_mistakes_are_seen() -> None:
    found = [words for page in PAGES for _, words in lines(page)]

    assert len(found) > 150
    assert ["queue", "create", "errors"] in found
    assert mistake(["queue", "create", "orders", "--colour", "red"]) == "No such option '--colour'."
    assert mistake(["queue", "show"]) is not None
    assert {words[0] for words in found} >= {"serve", "migrate", "queue", "analytics", "keys"}

"""The lines of all pages that run a command, also of those blocks that are slow or not run."""

from unittest import mock

import click
import pytest

from skipmq.cli import cli
from support import pages
from support.http import ROOT

PAGES = [pages.read(file) for file in [*pages.files(), ROOT / "README.md"]]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES])
def test_options_of_each_line_exist(page: pages.Page) -> None:
    # Nothing is carried out: neither a command nor what its groups do.
    with mock.patch.object(click.Command, "invoke"):
        for block in page.blocks:
            for words in pages.commands(block):
                assert mistake(words) is None, f"{page.name}, line {block.line}: {words}"


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
    found = [words for page in PAGES for block in page.blocks for words in pages.commands(block)]

    assert len(found) > 150
    assert ["queue", "create", "errors"] in found
    assert mistake(["queue", "create", "orders", "--colour", "red"]) == "No such option '--colour'."
    assert mistake(["queue", "show"]) is not None
    assert {words[0] for words in found} >= {"serve", "migrate", "queue", "analytics", "keys"}

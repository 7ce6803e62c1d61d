"""The `runbook` command, which needs neither a database nor a node."""

from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from skipmq.broker import runbook as book
from skipmq.cli.output import out
from skipmq.cli.tables import Column, table


def _slugs(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    return [CompletionItem(each.slug) for each in book.sections() if each.slug.startswith(prefix)]


@click.command("runbook")
@click.argument("section", required=False, shell_complete=_slugs)
def runbook_command(section: str | None) -> None:
    """Print a section of the runbook, or list the sections.

    SECTION is a name as `skipmq trouble` prints it. The console has the same page.
    """
    found = {each.slug: each for each in book.sections()}
    if section is None:
        rows = [(each.slug, each.title) for each in found.values()]
        out.print(table((Column("section"), Column("title", 1)), rows))
        return
    if section not in found:
        near = get_close_matches(section, found, n=1)
        remedy = f"did you mean {near[0]}?" if near else "`skipmq runbook` lists the others"
        raise click.UsageError(f"the runbook has no section {section}: {remedy}")
    out.print(found[section].text, soft_wrap=True, markup=False, end="")

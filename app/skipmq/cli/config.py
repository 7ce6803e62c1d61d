"""The commands `config` and `runbook`, which need neither a database nor a node."""

from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.markup import escape
from rich.table import Table

from skipmq import config
from skipmq.broker import runbook as book
from skipmq.cli.environment import configuration
from skipmq.cli.output import Column, json_option, out, print_json, table
from skipmq.config.settings import SECRETS
from skipmq.database import address, embedded


@click.command("config")
@json_option
def config_command(*, as_json: bool) -> None:
    """Show the effective settings and their sources."""
    effective = configuration()
    rows = [
        (name, _shown(name, getattr(effective.settings, name)), source, config.about(name))
        for name, source in effective.sources.items()
    ]
    if as_json:
        print_json({n: {"value": v, "source": s} for n, v, s, _ in rows})
        return
    table = Table("setting", "value", "from", "meaning", box=None, pad_edge=False)
    for name, value, source, meaning in rows:
        table.add_row(f"SKIPMQ_{name.upper()}", escape(str(value)), source, escape(meaning))
    out.print(table)


def _shown(name: str, value: Any) -> Any:
    if name == "queues":
        return [queue.name for queue in value]
    if name == "data_dir":
        return value or str(embedded.default_data_dir())
    if name == "master_key":
        return value and "***"
    if name in SECRETS and value:
        return address.shown(value)
    return value


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

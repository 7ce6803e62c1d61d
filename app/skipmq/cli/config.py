"""The `config` command."""

import json
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq import config
from skipmq.cli.environment import configuration
from skipmq.cli.output import out
from skipmq.config.settings import SECRETS
from skipmq.database import address, embedded


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config_command(*, as_json: bool) -> None:
    """Show the effective settings and their sources."""
    effective = configuration()
    rows = [
        (name, _shown(name, getattr(effective.settings, name)), source, config.about(name))
        for name, source in effective.sources.items()
    ]
    if as_json:
        click.echo(json.dumps({n: {"value": v, "source": s} for n, v, s, _ in rows}, indent=2))
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

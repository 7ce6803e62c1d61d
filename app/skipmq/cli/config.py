"""The `config` command."""

from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq import config
from skipmq.cli.environment import configuration
from skipmq.cli.output import json_option, out, print_json
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

"""What commands work with: the terminal, the settings, the database, a node."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from skipmq import config, embedded
from skipmq.config import Configuration, Settings
from skipmq.database import address, schema, session
from skipmq.server import local
from skipmq.server.local import LocalNode

out = Console(highlight=False)


def printing_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json`, and print what it returns as JSON when it is used."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        result, told = command(*args, **options)
        if as_json:
            click.echo(json.dumps(result, indent=2))
        else:
            # Words stay whole, however narrow the terminal is: they will be copied.
            out.print(told, soft_wrap=isinstance(told, str | Text))

    return wrapped


def configuration(**overrides: Any) -> Configuration:
    """Return the effective settings; raise ConfigError with everything that is wrong in them."""
    context = click.get_current_context()
    return address.checked(config.load(file=context.obj, overrides=overrides))


@contextmanager
def open_database(settings: Settings, *, ephemeral: bool = False) -> Iterator[tuple[str, str]]:
    """Give the owner's URL and the nodes'; run the embedded server if none is named."""
    if settings.database_url:
        yield settings.database_url, settings.database_url
        return
    with ExitStack() as stack:
        if ephemeral:
            server = stack.enter_context(embedded.start_ephemeral())
        else:
            folder = Path(settings.data_dir) if settings.data_dir else embedded.default_data_dir()
            server = stack.enter_context(embedded.start(folder))
        schema.migrate(server.url)
        yield server.url, session.as_role(server.url, "skipmq_node")


@contextmanager
def open_node(settings: Settings) -> Iterator[LocalNode]:
    """Give a node of this process, which serves nobody else."""
    with open_database(settings) as (_, url):
        schema.check(url)
        with local.opened(settings, url) as node:
            yield node

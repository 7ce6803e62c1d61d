"""What commands work with: the terminal, the settings, the database, a node."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from skipmq import config, embedded, errors
from skipmq.config import Configuration
from skipmq.database import Database, InsufficientPrivilege, address, schema, session
from skipmq.server import local
from skipmq.server.local import LocalNode
from skipmq.settings import Settings

T = TypeVar("T")
# Wide enough for any line: what is no terminal has no width, and programs read whole lines.
_WIDE = 10_000
out = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


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


def cell(value: Any) -> str:
    """Return a value as tables show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def shown_time(seconds: float | None) -> str | None:
    """Return a time in seconds since 1970 as ISO 8601 has it."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


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


def run_as_owner(
    command: str, operation: Callable[[Database], Awaitable[T]], settings: Settings | None = None
) -> T:
    """Run an operation on the database, as the schema's owner, and return its result.

    Raises click.ClickException when that is not who the URL names, or may not do it.
    """

    async def run(url: str) -> T:
        database = Database(url, size=1, application_name=f"skipmq {command}")
        try:
            return await operation(database)
        finally:
            database.close()

    with open_database(settings or configuration().settings) as (url, _):
        try:
            schema.check(url)
            return asyncio.run(run(url))
        except InsufficientPrivilege as error:
            raise _refused(error.diag.message_primary, error.diag.message_hint) from error
        except errors.InsufficientPrivilege as error:
            raise _refused(error.reason, error.remedy) from error


def _refused(reason: str | None, remedy: str | None) -> click.ClickException:
    remedy = remedy or "run this with the URL of the schema's owner"
    return click.ClickException(f"{reason}: {remedy}")


@contextmanager
def open_node(settings: Settings) -> Iterator[LocalNode]:
    """Give a node of this process, which serves nobody else."""
    with open_database(settings) as (_, url):
        schema.check(url)
        with local.opened(settings, url) as node:
            yield node

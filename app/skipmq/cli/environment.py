"""What commands work with: the terminal, the settings, the database, a node."""

import asyncio
import json
import os
import pwd
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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
from skipmq.embedded import EmbeddedError
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


@contextmanager
def silence() -> Iterator[None]:
    """Keep the log out of what is on the terminal: a line that is being typed, a full screen."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


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


def data_folder(settings: Settings) -> Path:
    """Return the folder of the embedded server."""
    return Path(settings.data_dir) if settings.data_dir else embedded.default_data_dir()


@contextmanager
def open_server(
    settings: Settings, *, ephemeral: bool = False, create: bool = False
) -> Iterator[str]:
    """Give the URL of the owner; run the embedded server if no database is named.

    It is started where its data are; only with `create` they are made. Raises EmbeddedError.
    """
    if settings.database_url:
        yield settings.database_url
        return
    folder = data_folder(settings)
    if not (create or ephemeral) and embedded.status(folder).version is None:
        raise EmbeddedError(f"no broker in {folder} yet: `skipmq serve` makes one")
    with embedded.start_ephemeral() if ephemeral else embedded.start(folder) as server:
        yield server.url


@contextmanager
def open_database(
    settings: Settings, *, ephemeral: bool = False, create: bool = False
) -> Iterator[tuple[str, str]]:
    """Give the owner's URL and the nodes', as `open_server` does; migrate what is embedded."""
    with open_server(settings, ephemeral=ephemeral, create=create) as url:
        if settings.database_url:
            yield url, url
        else:
            schema.migrate(url)
            yield url, session.as_role(url, "skipmq_node")


def running_database(settings: Settings) -> tuple[str, str]:
    """Return the owner's URL and the nodes' of a database that runs; start and change nothing.

    Raises EmbeddedError, which says how the embedded server is.
    """
    if settings.database_url:
        return settings.database_url, settings.database_url
    status = embedded.status(data_folder(settings))
    if status.url is None:
        raise EmbeddedError(str(status))
    return status.url, session.as_role(status.url, "skipmq_node")


def run_as_owner(
    command: str,
    operation: Callable[[Database], Awaitable[T]],
    settings: Settings | None = None,
    *,
    create: bool = False,
) -> T:
    """Run an operation on the database, as the schema's owner, and return its result.

    Only with `create` an embedded database is made for it. Raises click.ClickException when that is
    not who the URL names, or may not do it.
    """

    async def run(url: str) -> T:
        database = Database(url, size=1, application_name=f"skipmq {command}")
        try:
            return await operation(database)
        finally:
            database.close()

    with open_database(settings or configuration().settings, create=create) as (url, _):
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


def _person() -> str:
    """Return whose account on this machine runs the command."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


@contextmanager
def open_node(settings: Settings, *, create: bool = False) -> Iterator[LocalNode]:
    """Give a node of this process, which serves nobody else; its changes are in the audit log.

    Only with `create` an embedded database is made for it.
    """
    with open_database(settings, create=create) as (_, url):
        schema.check(url)
        with local.opened(settings, url, _person()) as node:
            yield node


def act(action: str, *, create: bool = False, **parameters: Any) -> dict[str, Any]:
    """Run one action on a node of this process and return its result."""
    with open_node(configuration().settings, create=create) as node:
        return node.act(action, **parameters)

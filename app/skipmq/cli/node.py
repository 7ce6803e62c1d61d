"""The node of a command, and operations as the schema's owner."""

import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from skipmq.cli import local
from skipmq.cli.environment import configuration, open_database
from skipmq.cli.local import LocalNode
from skipmq.config.settings import Settings
from skipmq.database import router, schema
from skipmq.database.partitions import Database
from skipmq.database.retry import InsufficientPrivilege
from skipmq.protocol import errors

T = TypeVar("T")


def run_as_owner(
    command: str,
    operation: Callable[[Database], Awaitable[T]],
    settings: Settings | None = None,
    *,
    create: bool = False,
    everywhere: bool = False,
) -> T:
    """Run an operation on the database as the schema's owner, and return its result.

    With `create`, an embedded database is created if missing. With `everywhere`, behind a router it
    runs on each partition, also after one that failed, and must do the same in each. Raises
    click.ClickException if the role of the URL lacks the privilege.
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
            if not everywhere or not schema.is_router(url):
                return asyncio.run(run(url))
            return asyncio.run(_on_each(router.owner_urls(url)[0], run))
        except InsufficientPrivilege as error:
            raise _refused(error.diag.message_primary, error.diag.message_hint) from error
        except errors.InsufficientPrivilege as error:
            raise _refused(error.reason, error.remedy) from error


async def _on_each(urls: list[str], run: Callable[[str], Awaitable[T]]) -> T:
    results: list[T] = []
    for result in await asyncio.gather(*map(run, urls), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results[0]


def _refused(reason: str | None, remedy: str | None) -> click.ClickException:
    remedy = remedy or "run this with the URL of the schema's owner"
    return click.ClickException(f"{reason}: {remedy}")


def _account_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


@contextmanager
def open_node(settings: Settings, *, create: bool = False) -> Iterator[LocalNode]:
    """Yield a node in this process, which audits its changes under the name of the Unix account.

    With `create`, an embedded database is created if missing.
    """
    with open_database(settings, create=create) as (_, url):
        schema.check(url)
        schema.check_partitions(url)
        with local.opened(settings, url, _account_name()) as node:
            yield node

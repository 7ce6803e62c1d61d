"""What commands work with: the settings, and the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from skipmq import config, embedded
from skipmq.config import Configuration
from skipmq.embedded import EmbeddedError
from skipmq.settings import Settings


def configuration(**overrides: Any) -> Configuration:
    """Return the effective settings; raise ConfigError with everything that is wrong in them."""
    context = click.get_current_context()
    found = config.load(file=context.obj, overrides=overrides)
    if not (found.settings.database_url or found.settings.analytics_url):
        return found
    # Only here: the embedded server is started before libpq is imported.
    from skipmq.database import address  # noqa: PLC0415

    return address.checked(found)


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
        yield url, node_url(settings, url)


def node_url(settings: Settings, url: str) -> str:
    """Return the URL of nodes where `open_server` gave this one; migrate what is embedded."""
    if settings.database_url:
        return url
    from skipmq.database import schema, session  # noqa: PLC0415 - as above.

    schema.migrate(url)
    return session.as_role(url, "skipmq_node")


def running_database(settings: Settings) -> tuple[str, str]:
    """Return the owner's URL and the nodes' of a database that runs; start and change nothing.

    Raises EmbeddedError, which says how the embedded server is.
    """
    if settings.database_url:
        return settings.database_url, settings.database_url
    status = embedded.status(data_folder(settings))
    if status.url is None:
        raise EmbeddedError(str(status))
    from skipmq.database import session  # noqa: PLC0415 - as above.

    return status.url, session.as_role(status.url, "skipmq_node")

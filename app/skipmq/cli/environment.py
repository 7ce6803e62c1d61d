"""The settings and the database of a command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from skipmq import config, embedded
from skipmq.config import Configuration
from skipmq.config.settings import Settings
from skipmq.embedded import EmbeddedError


def configuration(**overrides: Any) -> Configuration:
    """Return the effective settings; raise ConfigError with all problems in them."""
    context = click.get_current_context()
    loaded = config.load(file=context.obj, overrides=overrides)
    if not (loaded.settings.database_url or loaded.settings.analytics_url):
        return loaded
    # Imported late, because the embedded server is started before libpq is imported.
    from skipmq.database import address  # noqa: PLC0415

    return address.checked(loaded)


def data_folder(settings: Settings) -> Path:
    """Return the folder of the embedded server."""
    return Path(settings.data_dir) if settings.data_dir else embedded.default_data_dir()


@contextmanager
def open_server(
    settings: Settings, *, ephemeral: bool = False, create: bool = False
) -> Iterator[str]:
    """Yield the owner's URL; run the embedded server if no database is configured.

    A data folder is created only with `create` or `ephemeral`. Raises EmbeddedError.
    """
    if settings.database_url:
        yield settings.database_url
        return
    folder = data_folder(settings)
    if not (create or ephemeral) and embedded.status(folder).version is None:
        raise EmbeddedError(f"no broker in {folder} yet: `skipmq serve` creates one")
    with embedded.start_ephemeral() if ephemeral else embedded.start(folder) as server:
        yield server.url


@contextmanager
def open_database(
    settings: Settings, *, ephemeral: bool = False, create: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the URLs of the owner and of nodes like `open_server`; migrate an embedded database."""
    with open_server(settings, ephemeral=ephemeral, create=create) as url:
        yield url, node_url(settings, url)


def node_url(settings: Settings, url: str) -> str:
    """Return the nodes' URL for a URL of `open_server`; migrate an embedded database."""
    if settings.database_url:
        return url
    from skipmq.database import schema, session  # noqa: PLC0415 - as above.

    schema.migrate(url)
    return session.as_role(url, "skipmq_node")


def running_database(settings: Settings) -> tuple[str, str]:
    """Return the URLs of the owner and of nodes of a running database, without starting one.

    Raises EmbeddedError with the status of the embedded server if it is not running.
    """
    if settings.database_url:
        return settings.database_url, settings.database_url
    status = embedded.status(data_folder(settings))
    if status.url is None:
        raise EmbeddedError(str(status))
    from skipmq.database import session  # noqa: PLC0415 - as above.

    return status.url, session.as_role(status.url, "skipmq_node")

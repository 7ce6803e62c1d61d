"""The settings and the database of a command."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skipmq import config
from skipmq.cli import place
from skipmq.config import Configuration
from skipmq.config.settings import Settings
from skipmq.database.files import folder
from skipmq.telemetry.logs import log

if TYPE_CHECKING:
    from skipmq.database import embedded


def configuration(**overrides: Any) -> Configuration:
    """Return the effective settings, with the account and the region that the command names.

    Raises ConfigError with all problems in them, and click.UsageError as `place.given` does.
    """
    context = click.get_current_context()
    loaded = config.load(file=context.obj, overrides={**place.given(context), **overrides})
    if not (loaded.settings.database_url or loaded.settings.analytics_url):
        return loaded
    # Imported late, because the embedded server is started before libpq is imported.
    from skipmq.database import address  # noqa: PLC0415

    return address.checked(loaded)


def data_folder(settings: Settings) -> Path:
    """Return the folder of the embedded server."""
    from skipmq.database import embedded  # noqa: PLC0415 - needless where a database is configured.

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
    from skipmq.database import embedded  # noqa: PLC0415 - as above.

    data = data_folder(settings)
    if not (create or ephemeral) and embedded.status(data).version is None:
        raise embedded.EmbeddedError(f"no broker in {data} yet: `skipmq serve` creates one")
    with (
        embedded.start_ephemeral(contents=_contents()) if ephemeral else embedded.start(data)
    ) as server:
        yield server.url


def _contents() -> "embedded.Contents":
    """Return what a temporary database begins with: the schema of this release."""
    from skipmq.database import embedded  # noqa: PLC0415 - as above.

    release = hashlib.blake2b(digest_size=16)
    for name in ("sql", "migrations"):
        for file in sorted(folder(name).rglob("*.*")):
            if file.suffix in {".sql", ".py"}:
                release.update(file.name.encode() + file.read_bytes())
    return embedded.Contents(release.hexdigest(), _migrate)


def _migrate(url: str) -> None:
    from skipmq.database import schema  # noqa: PLC0415 - as above.

    schema.migrate(url)


@contextmanager
def open_database(settings: Settings, *, create: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the URLs of the owner and of nodes like `open_server`; migrate an embedded database.

    Nothing is logged in the block: a command prints what it has to say.
    """
    with log.silenced(), open_server(settings, create=create) as url:
        yield url, node_url(settings, url)


def node_url(settings: Settings, url: str, *, ephemeral: bool = False) -> str:
    """Return the nodes' URL for a URL of `open_server`; migrate an embedded database."""
    if settings.database_url:
        return url
    from skipmq.database import schema, session  # noqa: PLC0415 - as above.

    if not (ephemeral and schema.renewed(url)):
        schema.migrate(url)
    return session.as_role(url, "skipmq_node")


def running_database(settings: Settings) -> tuple[str, str]:
    """Return the URLs of the owner and of nodes of a running database, without starting one.

    Raises EmbeddedError with the status of the embedded server if it is not running.
    """
    if settings.database_url:
        return settings.database_url, settings.database_url
    from skipmq.database import embedded  # noqa: PLC0415 - as above.

    status = embedded.status(data_folder(settings))
    if status.url is None:
        raise embedded.EmbeddedError(str(status))
    from skipmq.database import session  # noqa: PLC0415 - as above.

    return status.url, session.as_role(status.url, "skipmq_node")

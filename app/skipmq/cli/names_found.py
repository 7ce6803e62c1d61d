"""The names of queues that a shell offers, if the database responds within a second."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from skipmq import config
from skipmq.cli import local, place, remote
from skipmq.cli.environment import running_database
from skipmq.cli.remote import RemoteError
from skipmq.cli.source import Source
from skipmq.config import ConfigError
from skipmq.database import address, session
from skipmq.database.embedded import EmbeddedError
from skipmq.protocol import errors

_SECONDS = 1.0
_UNKNOWN = (
    *(click.UsageError, ConfigError, EmbeddedError, RemoteError),
    *(session.Error, errors.SqsError, OSError),
)


def queue_names(context: click.Context, prefix: str) -> list[str]:
    """Return the names of queues with a prefix, none if they cannot be read."""
    try:
        with _opened(context) as node:
            urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
    except _UNKNOWN:
        return []
    return [url.rsplit("/", 1)[1] for url in urls]


@contextmanager
def _opened(context: click.Context) -> Iterator[Source]:
    file, given = context.find_root().params.get("file"), place.given(context)
    loaded = config.load(file=file, overrides=given)
    if loaded.settings.endpoint:
        with remote.opened(loaded, given, _SECONDS) as node:
            yield node
        return
    settings = replace(address.checked(loaded).settings, failover_wait=_SECONDS)
    _, url = running_database(settings)
    with local.opened(settings, url) as here:
        yield here

"""Shell completion of queue names, if the database responds within a second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from skipmq import config, errors
from skipmq.cli import local, place
from skipmq.cli.environment import running_database
from skipmq.cli.output import silence
from skipmq.cli.source import RemoteError, Source
from skipmq.config import ConfigError
from skipmq.database import address, session
from skipmq.embedded import EmbeddedError

_SECONDS = 1.0
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def queue_names(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's signature.
    prefix: str,
) -> list[CompletionItem]:
    """Return the names of queues with a prefix, none if the database is unavailable."""
    with silence():
        try:
            with _opened(context) as node:
                urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
        except (
            *(
                click.UsageError,
                ConfigError,
                EmbeddedError,
                RemoteError,
                session.Error,
                errors.SqsError,
                OSError,
            ),
        ):
            return []
    return [CompletionItem(each.rsplit("/", 1)[1]) for each in urls]


@contextmanager
def _opened(context: click.Context) -> Iterator[Source]:
    file, given = context.find_root().params.get("file"), place.given(context)
    loaded = config.load(file=file, overrides=given)
    if loaded.settings.endpoint:
        # Imported late: what a command on the database does not need.
        from skipmq.cli import remote  # noqa: PLC0415

        with remote.opened(loaded, given, _SECONDS) as node:
            yield node
        return
    settings = replace(address.checked(loaded).settings, failover_wait=_SECONDS)
    _, url = running_database(settings)
    with local.opened(settings, url) as here:
        yield here


def queue_argument(command: Decorated) -> Decorated:
    """Add the argument NAME, a queue by its name, URL or ARN, with the options to reach it."""
    name = click.argument("name", callback=place.name_of, shell_complete=queue_names)
    return name(place.reached(command))

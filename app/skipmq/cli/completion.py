"""Shell completion of queue names, if the database responds within a second."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from skipmq import config, errors
from skipmq.cli import local, place
from skipmq.cli.environment import running_database
from skipmq.cli.output import silence
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
            file = context.find_root().params.get("file")
            loaded = address.checked(config.load(file=file, overrides=place.given(context)))
            settings = replace(loaded.settings, failover_wait=_SECONDS)
            _, url = running_database(settings)
            with local.opened(settings, url) as node:
                urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
        except (
            *(
                click.UsageError,
                ConfigError,
                EmbeddedError,
                session.Error,
                errors.SqsError,
                OSError,
            ),
        ):
            return []
    return [CompletionItem(each.rsplit("/", 1)[1]) for each in urls]


def queue_argument(command: Decorated) -> Decorated:
    """Add the argument NAME, a queue by its name, URL or ARN, with the options of its place."""
    name = click.argument("name", callback=place.name_of, shell_complete=queue_names)
    return name(place.in_place(command))

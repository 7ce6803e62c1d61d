"""Shell completion of queue names, if the database responds within a second."""

from dataclasses import replace

import click
from click.shell_completion import CompletionItem

from skipmq import config, errors
from skipmq.cli import local
from skipmq.cli.environment import running_database
from skipmq.cli.output import silence
from skipmq.config import ConfigError
from skipmq.database import address, session
from skipmq.embedded import EmbeddedError

_SECONDS = 1.0


def queue_names(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's signature.
    prefix: str,
) -> list[CompletionItem]:
    """Return the names of queues with a prefix, none if the database is unavailable."""
    with silence():
        try:
            loaded = address.checked(config.load(file=context.find_root().params.get("file")))
            settings = replace(loaded.settings, failover_wait=_SECONDS)
            _, url = running_database(settings)
            with local.opened(settings, url) as node:
                urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
        except (ConfigError, EmbeddedError, session.Error, errors.SqsError, OSError):
            return []
    return [CompletionItem(each.rsplit("/", 1)[1]) for each in urls]


queue_argument = click.argument("name", shell_complete=queue_names)

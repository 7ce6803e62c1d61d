"""Shell completion of queue names, if the database responds within a second."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from skipmq.cli import place
from skipmq.cli.output import silence

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def queue_names(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's signature.
    prefix: str,
) -> list[CompletionItem]:
    """Return the names of queues with a prefix, none if the database is unavailable."""
    with silence():
        # Imported late: only a shell that completes a name needs all of it.
        from skipmq.cli import names_found  # noqa: PLC0415

        return [CompletionItem(name) for name in names_found.queue_names(context, prefix)]


def queue_argument(command: Decorated) -> Decorated:
    """Add the argument NAME, a queue by its name, URL or ARN, with the options to reach it."""
    name = click.argument("name", callback=place.name_of, shell_complete=queue_names)
    return name(place.reached(command))

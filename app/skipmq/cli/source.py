"""What the queue commands run on: a node in this process, or one that is called over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import click
from click.shell_completion import CompletionItem

from skipmq.cli import place
from skipmq.cli.environment import configuration, running_database
from skipmq.cli.output import silence

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
# The longest time in seconds that a shell waits for names.
_COMPLETION_SECONDS = 1.0


class Source(Protocol):
    """A node, wherever it runs; raises errors.SqsError where it is here, else RemoteError."""

    # The most queues in an answer with their statistics.
    counted_queues: int

    def act(self, action: str, /, **parameters: Any) -> dict[str, Any]:
        """Run an action and return its result, in which bytes are in base64."""

    def queue_url(self, text: str) -> str:
        """Return the URL of a queue by its name, URL or ARN, as `place.queue_url` does."""

    def advance_tasks(self) -> None:
        """Take message tasks a step further where no node may do it."""


@contextmanager
def open_source(
    *,
    create: bool = False,
    everywhere: bool = False,
    starts: bool = True,
    seconds: float | None = None,
) -> Iterator[Source]:
    """Yield the node of the settings: that of the endpoint, else one in this process.

    With `create`, an embedded database is created if missing; without `starts`, none is started,
    and the database is not checked. With `everywhere`, statistics read in this process are of all
    accounts and regions but for those that options name. Calls wait for the database up to
    `seconds`, by default as long as a node's. Raises RemoteError.
    """
    loaded, given = configuration(), place.given(click.get_current_context())
    # Imported late: each needs much that the other does not.
    if loaded.settings.endpoint:
        from skipmq.cli import remote  # noqa: PLC0415

        with remote.opened(loaded, given, seconds) as node:
            yield node
    else:
        from skipmq.cli.local import open_node  # noqa: PLC0415

        settings = loaded.settings
        if seconds is not None:
            settings = replace(settings, failover_wait=seconds)
        url = "" if starts else running_database(settings)[1]
        with open_node(settings, url, create=create) as local:
            if everywhere:
                local.name_place(given.get("account", ""), given.get("region", ""))
            yield local


def act(action: str, *, create: bool = False, **parameters: Any) -> dict[str, Any]:
    """Run one action on the node of the settings and return its result."""
    with open_source(create=create) as node:
        return node.act(action, **parameters)


def everything(node: Source, action: str, member: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return what the pages of a list have."""
    found: list[dict[str, Any]] = []
    token = None
    while True:
        page = node.act(action, NextToken=token, **parameters)
        found += page[member]
        if (token := page.get("NextToken")) is None:
            return found


def queue_names(
    context: click.Context,
    parameter: click.Parameter,  # noqa: ARG001 - click's signature.
    prefix: str,
) -> list[CompletionItem]:
    """Return the names of queues with a prefix, none if they cannot be read within a second."""
    with silence(), context.scope(cleanup=False):
        try:
            with open_source(starts=False, seconds=_COMPLETION_SECONDS) as node:
                urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
        except Exception:  # noqa: BLE001 - a shell that completes a line shows no error.
            return []
    return [CompletionItem(url.rsplit("/", 1)[1]) for url in urls]


def queue_argument(command: Decorated) -> Decorated:
    """Add the argument NAME, a queue by its name, URL or ARN, with the options to reach it."""
    name = click.argument("name", callback=place.name_of, shell_complete=queue_names)
    return name(place.reached(command))

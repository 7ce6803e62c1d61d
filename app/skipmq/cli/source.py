"""What the queue commands run on: a node in this process, or one that is called over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import click

from skipmq.cli import place
from skipmq.cli.environment import configuration


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
    *, create: bool = False, everywhere: bool = False, seconds: float | None = None
) -> Iterator[Source]:
    """Yield the node of the settings: that of the endpoint, else one in this process.

    With `create`, an embedded database is created if missing. With `everywhere`, statistics read in
    this process are of all accounts and regions but for those that options name. Calls wait for the
    database up to `seconds`, by default as long as a node's. Raises RemoteError.
    """
    loaded, given = configuration(), place.given(click.get_current_context())
    # Imported late: each needs much that the other does not.
    if loaded.settings.endpoint:
        from skipmq.cli import remote  # noqa: PLC0415

        with remote.opened(loaded, given, seconds) as node:
            yield node
    else:
        from skipmq.cli.node import open_node  # noqa: PLC0415

        settings = loaded.settings
        if seconds is not None:
            settings = replace(settings, failover_wait=seconds)
        with open_node(settings, create=create) as local:
            if everywhere:
                local.name_place(given.get("account", ""), given.get("region", ""))
            yield local


def act(action: str, *, create: bool = False, **parameters: Any) -> dict[str, Any]:
    """Run one action on the node of the settings and return its result."""
    with open_source(create=create) as node:
        return node.act(action, **parameters)

"""What the queue commands run on: a node in this process, or one that is called over HTTP."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import click

from skipmq.cli import place
from skipmq.cli.environment import configuration
from skipmq.model import QueueMinute, QueueStatistics
from skipmq.store.statistics import Order


class RemoteError(Exception):
    """A call of a node over HTTP failed; the message is one line with the remedy."""


class Activity(NamedTuple):
    """The statistics of a queue, its last minutes with activity, and the time in seconds."""

    queue: QueueStatistics
    minutes: Sequence[QueueMinute]
    now: int


class Arrival(NamedTuple):
    """A message that arrived at a time in microseconds since 1970.

    Its body lacks `cut` characters.
    """

    at: int
    message_id: str
    state: str
    group_id: str | None
    body: str
    cut: int


class Arrivals(Protocol):
    """What arrives in a queue."""

    def new(self) -> list[Arrival]:
        """Return the messages that arrived since the last call, each once."""


class Source(Protocol):
    """A node, wherever it runs; raises errors.SqsError where it is here, else RemoteError."""

    def act(self, action: str, /, **parameters: Any) -> dict[str, Any]:
        """Run an action and return its result, in which bytes are in base64."""

    @property
    def own(self) -> tuple[str | None, str | None]:
        """Return the account and region whose queues are shown by their names alone."""

    def queue_url(self, text: str) -> str:
        """Return the URL of a queue by its name, URL or ARN, as `place.queue_url` does."""

    def statistics(
        self,
        limit: int,
        *,
        account: str | None = None,
        region: str | None = None,
        search: str = "",
        order: Order = "name",
    ) -> tuple[list[QueueStatistics], QueueStatistics]:
        """Return the statistics of up to `limit` queues, and the sum of the others."""

    def activity(self, name: str, minutes: int) -> Activity:
        """Return what happened in a queue in the last minutes."""

    def follow(self, name: str) -> Arrivals:
        """Return what arrives in a queue from now on."""

    def advance_tasks(self) -> None:
        """Take message tasks a step further where no node may do it."""


@contextmanager
def open_source(*, create: bool = False) -> Iterator[Source]:
    """Yield the node of the settings: that of the endpoint, else one in this process.

    With `create`, an embedded database is created if missing. Raises RemoteError.
    """
    loaded = configuration()
    # Imported late: each needs much that the other does not.
    if loaded.settings.endpoint:
        from skipmq.cli import remote  # noqa: PLC0415

        given = place.given(click.get_current_context())
        with remote.opened(loaded, given) as node:
            yield node
    else:
        from skipmq.cli.node import open_node  # noqa: PLC0415

        with open_node(loaded.settings, create=create) as local:
            yield local


def act(action: str, *, create: bool = False, **parameters: Any) -> dict[str, Any]:
    """Run one action on the node of the settings and return its result."""
    with open_source(create=create) as node:
        return node.act(action, **parameters)

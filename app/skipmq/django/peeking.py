"""Queues and messages as they are: nothing is received, nothing is changed."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, connections

from skipmq import Queue
from skipmq.client.errors import ClientError, explained, sqlstate
from skipmq.client.message import EPOCH
from skipmq.django import statements


@dataclass(frozen=True, slots=True)
class Counted:
    """A queue with its numbers of messages; `oldest` is the age of the oldest one in seconds."""

    account: str
    region: str
    name: str
    visible: int
    in_flight: int
    delayed: int
    oldest: float | None
    is_dead_letter_queue: bool


@dataclass(frozen=True, slots=True)
class Peeked:
    """A message; `place` is where the next page begins, `attributes` are JSON of SQS."""

    place: str
    number: int
    state: str
    visible_in: int
    message_id: str
    body: str
    attributes: str | None
    receive_count: int
    # In microseconds since 1970.
    sent: int
    group: str | None
    deduplication_id: str | None

    @property
    def sent_at(self) -> datetime:
        """Return when it was sent."""
        return EPOCH + timedelta(microseconds=self.sent)


def queues(alias: str, search: str, *, limit: int, offset: int) -> tuple[list[Counted], int]:
    """Return a page of the queues whose names contain a text, by name, and the number of all.

    Raises ClientError.
    """
    *rows, rest = _rows(alias, statements.QUEUES, search, limit, offset)
    found = [Counted(*row[: len(fields(Counted))]) for row in rows]
    return found, len(found) + rest[-1]


def messages(  # noqa: PLR0913 - what a page is.
    alias: str,
    queue: Queue[Any],
    *,
    limit: int,
    state: str | None = None,
    after: str | None = None,
    size: int | None = None,
) -> list[Peeked]:
    """Return a page of a queue's messages after a place: up to `limit`, of about `size` bytes.

    Raises ClientError.
    """
    where = (queue.name, queue.account, queue.region)
    try:
        rows = _rows(alias, statements.MESSAGES, *where, state, limit, after, size)
    except Error as error:
        found = explained(error, *where)
        if found is None:
            raise
        raise found from error
    return [Peeked(*row) for row in rows]


def _rows(alias: str, statement: str, *parameters: Any) -> list[Any]:
    try:
        return statements.rows(alias, statement, *parameters)
    except Error as error:
        state = sqlstate(error)
        if state == "42501":
            role = connections[alias].settings_dict["USER"] or "of this connection"
            raise ClientError(
                f"the role {role} may not read queues: the owner of the schema grants it, and"
                f" every change of queues too, by `grant skipmq_node to {role}`",
                state,
            ) from error
        if state == "3F000":
            raise ClientError(
                f"the database {alias!r} has no schema of SkipMQ: run `manage.py migrate`", state
            ) from error
        raise

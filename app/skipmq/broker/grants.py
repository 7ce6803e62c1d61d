"""Grants of queues to database roles, for use by SQL."""

from collections.abc import Sequence
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.statement import TEXT, TEXTS, Statement


class QueueGrant(NamedTuple):
    """A grant to a database role for SQL access to queues; `queue` is a name or a pattern."""

    role: str
    account: str
    region: str
    queue: str
    may_send: bool
    may_receive: bool
    # In seconds since 1970, by the database's clock.
    granted_at: float
    granted_by: str


_ALL = Statement(
    "select role, account, region, queue, may_send, may_receive,"
    " extract(epoch from granted_at)::float8, granted_by from skipmq.queue_grants()"
)
_GRANT = Statement(
    "select from skipmq.grant_queues($1, $2, $3, $4, $5)", TEXT, TEXTS, TEXTS, TEXT, TEXT
)
_REVOKE = Statement(
    "select from skipmq.revoke_queues($1, $2, $3, $4, $5)",
    TEXT,
    TEXTS,
    TEXTS,
    TEXT,
    TEXT,
    repeatable=False,
)
_REVOKE_ALL = Statement("select from skipmq.revoke_queues($1)", TEXT, repeatable=False)


async def stored(database: Database) -> list[QueueGrant]:
    """Return all grants, by role, account, region and queue."""
    return [QueueGrant(*row) for row in await database.rows(_ALL)]


async def grant(  # noqa: PLR0913 - the last are columns.
    database: Database,
    role: str,
    *,
    send: Sequence[str],
    receive: Sequence[str],
    account: str,
    region: str,
) -> None:
    """Allow a role to send to and to receive from queues: names, or patterns with `*`.

    Raises errors.ResourceNotFoundException if the role does not exist, and
    errors.InvalidParameterValueException for an invalid queue name.
    """
    await database.rows(_GRANT, (role, send, receive, account, region))


async def revoke(  # noqa: PLR0913 - the last are columns.
    database: Database,
    role: str,
    *,
    send: Sequence[str],
    receive: Sequence[str],
    account: str,
    region: str,
) -> None:
    """Revoke grants, by the names or patterns that were granted.

    Raises errors.ResourceNotFoundException if the role or a grant does not exist.
    """
    parameters = (role, send, receive, account, region)
    await database.rows(_REVOKE, parameters)


async def revoke_all(database: Database, role: str) -> None:
    """Revoke all grants of a role; raise errors.ResourceNotFoundException if it has none."""
    await database.rows(_REVOKE_ALL, (role,))

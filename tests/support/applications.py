"""Roles of applications: their logins, and what they are granted."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from support.postgres import Connection
from support.sql import number

ACCOUNT, REGION = "000000000000", "us-east-1"


class Applications:
    """Makes roles by the connection of a database's owner, and connects as them."""

    def __init__(self, database: str, owner: Connection) -> None:
        self.database, self.owner = database, owner
        self._made: list[str] = []
        self._stack = ExitStack()

    def create(self, role: str, rights: str = "login") -> Self:
        self.owner.execute(f'create role "{role}" {rights}')
        return self.adopt(role)

    def adopt(self, role: str) -> Self:
        """Drop at the end a role that is made otherwise."""
        self._made.append(role)
        return self

    def grant(
        self,
        role: str,
        *,
        send: Sequence[str] = (),
        receive: Sequence[str] = (),
        account: str = ACCOUNT,
        region: str = REGION,
    ) -> Self:
        self.owner.execute(
            "select skipmq.grant_queues(%s, %s::text[], %s::text[], %s, %s)",
            (role, list(send), list(receive), account, region),
        )
        return self

    def revoke(
        self, role: str, *, send: Sequence[str] | None = None, receive: Sequence[str] | None = None
    ) -> None:
        self.owner.execute(
            "select skipmq.revoke_queues(%s, %s::text[], %s::text[])",
            (role, send and list(send), receive and list(receive)),
        )

    def connect(self, role: str) -> Connection:
        """Log in as a role, in autocommit mode, until the end of the test."""
        return self._stack.enter_context(psycopg.connect(self.url(role), autocommit=True))

    def url(self, role: str) -> str:
        """Return the URL with which a role logs in."""
        return self.database.replace("postgresql://postgres@", f"postgresql://{role}@")

    def sender(self, role: str, *queues: str) -> Connection:
        """Make a login that may send to queues, and connect as it."""
        return self.create(role).grant(role, send=queues).connect(role)

    def both(self, role: str, *queues: str) -> Connection:
        """Make a login that may send to queues and receive from them, and connect as it."""
        return self.create(role).grant(role, send=queues, receive=queues).connect(role)

    def close(self) -> None:
        """Drop the roles with what they own in this database: the server outlives the test."""
        self._stack.close()
        for role in reversed(self._made):
            if number(self.owner, "select count(*) from pg_roles where rolname = %s", role):
                self.owner.execute(f'drop owned by "{role}" cascade')
                self.owner.execute(f'drop role "{role}"')


@contextmanager
def applications_of(database: str) -> Iterator[Applications]:
    """Give the applications of a database, given by its owner's URL; their roles go at the end."""
    with psycopg.connect(database, autocommit=True) as owner:
        made = Applications(database, owner)
        try:
            yield made
        finally:
            made.close()


def send(connection: Connection, queue: str, body: str = "x") -> None:
    """Send by the function for the queue's type; a FIFO message in a group of its own."""
    if queue.endswith(".fifo"):
        connection.execute(
            "select skipmq.send_fifo_message(%s, %s, 'g', gen_random_uuid()::text)", (queue, body)
        )
    else:
        connection.execute("select skipmq.send_message(%s, %s)", (queue, body))


def receive(
    connection: Connection, queue: str, limit: int | None = 10, timeout: int | None = None
) -> list[dict[str, Any]]:
    return (
        connection.cursor(row_factory=dict_row)
        .execute("select * from skipmq.receive_message(%s, %s, %s)", (queue, limit, timeout))
        .fetchall()
    )


def bodies(connection: Connection, queue: str) -> list[str]:
    return [row["body"] for row in receive(connection, queue)]


def receipt(received: dict[str, Any]) -> tuple[Any, ...]:
    """Return what names a receive of a message in the functions that settle it."""
    return received["id"], received["receive_count"], received["message_id"]


def delete(connection: Connection, queue: str, received: dict[str, Any]) -> bool:
    return bool(
        number(
            connection,
            "select skipmq.delete_message(%s, %s, %s, %s)",
            queue,
            *receipt(received),
        )
    )


def hide(connection: Connection, queue: str, received: dict[str, Any], timeout: int | None) -> bool:
    return bool(
        number(
            connection,
            "select skipmq.change_message_visibility(%s, %s, %s, %s, %s)",
            queue,
            *receipt(received),
            timeout,
        )
    )


def give_back(connection: Connection, queue: str, received: dict[str, Any]) -> bool:
    statement = "select skipmq.return_message(%s, %s, %s, %s)"
    return bool(number(connection, statement, queue, *receipt(received)))


def dead_letter(
    connection: Connection, queue: str, received: dict[str, Any], reason: str | None = None
) -> bool:
    statement = "select skipmq.dead_letter_message(%s, %s, %s, %s, %s)"
    return bool(number(connection, statement, queue, *receipt(received), reason))

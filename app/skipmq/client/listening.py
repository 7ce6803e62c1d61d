"""Wake-ups: nodes notify of sends to queues that a worker says it waits on."""

import asyncio
import logging
from collections.abc import Sequence
from uuid import uuid4

import psycopg

from skipmq.client import statements
from skipmq.client.connections import Connections
from skipmq.client.source import Wakened

log = logging.getLogger(__package__)

# Nodes believe an announcement for 30 s.
_ANNOUNCE_SECONDS = 10.0
_RETRY_SECONDS = 5.0


async def listen(connections: Connections, runners: Sequence[Wakened]) -> None:
    """Wake the runners, by the ARNs of their queues, until it is cancelled.

    Without it they poll: a message that was sent by SQL is found only so.
    """
    process = f"work-{uuid4().hex}"
    while True:
        try:
            async with await connections.connect() as connection:
                with connections.deadline(connection):
                    found = await connection.execute(statements.PLACE, (None, None))
                    ((account, region),) = await found.fetchall()
                    await connection.execute(statements.LISTEN)
                named = {each.queue.arn_in(account, region): each for each in runners}
                announcements = [f"{process} waiting {arn}" for arn in named]
                while True:
                    with connections.deadline(connection):
                        await connection.execute(statements.NOTIFY, (announcements,))
                    async for notice in connection.notifies(timeout=_ANNOUNCE_SECONDS):
                        for arn in sent(notice.payload):
                            if arn in named:
                                named[arn].wake()
        except psycopg.Error as error:
            log.debug("no notifications from nodes for now: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)


def sent(payload: str) -> list[str]:
    """Return the queues of a notification that something was sent: `PROCESS sent ARN ARN…`."""
    _, kind, *arns = [*payload.split(" "), ""]
    return arns if kind == "sent" else []

"""Notes of damaged pages in the database, for all nodes, `skipmq doctor` and alerts."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import psycopg

from skipmq.database.statement import TEXT, Rows, Statement
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_NOTE = Statement("select skipmq.note_damage($1)", TEXT)
# Seconds until the same error is noted again.
_INTERVAL = 10.0


class DamageNotes:
    """Notes of the damaged pages that a pool meets; for one loop."""

    def __init__(self, rows: Callable[..., Awaitable[Rows]]) -> None:
        self._rows = rows
        # PostgreSQL's error, and when it was noted, a time of time.monotonic.
        self._last: tuple[str | None, float] = (None, 0.0)
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, error: str | None) -> None:
        """Note PostgreSQL's error, soon, unless it has just been noted."""
        last, at = self._last
        if error is None or (error == last and monotonic() - at < _INTERVAL):
            return
        self._last = (error, monotonic())
        task = asyncio.get_running_loop().create_task(self._note(error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note(self, error: str) -> None:
        log.error("a page of the database is damaged", error=error)
        try:
            await self._rows(_NOTE, (error,))
        except (errors.SqsError, psycopg.Error) as failure:
            log.warning("cannot note the damage", error=" ".join(str(failure).split()))

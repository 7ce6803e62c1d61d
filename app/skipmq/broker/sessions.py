"""The sessions of the database server, for operators."""

from typing import NamedTuple

from skipmq.database.pool import Pool
from skipmq.database.statement import BOOLEAN, INTEGER, TIME, Search, Statement, columns


class SessionRow(NamedTuple):
    """A client's session; `began` is in microseconds since 1970, and `blocked_by` has processes.

    What the schema's owner may not see is None.
    """

    pid: int
    began: int | None
    program: str | None
    role: str | None
    database: str | None
    address: str | None
    state: str | None
    seconds: float | None
    state_seconds: float | None
    transaction_seconds: float | None
    holds_snapshot: bool | None
    waits_for: str | None
    blocked_by: str
    may_end: bool


_LIST = Search(
    f"select {columns(SessionRow, blocked_by='array_to_string(blocked_by, $$,$$)')}"
    " from skipmq.database_sessions()"
)
_END = Statement("select skipmq.end_backend($1, $2, $3)", INTEGER, TIME, BOOLEAN, repeatable=False)


async def listed(pool: Pool, deadline: float) -> list[SessionRow]:
    """Return the sessions of a server: those that block others first, then those that wait."""
    return [SessionRow(*row) for row in await pool.rows(_LIST, deadline=deadline)]


async def end(pool: Pool, pid: int, began: int | None, *, terminates: bool, deadline: float) -> str:
    """Cancel a session's statement, or terminate it; return done, missing or refused."""
    ((outcome,),) = await pool.rows(_END, (pid, began, terminates), deadline=deadline)
    return str(outcome)

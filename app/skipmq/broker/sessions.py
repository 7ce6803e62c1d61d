"""The sessions of the database server, for operators."""

from typing import Annotated

import msgspec

from skipmq.database.pool import Pool
from skipmq.database.statement import BOOLEAN, INTEGER, TIME, Search, Statement, columns, whole


class Session(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A client's session; `blocked_by` has processes.

    What the schema's owner may not see is None.
    """

    process_id: Annotated[int, "pid"]
    holds_snapshot: Annotated[bool, "coalesce(holds_snapshot, false)"]
    blocked_by: list[int]
    may_end: bool
    started_microseconds: Annotated[int | None, "began"] = None
    program: str | None = None
    role: str | None = None
    database: str | None = None
    client_address: Annotated[str | None, "address"] = None
    state: str | None = None
    seconds: Annotated[int | None, whole("seconds")] = None
    state_seconds: Annotated[int | None, whole("state_seconds")] = None
    transaction_seconds: Annotated[int | None, whole("transaction_seconds")] = None
    waits_for: str | None = None


_LIST = Search(f"select {columns(Session)} from skipmq.database_sessions()")
_END = Statement("select skipmq.end_backend($1, $2, $3)", INTEGER, TIME, BOOLEAN, repeatable=False)


async def listed(pool: Pool, deadline: float) -> list[Session]:
    """Return the sessions of a server: those that block others first, then those that wait."""
    return [Session(*row) for row in await pool.rows(_LIST, deadline=deadline)]


async def end(pool: Pool, pid: int, began: int | None, *, terminates: bool, deadline: float) -> str:
    """Cancel a session's statement, or terminate it; return done, missing or refused."""
    ((outcome,),) = await pool.rows(_END, (pid, began, terminates), deadline=deadline)
    return str(outcome)

"""What the janitor does in the database; a job that another node runs does nothing here."""

import structlog

from skipmq import errors
from skipmq.database import Database, Search, Statement
from skipmq.database.statement import BOOLEAN, INTEGER, INTERVAL

log = structlog.get_logger()

_EXPIRE = Statement("select skipmq.expire_messages($1)", INTEGER)
_CLEAR_RETIRED = Statement("select skipmq.clear_retired($1)", INTEGER)
_EXPIRE_DEDUPLICATION = Statement("select skipmq.expire_deduplication($1)", INTEGER)
_FOLD_COUNTS = Statement("select skipmq.fold_counts($1)", BOOLEAN)
_MARK_NOISY = Statement("select skipmq.mark_noisy($1)", INTEGER)
_ADVANCE_MOVE_TASKS = Statement("select skipmq.advance_move_tasks($1)", INTEGER)
_CREATE_PARTITIONS = Statement("select skipmq.create_history_partitions($1)", INTEGER)
_DROP_PARTITIONS = Statement(
    "select skipmq.drop_history_partitions(make_interval(days => $1), $2)", INTEGER, BOOLEAN
)
_END_LONG_SNAPSHOTS = Statement(
    "select pid, role, application_name, extract(epoch from held)::float8"
    " from skipmq.end_long_snapshots($1)",
    INTERVAL,
)
_OLDEST_SNAPSHOT = Statement(
    "select extract(epoch from clock_timestamp() - began)::float8, session"
    " from skipmq.oldest_snapshot()"
)
_DATABASE_STATISTICS = Search(
    "select name, label, value from skipmq.database_statistics() where value is not null"
)
_EXPIRE_AUDIT = Statement(
    "select skipmq.expire_audit_records(make_interval(days => $1), $2)", INTEGER, INTEGER
)
_EXPIRE_ENDED_SESSIONS = Statement("select skipmq.expire_ended_sessions($1)", INTEGER)
_UNARCHIVED = Statement("select skipmq.count_unarchived_days(make_interval(days => $1))", INTEGER)


class Upkeep:
    """The upkeep functions of the database; each returns how much it did."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._remedies: set[str | None] = set()

    async def expire_messages(self, limit: int) -> int:
        """Settle up to `limit` messages past their retention period."""
        return await self._number(_EXPIRE, limit)

    async def clear_retired(self, limit: int) -> int:
        """Settle up to `limit` messages of purged and deleted queues."""
        return await self._number(_CLEAR_RETIRED, limit)

    async def expire_deduplication(self, limit: int) -> int:
        """Forget up to `limit` deduplication ids, and as many receive attempts, that are over."""
        return await self._number(_EXPIRE_DEDUPLICATION, limit)

    async def expire_audit_records(self, keep_days: int, limit: int) -> int:
        """Delete older records of the audit log, up to `limit`."""
        return await self._number(_EXPIRE_AUDIT, keep_days, limit)

    async def expire_ended_sessions(self, limit: int) -> int:
        """Forget up to `limit` ended sessions that would be over by now anyway."""
        return await self._number(_EXPIRE_ENDED_SESSIONS, limit)

    async def fold_counts(self, *, everything: bool = False) -> int:
        """Add up what has changed in the counts of messages."""
        return await self._number(_FOLD_COUNTS, everything)

    async def mark_noisy(self, limit: int) -> int:
        """Find noisy tenants and put up to `limit` of their messages behind those of others."""
        return await self._number(_MARK_NOISY, limit)

    async def advance_move_tasks(self, limit: int) -> int:
        """Move up to `limit` messages for each message move task that is active."""
        return await self._number(_ADVANCE_MOVE_TASKS, limit)

    async def create_history_partitions(self, days: int) -> int:
        """Create the partitions of the history for today and so many days after it."""
        return await self._number(_CREATE_PARTITIONS, days)

    async def drop_history_partitions(self, keep_days: int, *, archived: bool) -> int:
        """Drop older partitions of the history; with `archived` only those that an export has."""
        return await self._number(_DROP_PARTITIONS, keep_days, archived)

    async def end_long_snapshots(self, seconds: float) -> int:
        """End the readers' sessions that have held a snapshot for longer, and log each.

        Where the owner of the schema has no right to, each remedy is logged once.
        """
        try:
            ended = await self._database.rows(_END_LONG_SNAPSHOTS, (seconds,))
        except errors.InsufficientPrivilege as error:
            if error.remedy not in self._remedies:
                self._remedies.add(error.remedy)
                log.warning(
                    "readers may hold up the database", reason=error.reason, remedy=error.remedy
                )
            return 0
        for pid, role, name, held in ended:
            log.warning(
                "ended a reader that held a snapshot for too long",
                session=pid,
                role=role,
                application=name,
                seconds=round(held),
                limit=seconds,
            )
        return len(ended)

    async def oldest_snapshot(self) -> tuple[float, str]:
        """Return how long a transaction has kept the database from vacuuming, and its session."""
        ((seconds, session),) = await self._database.rows(_OLDEST_SNAPSHOT)
        return float(seconds or 0), session or ""

    async def count_unarchived_days(self, keep_days: int) -> int:
        """Return how many older days of the history are there only because no export has them."""
        return await self._number(_UNARCHIVED, keep_days)

    async def database_statistics(self) -> list[tuple[str, str, float]]:
        """Return what an operator watches of the database: names, each with a label, and values."""
        rows = await self._database.rows(_DATABASE_STATISTICS)
        return [(name, label, value) for name, label, value in rows]

    async def _number(self, statement: Statement, *parameters: object) -> int:
        ((number,),) = await self._database.rows(statement, parameters)
        return int(number)

"""What the janitor does in the database; a job that another node is at does nothing here."""

from datetime import date
from typing import Any

import psycopg
import structlog

from skipmq.store.engine import Database

log = structlog.get_logger()


class Upkeep:
    """The upkeep functions of the database; each returns how much it did."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._remedies: set[str | None] = set()

    def expire_messages(self, limit: int) -> int:
        """Settle up to `limit` messages past their retention period."""
        return self._number("select skipmq.expire_messages(%s::int)", limit)

    def clear_retired(self, limit: int) -> int:
        """Settle up to `limit` messages of purged and deleted queues."""
        return self._number("select skipmq.clear_retired(%s::int)", limit)

    def expire_deduplication(self, limit: int) -> int:
        """Forget up to `limit` deduplication ids, and as many receive attempts, that are over."""
        return self._number("select skipmq.expire_deduplication(%s::int)", limit)

    def fold_counts(self, *, everything: bool = False) -> int:
        """Add up what has changed in the numbers of messages."""
        return self._number("select skipmq.fold_counts(%s)", everything)

    def mark_noisy(self, limit: int) -> int:
        """Find noisy tenants and put up to `limit` of their messages behind those of others."""
        return self._number("select skipmq.mark_noisy(%s::int)", limit)

    def advance_move_tasks(self, limit: int) -> int:
        """Move up to `limit` messages for each message move task that is active."""
        return self._number("select skipmq.advance_move_tasks(%s::int)", limit)

    def create_history_partitions(self, days: int) -> int:
        """Make the partitions of the history for today and so many days after it."""
        return self._number("select skipmq.create_history_partitions(%s::int)", days)

    def drop_history_partitions(self, keep_days: int, *, archived: bool) -> int:
        """Drop older partitions of the history; with `archived` only those that an export has."""
        return self._number(
            "select skipmq.drop_history_partitions(make_interval(days => %s::int), %s)",
            keep_days,
            archived,
        )

    def end_long_snapshots(self, seconds: float) -> int:
        """End the readers' sessions that have held a snapshot for longer, and say so in the log.

        Where the owner of the schema has no right to, each remedy is said once.
        """
        try:
            ended = self._database.rows(
                "select pid, role, application_name, extract(epoch from held)::float8"
                " from skipmq.end_long_snapshots(make_interval(secs => %s::float8))",
                (seconds,),
            )
        except psycopg.errors.InsufficientPrivilege as error:
            remedy = error.diag.message_hint
            if remedy not in self._remedies:
                self._remedies.add(remedy)
                log.warning(
                    "readers may hold up the database",
                    reason=error.diag.message_primary,
                    remedy=remedy,
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

    def oldest_snapshot(self) -> float:
        """Return for how many seconds a transaction has kept the database from clearing up."""
        ((seconds,),) = self._database.rows(
            "select extract(epoch from clock_timestamp() - skipmq.oldest_snapshot())::float8"
        )
        return float(seconds or 0)

    def count_unarchived_days(self, keep_days: int) -> int:
        """Return how many older days of the history are there only because no export has them."""
        return self._number(
            "select skipmq.count_unarchived_days(make_interval(days => %s::int))", keep_days
        )

    def record_archived_day(self, day: date, rows: int, until: int) -> bool:
        """Record that an export has all of a day: so many rows, of transactions below `until`.

        Returns false where the database knows better.
        """
        return bool(
            self._number("select skipmq.record_archived_day(%s, %s, %s)::int", day, rows, until)
        )

    def _number(self, statement: str, *parameters: Any) -> int:
        return int(self._database.rows(statement, parameters)[0][0])

"""What the janitor does in the database; a job that another node is at does nothing here."""

from skipmq.store.engine import Database


class Upkeep:
    """The upkeep functions of the database; each returns how much it did."""

    def __init__(self, database: Database) -> None:
        self._database = database

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

    def drop_history_partitions(self, keep_days: int) -> int:
        """Drop the partitions of the history that are older."""
        return self._number(
            "select skipmq.drop_history_partitions(make_interval(days => %s::int))", keep_days
        )

    def _number(self, statement: str, parameter: int) -> int:
        return int(self._database.rows(statement, (parameter,))[0][0])

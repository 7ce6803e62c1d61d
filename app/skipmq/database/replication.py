"""The cluster's replication level, and the wait for more standbys than its commits wait for."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.statement import TEXT, Statement
from skipmq.database.wakeup import SharedRead
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_LEVEL = Statement("select names, required, listed, connected from skipmq.replication()")
_ACKNOWLEDGED = Statement("select position, acknowledged from skipmq.acknowledged($1)", TEXT)

# The standbys that must have a commit before it is acknowledged, from the number of standbys: with
# the primary they make two, the majority, or all of the servers.
_NEEDED: dict[str, Callable[[int], int]] = {
    "none": lambda _: 0,
    "any": lambda standbys: min(1, standbys),
    "majority": lambda standbys: (standbys + 1) // 2,
    "all": lambda standbys: standbys,
}
# Seconds for which a level is cached.
_VALID_SECONDS = 1.0
# The longest time for which a glance waits for the level, in seconds.
_GLANCE = 0.3
# Seconds between two polls of a wait for standbys: the first, doubled up to the longest.
_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


class Level(NamedTuple):
    """The synchronous standbys that the primary reports.

    `names` is synchronous_standby_names, `required` the number that acknowledge each commit,
    `listed` the number of candidates, `connected` the number of those connected (None: the role may
    not see it).
    """

    names: str
    required: int
    listed: int
    connected: int | None

    def lacks(self, mode: str) -> str | None:
        """Return why queues cannot have this ReplicationMode on this cluster, or None.

        A standby that is disconnected for a while is no reason.
        """
        if mode != "none" and not self.required:
            return "no standby acknowledges commits: synchronous_standby_names is empty"
        if self.connected is None and self.needed(mode) > self.required:
            return "the node cannot see the standbys: grant pg_monitor to the owner of the schema"
        return None

    @property
    def is_short(self) -> bool:
        """Whether fewer standbys are connected than must acknowledge each commit."""
        return self.connected is not None and self.connected < self.required

    def __str__(self) -> str:
        if not self.required:
            return "none: what is acknowledged is on one server"
        if self.is_short:
            return (
                f"{self.connected} of {self.required} standbys that must acknowledge each commit"
                f" are connected ({self.names}): sends wait"
            )
        connected = "an unknown number" if self.connected is None else str(self.connected)
        return (
            f"{self.required} of {self.listed} standbys acknowledge each commit,"
            f" {connected} connected ({self.names})"
        )

    def needed(self, mode: str) -> int:
        """Return the number of standbys that this ReplicationMode requires for a commit."""
        return _NEEDED[mode](self.listed)


def _rank(level: Level) -> tuple[int, int, int]:
    return level.required, level.listed, level.connected or 0


class Replication:
    """The replication of the cluster, as its primary reports it; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cached: dict[Pool, tuple[float, Level]] = {}
        self._look = SharedRead(self.level)

    async def glance(self) -> Level | None:
        """Return the level, or the last one where the database hangs, if there is one.

        Raises errors.SqsError.
        """
        if found := await self._look.within(_GLANCE):
            return found.result()
        return min((level for _, level in self._cached.values()), key=_rank, default=None)

    async def level(self, deadline: float = 0.0, queue_id: int | None = None) -> Level:
        """Return the replication level, at most a second old: that of a queue's partition.

        Without a queue it is that of the available partition whose commits the fewest servers have.
        """
        if queue_id is not None:
            return await self.level_of(self._database.partition(queue_id), deadline)
        await self._database.open_partitions()
        found = await asyncio.gather(
            *(self.level_of(database, deadline) for database in self._database.known()),
            return_exceptions=True,
        )
        if levels := [each for each in found if isinstance(each, Level)]:
            return min(levels, key=_rank)
        raise next(each for each in found if isinstance(each, BaseException))

    async def level_of(self, database: Pool, deadline: float = 0.0) -> Level:
        """Return the replication level of one database, at most a second old."""
        cached = self._cached.get(database)
        if cached is not None and cached[0] > monotonic():
            return cached[1]
        (row,) = await database.rows(_LEVEL, deadline=deadline)
        level = Level(*row)
        self._cached[database] = (monotonic() + _VALID_SECONDS, level)
        return level

    async def check(self, mode: str, deadline: float, *, refuses: bool) -> None:
        """Check that the cluster supports a queue's ReplicationMode.

        Raises errors.InvalidAttributeValue if it does not, or, without `refuses`, logs a warning.
        """
        lacking = (await self.level(deadline)).lacks(mode)
        if lacking is None:
            return
        if refuses:
            raise errors.InvalidAttributeValue(
                f"Invalid value for the parameter ReplicationMode. Reason: {mode}: {lacking}."
            )
        log.warning("the cluster does not support a ReplicationMode", mode=mode, lacking=lacking)

    async def confirm(self, mode: str, deadline: float, queue_id: int) -> bool:
        """Wait until the servers that a ReplicationMode requires have all that is committed.

        Return whether they have; they may not when the database was interrupted meanwhile. Raises
        errors.OutcomeUnknown when the deadline, a time of time.monotonic, passes, and for any other
        error: a committed statement must not be reported as refused.
        """
        if mode in ("none", "any"):
            return True  # The commit itself has waited.
        try:
            return await self._acknowledged(mode, deadline, queue_id)
        except errors.OutcomeUnknown:
            raise
        except Exception as error:
            raise errors.OutcomeUnknown from error

    async def _acknowledged(self, mode: str, deadline: float, queue_id: int) -> bool:
        database = self._database.partition(queue_id)
        interruptions = database.availability.interruptions
        level = await self.level(deadline, queue_id)
        needed = level.needed(mode)
        if needed <= level.required:
            return True
        pause, position = _PAUSE, None
        while True:
            ((position, acknowledged),) = await database.rows(
                _ACKNOWLEDGED, (position,), deadline=deadline
            )
            if interruptions != database.availability.interruptions:
                return False  # A new primary may lack the commit.
            if acknowledged >= needed:
                return True
            if monotonic() > deadline:
                raise errors.OutcomeUnknown
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

"""What the cluster gives of replication, and the wait for more than its commits wait for."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import structlog

from skipmq import errors
from skipmq.database.pool import Database
from skipmq.database.statement import TEXT, Statement

log = structlog.get_logger()

_LEVEL = Statement("select names, required, listed, connected from skipmq.replication()")
_ACKNOWLEDGED = Statement("select position, acknowledged from skipmq.acknowledged($1)", TEXT)

# Of so many standbys, how many must have what is acknowledged, so that with the primary they are
# one more, the majority, or all of the servers.
_NEEDED: dict[str, Callable[[int], int]] = {
    "none": lambda _: 0,
    "any": lambda standbys: min(1, standbys),
    "majority": lambda standbys: (standbys + 1) // 2,
    "all": lambda standbys: standbys,
}
# What the cluster gives is asked this often; what waits for a standby asks so often, in seconds.
_KNOWN_FOR = 1.0
_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


class Level(NamedTuple):
    """What the primary says of its synchronous standbys.

    `names` is synchronous_standby_names, `required` how many acknowledge each commit, `listed` how
    many are candidates, `connected` how many of those are there (None: the role may not see that).
    """

    names: str
    required: int
    listed: int
    connected: int | None

    def lacks(self, mode: str) -> str | None:
        """Return why no queue can have this ReplicationMode here, if none can.

        That a standby is away for a while is no reason.
        """
        if mode != "none" and not self.required:
            return "no standby acknowledges commits: synchronous_standby_names is empty"
        if self.connected is None and self.needed(mode) > self.required:
            return "the node cannot see the standbys: grant pg_monitor to the owner of the schema"
        return None

    def __str__(self) -> str:
        if not self.required:
            return "none: what is acknowledged is on one server"
        there = "an unknown number" if self.connected is None else str(self.connected)
        return (
            f"{self.required} of {self.listed} standbys acknowledge each commit, {there} connected"
            f" ({self.names})"
        )

    def needed(self, mode: str) -> int:
        """Return how many standbys must have what a queue of this ReplicationMode acknowledges."""
        return _NEEDED[mode](self.listed)


class Replication:
    """The cluster as its primary sees it; for one loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: tuple[float, Level] | None = None

    async def level(self, deadline: float = 0.0) -> Level:
        """Return what the cluster gives, as it was a second ago at most."""
        if self._known is not None and self._known[0] > monotonic():
            return self._known[1]
        (row,) = await self._database.rows(_LEVEL, deadline=deadline)
        level = Level(*row)
        self._known = (monotonic() + _KNOWN_FOR, level)
        return level

    async def check(self, mode: str, deadline: float, *, refuses: bool) -> None:
        """Compare what a queue asks for with what the cluster gives.

        Raises errors.InvalidAttributeValue where that is not enough, or, unless it `refuses`, logs
        a warning.
        """
        lacking = (await self.level(deadline)).lacks(mode)
        if lacking is None:
            return
        if refuses:
            raise errors.InvalidAttributeValue(
                f"Invalid value for the parameter ReplicationMode. Reason: {mode}: {lacking}."
            )
        log.warning("a queue asks for more than the cluster gives", mode=mode, lacking=lacking)

    async def confirm(self, mode: str, deadline: float) -> bool:
        """Wait until what was committed is on as many servers as a ReplicationMode asks for.

        Tells whether it is; it may not be when the database was unavailable meanwhile. Raises
        errors.OutcomeUnknown when it takes longer than the deadline, a time of time.monotonic, or
        cannot be found out: what was committed must not be taken for refused.
        """
        if mode in ("none", "any"):
            return True  # The commit has waited already.
        try:
            return await self._acknowledged(mode, deadline)
        except errors.OutcomeUnknown:
            raise
        except Exception as error:
            raise errors.OutcomeUnknown from error

    async def _acknowledged(self, mode: str, deadline: float) -> bool:
        losses = self._database.availability.losses
        level = await self.level(deadline)
        needed = level.needed(mode)
        if needed <= level.required:
            return True
        pause, position = _PAUSE, None
        while True:
            ((position, acknowledged),) = await self._database.rows(
                _ACKNOWLEDGED, (position,), deadline=deadline
            )
            if losses != self._database.availability.losses:
                return False  # The server may be another, with another history.
            if acknowledged >= needed:
                return True
            if monotonic() > deadline:
                raise errors.OutcomeUnknown
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

"""What the cluster gives of replication, and the wait for more than its commits wait for."""

import threading
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from skipmq import errors
from skipmq.store.engine import Database

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
    """The cluster as its primary sees it; safe for threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: tuple[float, Level] | None = None

    def level(self) -> Level:
        """Return what the cluster gives, as it was a second ago at most."""
        with self._lock:
            known = self._known
            if known is not None and known[0] > monotonic():
                return known[1]
        ((names, required, listed, connected),) = self._database.rows(
            "select names, required, listed, connected from skipmq.replication()"
        )
        level = Level(names, required, listed, connected)
        with self._lock:
            self._known = (monotonic() + _KNOWN_FOR, level)
        return level

    def confirm(self, mode: str) -> bool:
        """Wait until what was committed is on as many servers as a ReplicationMode asks for.

        Tells whether it is; it may not be when the database went away meanwhile. Raises
        errors.OutcomeUnknown when it takes longer than a request may wait.
        """
        if mode in ("none", "any"):
            return True  # The commit has waited already.
        outages, deadline = self._database.outage.number, self._database.deadline()
        level = self.level()
        needed = level.needed(mode)
        if needed <= level.required:
            return True
        pause, position = _PAUSE, None
        while True:
            ((position, acknowledged),) = self._database.rows(
                "select position, acknowledged from skipmq.acknowledged(%s)", (position,)
            )
            if outages != self._database.outage.number:
                return False  # The server may be another, with another history.
            if acknowledged >= needed:
                return True
            if monotonic() > deadline:
                raise errors.OutcomeUnknown
            threading.Event().wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

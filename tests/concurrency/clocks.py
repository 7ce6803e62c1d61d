"""Who moves the clock of the database, on and back, while all others work."""

import time

from psycopg import sql

from concurrency.clients import User
from support.clock import connect
from support.http import eventually
from support.sql import number

_READ = "select current_setting('skipmq.clock_offset', true)"
# Seconds by which the clock may differ from the true one, less than any deduplication lasts.
_OFFSETS = (-4, -2, 0, 2, 5)


class ClockMover(User):
    """Moves the clock for all sessions of a server that no others use."""

    def run(self) -> None:
        offset = 0
        while self.world.open():
            self.nap(1.5)
            offset = self.chance.choice([each for each in _OFFSETS if each != offset])
            self._move(offset)
        # What is hidden until a time that was ahead comes when the clock is there again.
        self._move(max(offset, 0))
        self.close()

    def _move(self, seconds: int) -> None:
        begun = time.monotonic()
        with connect(self.world.database) as owner:
            owner.execute(
                sql.SQL("alter system set skipmq.clock_offset = {}").format(f"{seconds} s")
            )
            owner.execute("select pg_reload_conf()")
            eventually(
                lambda: number(owner, _READ) == f"{seconds} s",
                why="the setting is read",
            )
        self.note("clock", begun, "ok", "", value=str(seconds))

"""A database, or the partitions behind a router that is one: statements on a queue bypass it.

They are then as far away as with one database, and a partition that fails over leaves the others
alone. Lists, creates and keys go through the router, where PL/Proxy sends them on.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from hashlib import md5
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from skipmq import errors
from skipmq.database import address
from skipmq.database.availability import Observer
from skipmq.database.fairness import Tenant
from skipmq.database.listener import Session
from skipmq.database.pool import Parameters, Pool
from skipmq.database.statement import Rows, Statement

_ADDRESSES = Statement("select skipmq.partition_addresses()")
# As in sql/router/00_placement.sql.
_SUFFIX = re.compile(
    r"[-_.]?(dlq|dead|dead-?letters?|dead_letters?|errors?|failed)$", re.IGNORECASE
)
# Where a server is; the rest of an address says as whom to connect, and how.
_PLACE = ("host", "hostaddr", "port", "dbname", "target_session_attrs")
_PAUSE = 0.25


class Database(Pool):
    """A pool of connections to a database; of a router also one to each partition, for one loop.

    A statement whose tenant is a queue's id runs in the queue's partition.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._url, self._settings = url, settings
        # By number; empty without a router, and None until open_partitions has run.
        self._partitions: list[Pool] | None = None

    async def open_partitions(self) -> None:
        """Find out whether the database is a router; if so, make a pool for each partition.

        Raises errors.ServiceUnavailable.
        """
        if self._partitions is None:
            ((addresses,),) = await self.rows(_ADDRESSES)
            self._partitions = [
                Pool(url, **self._settings | {"observer": PartitionObserver(self.observer, number)})
                for number, url in enumerate(_urls(self._url, addresses))
            ]
            self.on_needs_operator(self._needs_operator)

    def partition(self, queue_id: Tenant) -> Pool:
        """Return the pool of the partition that has a queue; this one for anything but an id."""
        if not self._partitions or not isinstance(queue_id, int):
            return self
        return self._partitions[queue_id & (len(self._partitions) - 1)]

    async def partitions(self) -> Sequence[Pool]:
        """Return the pools of all partitions, once they are known; without a router this one."""
        while self._partitions is None:
            try:
                await self.open_partitions()
            except errors.ServiceUnavailable:
                await asyncio.sleep(_PAUSE)
        return self._partitions or (self,)

    def home(self, account: str, region: str, name: str) -> int | None:
        """Return the partition in which a queue is looked up first; None without a router."""
        if not self._partitions:
            return None
        stem = _SUFFIX.sub("", name.removesuffix(".fifo"))
        text = f"{account}:{region}:{stem}".encode()
        digest = md5(text, usedforsecurity=False).hexdigest()
        return int(digest[:7], 16) & (len(self._partitions) - 1)

    def rows(
        self, statement: Statement, parameters: Parameters = (), **how: Any
    ) -> Coroutine[Any, Any, Rows]:
        """Run one statement as Pool does: on a queue, in its partition."""
        return Pool.rows(self.partition(how.get("tenant")), statement, parameters, **how)

    async def any_session(self) -> Session:
        """Open a session with the first partition that is available.

        Raises psycopg.OperationalError when none is.
        """
        pools = self._partitions or [self]
        for pool in pools[:-1]:
            with suppress(psycopg.OperationalError):
                if not pool.availability.is_unavailable:
                    return await pool.session()
        return await pools[-1].session()

    def on_needs_operator(self, callback: Callable[[errors.NeedsOperator], None]) -> None:
        """Call a function with every error that needs operator action."""
        super().on_needs_operator(callback)
        for partition in self._partitions or ():
            partition.on_needs_operator(callback)

    def stop(self) -> None:
        """End all waits for the database, present and future."""
        super().stop()
        for partition in self._partitions or ():
            partition.stop()

    def close(self) -> None:
        """Close all idle connections."""
        super().close()
        for partition in self._partitions or ():
            partition.close()


class PartitionObserver:
    """The observer of a partition: counts with the others, and shows its availability by number."""

    def __init__(self, observer: Observer, number: int) -> None:
        self._observer, self._label = observer, (str(number),)

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Increment a counter."""
        self._observer.count(event, labels, by)

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set the gauge of the partition's availability; the others are those of the router."""
        if state == "database available":
            self._observer.show("partition available", value, labels + self._label)

    def forget(self, state: str) -> None:
        """Do nothing: other gauges are the router's."""

    def observe(
        self, event: str, value: float, labels: tuple[str, ...] = (), request_id: str = ""
    ) -> None:
        """Add a value to a histogram."""
        self._observer.observe(event, value, labels, request_id)


def _urls(router: str, addresses: Sequence[str]) -> list[str]:
    """Return the addresses of partitions with the user, the password and TLS of the router's."""
    how = {key: value for key, value in address.parameters(router).items() if key not in _PLACE}
    places = [address.parameters(each) for each in addresses]
    return [
        make_conninfo("", **how, **{key: place[key] for key in _PLACE if key in place})
        for place in places
    ]

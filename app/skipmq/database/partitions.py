"""A database, or the partitions behind a router that is one: statements on a queue bypass it.

They are then as far away as with one database, and a partition that fails over leaves the others
alone. Lists, creates and keys go through the router, where PL/Proxy sends them on.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from hashlib import md5
from typing import Any

from psycopg.conninfo import make_conninfo

from skipmq.database import address
from skipmq.database.fairness import Tenant
from skipmq.database.pool import CONNECTION_WAIT, STATEMENT_SECONDS, Parameters, Pool
from skipmq.database.statement import Rows, Search, Statement
from skipmq.protocol import errors
from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Observer

_CLOCK = Search("select extract(epoch from skipmq.clock())::float8")
_MAP = Statement("select homes, addresses from skipmq.partition_map()")
# As in sql/router/00_placement.sql.
_SUFFIX = re.compile(
    r"[-_.]?(dlq|dead|dead-?letters?|dead_letters?|errors?|failed)$", re.IGNORECASE
)
# Where a server is; the rest of an address says as whom to connect, and how.
_PLACE = ("host", "hostaddr", "port", "dbname", "target_session_attrs")
_PAUSE = 0.25
# Seconds after which another partition is asked what any of them can answer.
_PATIENCE = 1.0
# The bits of a queue id below the number of its partition.
QUEUE_BITS = 57


class Database:
    """A pool of connections to a database; of a router also one to each partition, for one loop.

    A statement whose tenant is a queue's id runs in the queue's partition. The other arguments are
    those of a Pool.
    """

    def __init__(  # noqa: PLR0913 - all but the first have defaults.
        self,
        url: str,
        *,
        size: int,
        connection_wait: float = CONNECTION_WAIT,
        seconds: float = STATEMENT_SECONDS,
        application_name: str = "skipmq",
        observer: Observer | None = None,
    ) -> None:
        self._url = url
        self._pool_of = partial(
            Pool,
            size=size,
            connection_wait=connection_wait,
            seconds=seconds,
            application_name=application_name,
        )
        # To the database, or to the router.
        self.pool = self._pool_of(url, observer=observer)
        # By number; empty without a router, and None until open_partitions has run.
        self._partitions: list[Pool] | None = None
        self._homes = 0
        # Those that have not answered yet what another one was asked instead.
        self._silent: set[Pool] = set()
        self._grown = asyncio.Event()

    async def open_partitions(self) -> None:
        """Find out whether the database is a router; if so, make a pool for each partition.

        Raises errors.ServiceUnavailable.
        """
        if self._partitions is None:
            await self._find_partitions()

    async def look_for_partitions(self) -> None:
        """Find partitions that were added to a router; raise errors.ServiceUnavailable."""
        if self._partitions:
            await self._find_partitions()

    async def _find_partitions(self) -> None:
        """Make a pool for each partition that is new in the router's map."""
        ((homes, addresses),) = await self.pool.rows(_MAP)
        known = self._partitions or []
        added = [
            self._pool_of(url, observer=PartitionObserver(self.pool.observer, number))
            for number, url in enumerate(partition_urls(self._url, addresses))
            if number >= len(known)
        ]
        for pool in added:
            pool.needs_operator = self.pool.needs_operator
        self._homes, self._partitions = homes, [*known, *added]
        self.pool.is_router = bool(self._partitions)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def partition(self, queue_id: Tenant) -> Pool:
        """Return the pool of the partition that has a queue; the first for anything but an id."""
        if not self._partitions or not isinstance(queue_id, int):
            return self.pool
        number = queue_id >> QUEUE_BITS
        return self._partitions[number] if number < len(self._partitions) else self.pool

    async def partitions(self) -> AsyncIterator[Pool]:
        """Yield the pool of each partition, also of those added later; without a router this one.

        Waits until they are known.
        """
        while self._partitions is None:
            try:
                await self.open_partitions()
            except errors.ServiceUnavailable:
                await asyncio.sleep(_PAUSE)
        if not self._partitions:
            yield self.pool
            return
        known = 0
        while True:
            grown = self._grown
            for pool in self._partitions[known:]:
                known += 1
                yield pool
            await grown.wait()

    def known(self) -> Sequence[Pool]:
        """Return the pools of the partitions that are known; without a router this one."""
        return self._partitions or (self.pool,)

    @property
    def is_anywhere_available(self) -> bool:
        """Return whether the database is available, or, behind a router, a partition is."""
        return not all(pool.availability.is_unavailable for pool in self.known())

    @property
    def is_everywhere_available(self) -> bool:
        """Return whether the database, or each partition, is available and answers."""
        known = self.known()
        return not self._silent and not any(pool.availability.is_unavailable for pool in known)

    def has_available_partition(self) -> bool | None:
        """Return whether a partition is available; None without a router."""
        return self.is_anywhere_available if self._partitions else None

    def home(self, account: str, region: str, name: str) -> int | None:
        """Return the partition in which a queue is looked up first; None without a router."""
        if not self._partitions:
            return None
        return chosen(account, region, name, self._homes)

    @staticmethod
    def tenant(partition: int | None) -> int | None:
        """Return the tenant of statements in a partition that are on no queue's id."""
        return None if partition is None else partition << QUEUE_BITS

    @staticmethod
    def number(queue_id: int) -> int:
        """Return the number of the partition that has a queue."""
        return queue_id >> QUEUE_BITS

    def rows(  # noqa: PLR0913 - all but the first two have defaults.
        self,
        statement: Statement,
        parameters: Parameters = (),
        *,
        queue_id: int | None = None,
        deadline: float = 0.0,
        tenant: Tenant = None,
        again: Parameters | None = None,
        durable: bool = False,
        may_be_done: bool = False,
    ) -> Coroutine[Any, Any, Rows]:
        """Run one statement as Pool does: on a queue, in its partition.

        The queue is the tenant; one that only reads a queue, and waits for no locked table and in
        no queue's turn, has `queue_id` instead.
        """
        pool = self.pool
        place = tenant if queue_id is None else queue_id
        if self._partitions and isinstance(place, int):
            number = place >> QUEUE_BITS
            if number >= len(self._partitions):
                return self._rows_in_added(
                    number,
                    statement,
                    parameters,
                    deadline=deadline,
                    tenant=tenant,
                    again=again,
                    durable=durable,
                    may_be_done=may_be_done,
                )
            pool = self._partitions[number]
        return pool.rows(
            statement,
            parameters,
            deadline=deadline,
            tenant=tenant,
            again=again,
            durable=durable,
            may_be_done=may_be_done,
        )

    async def _rows_in_added(self, number: int, *arguments: Any, **options: Any) -> Rows:
        """Run a statement in a partition that was added since the map was read."""
        await self._find_partitions()
        assert self._partitions is not None
        if number >= len(self._partitions):
            log.warning("the router lacks a partition", partition=number)
            raise errors.ServiceUnavailable
        return await self._partitions[number].rows(*arguments, **options)

    async def rows_anywhere(
        self, statement: Statement, parameters: Parameters = (), *, deadline: float = 0.0
    ) -> Rows:
        """Run a statement in the first partition that answers; without a router in the database.

        One that is unavailable, or silent for a second, is passed over, although it may have run
        the statement. Raises as `rows` does where none answers.
        """
        if not self._partitions:
            return await self.pool.rows(statement, parameters, deadline=deadline)
        failure = errors.ServiceUnavailable()
        waiting = []
        for pool in self._heard():
            asked = self._ask(pool, statement, parameters, deadline)
            if not await self._answers({asked: pool}):
                waiting.append(asked)
                continue
            try:
                return asked.result()
            except errors.ServiceUnavailable as error:
                failure = error
        for answer in asyncio.as_completed(waiting):
            with suppress(errors.ServiceUnavailable):
                return await answer
        raise failure

    async def clock(self, deadline: float) -> float:
        """Return the database's time in seconds since 1970."""
        ((seconds,),) = await self.rows_anywhere(_CLOCK, deadline=deadline)
        return float(seconds)

    async def rows_everywhere(
        self, statement: Statement, parameters: Parameters = (), *, deadline: float = 0.0
    ) -> list[Rows]:
        """Run a statement in each partition, without a router in the database; return their rows.

        One that is unavailable, or silent for a second, is passed over; the latter runs it later.
        Raises as `rows` does where none answers.
        """
        if not self._partitions:
            return [await self.pool.rows(statement, parameters, deadline=deadline)]
        asked = {self._ask(pool, statement, parameters, deadline): pool for pool in self._heard()}
        done = await self._answers(asked)
        if found := [task.result() for task in done if task.exception() is None]:
            return found
        for task in done:
            task.result()
        raise errors.ServiceUnavailable

    async def rows_by_queue(
        self,
        statement: Statement,
        first: Parameters,
        queue_ids: Sequence[int],
        *columns: Parameters,
    ) -> None:
        """Run a statement on values by queue in the partition of each, the ids after `first`.

        A partition that is unavailable, or silent for a second, does not hold up the others. Raises
        as `rows` does where one has not answered.
        """
        if not self._partitions:
            await self.pool.rows(statement, (*first, queue_ids, *columns))
            return
        shares: dict[Pool, list[tuple[Any, ...]]] = {}
        for row in zip(queue_ids, *columns, strict=True):
            shares.setdefault(self.partition(row[0]), []).append(row)
        asked = {
            self._ask(pool, statement, (*first, *map(list, zip(*share, strict=True)))): pool
            for pool, share in shares.items()
            if pool not in self._silent
        }
        done = await self._answers(asked)
        for task in done:
            task.result()
        if len(done) < len(shares):
            raise errors.ServiceUnavailable

    def _heard(self) -> list[Pool]:
        """Return the pools of the partitions that have answered all that they were asked."""
        return [pool for pool in self._partitions or () if pool not in self._silent]

    def _ask(
        self, pool: Pool, statement: Statement, parameters: Parameters, deadline: float = 0.0
    ) -> asyncio.Task[Rows]:
        asked = asyncio.get_running_loop().create_task(
            pool.rows(statement, parameters, deadline=deadline)
        )

        def answered(task: asyncio.Task[Rows]) -> None:
            self._silent.discard(pool)
            if not task.cancelled():
                task.exception()  # Otherwise asyncio logs it.

        asked.add_done_callback(answered)
        return asked

    async def _answers(self, asked: dict[asyncio.Task[Rows], Pool]) -> list[asyncio.Task[Rows]]:
        """Return the statements that have ended within a second; note whose have not."""
        if not asked:
            return []
        done, late = await asyncio.wait(asked, timeout=_PATIENCE)
        self._silent.update(asked[task] for task in late)
        return [task for task in asked if task in done]

    def on_needs_operator(self, callback: Callable[[errors.NeedsOperator], None]) -> None:
        """Call a function with every error that needs operator action."""
        for pool in (self.pool, *(self._partitions or ())):
            pool.needs_operator = callback

    def stop(self) -> None:
        """End all waits for the database, present and future."""
        for pool in (self.pool, *(self._partitions or ())):
            pool.stop()

    def close(self) -> None:
        """Close all idle connections."""
        for pool in (self.pool, *(self._partitions or ())):
            pool.close()


class PartitionObserver(Observer):
    """The observer of a partition: counts with the others, and shows its availability by number.

    Other gauges are the router's, and a partition answers no requests.
    """

    def __init__(self, observer: Observer, number: int) -> None:
        self._observer, self._label = observer, (str(number),)

    def count(self, event: str, labels: tuple[str, ...] = (), by: float = 1.0) -> None:
        """Increment a counter."""
        self._observer.count(event, labels, by)

    def show(self, state: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Set the gauge of the partition's availability; the others are those of the router."""
        if state == "database available":
            self._observer.show("partition available", value, labels + self._label)

    def observe(self, event: str, value: float, labels: tuple[str, ...] = ()) -> None:
        """Add a value to a histogram."""
        self._observer.observe(event, value, labels)


def chosen(account: str, region: str, name: str, partitions: int) -> int:
    """Return the partition that a queue's name chooses, as skipmq_router.chosen does."""
    stem = f"{account}:{region}:{_SUFFIX.sub('', name.removesuffix('.fifo'))}"
    return max(
        range(partitions),
        key=lambda n: md5(f"{stem}:{n}".encode(), usedforsecurity=False).hexdigest(),
    )


def partition_urls(router: str, addresses: Sequence[str]) -> list[str]:
    """Return the addresses of partitions with the user, the password and TLS of the router's."""
    how = {key: value for key, value in address.parameters(router).items() if key not in _PLACE}
    places = [address.parameters(each) for each in addresses]
    return [
        make_conninfo("", **how, **{key: place[key] for key in _PLACE if key in place})
        for place in places
    ]

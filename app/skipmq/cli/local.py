"""A node in the process of a command, which calls actions directly."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from socket import gethostname
from typing import TYPE_CHECKING, Any, TypeVar

from skipmq import errors
from skipmq.cli import place
from skipmq.cli.arrivals import LocalArrivals
from skipmq.cli.source import Activity
from skipmq.config.settings import Settings
from skipmq.model import Identity, QueueName, QueueStatistics
from skipmq.node import Node
from skipmq.store import Upkeep
from skipmq.store.statistics import Order
from skipmq.store.upkeep import MOVES

if TYPE_CHECKING:
    from skipmq.protocol import Call

T = TypeVar("T")
# The page size when searching a queue by name.
_PAGE = 100
# Seconds without a heartbeat after which a worker is silent.
_SILENT = 30


class LocalNode:
    """A node without a server, on an event loop that runs during calls only.

    Changes are recorded in the audit log if it has a `user`.
    """

    def __init__(self, settings: Settings, database_url: str, user: str = "") -> None:
        self._runner = asyncio.Runner()
        self._user = user
        try:
            self.node = self.run(_opened(settings, database_url))
        except BaseException:
            self._runner.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return self._runner.run(coroutine)

    def act(
        self, action: str, identity: Identity | None = None, /, **parameters: Any
    ) -> dict[str, Any]:
        """Run an action as an identity, by default that of the settings; return its result.

        Bytes in the result are in base64. Raises errors.SqsError.
        """
        # Imported late: all that actions need takes long, and statistics need none of it.
        from skipmq.cli import calls  # noqa: PLC0415

        given = {name: value for name, value in parameters.items() if value is not None}
        caller = replace(identity or self.node.settings.identity, user=self._user)
        call = calls.prepared(self.node, action, caller, gethostname(), given)
        try:
            result = self.run(calls.run(self.node, call))
        except errors.SqsError as error:
            self._record(call, error)
            name = calls.name_in(call)
            if isinstance(error, errors.QueueDoesNotExist) and name is not None:
                raise self.missing(name) from error
            raise
        except KeyboardInterrupt:
            self._record(call, errors.RequestCancelled())
            raise
        self._record(call, None)
        return result

    def counts_age(self) -> float | None:
        """Return the seconds since a node last added up all counts; None if none ever did."""
        found = self.run(Upkeep(self.node.database).database_statistics())
        return next((value for name, _, value in found if name == "counted age"), None)

    def has_workers(self) -> bool:
        """Return whether a worker has sent a heartbeat in the last half minute."""
        workers = self.run(self.node.workers.all(self.node.deadline()))
        return any(each.seen < _SILENT for each in workers)

    def missing(self, name: QueueName) -> errors.QueueDoesNotExist:
        """Return the error for a queue that is not there, which names where one is."""
        node = self.node
        found = self.run(node.queues.places(name.name, node.deadline()))
        others = [(account, region) for account, region, _ in found]
        owner = Identity(name.account, name.region, name.account)
        urls = self.act("ListQueues", owner).get("QueueUrls", [])
        return place.missing(name, others, (url.rsplit("/", 1)[1] for url in urls))

    @property
    def own(self) -> tuple[str, str]:
        """Return the account and the region of the settings."""
        return self.node.settings.account, self.node.settings.region

    def queue_url(self, text: str) -> str:
        """Return the URL of a queue by its name, URL or ARN, as `place.queue_url` does."""
        return place.queue_url(text, self.node.settings.account, self.node.settings.region)

    def statistics(
        self,
        limit: int,
        *,
        account: str | None = None,
        region: str | None = None,
        search: str = "",
        order: Order = "name",
    ) -> tuple[list[QueueStatistics], QueueStatistics]:
        """Return the statistics of up to `limit` queues, and the sum of the others."""
        return self.run(
            self.node.statistics.queues(
                limit,
                account=account,
                region=region,
                search=search,
                order=order,
                deadline=self.node.deadline(),
            )
        )

    def activity(self, name: str, minutes: int) -> Activity:
        """Return what happened in a queue; raise errors.QueueDoesNotExist."""
        node, deadline = self.node, self.node.deadline()
        queue = self._find(name)
        assert queue.id is not None
        found = self.run(node.statistics.minutes([queue.id], minutes, deadline))[queue.id]
        return Activity(queue, found, int(self.run(node.inspection.clock(deadline))))

    def _find(self, name: str) -> QueueStatistics:
        full_name, offset = place.full_name(name, self.node.settings), 0
        while True:
            queues, _ = self.run(
                self.node.statistics.queues(
                    _PAGE,
                    account=full_name.account,
                    region=full_name.region,
                    search=name,
                    offset=offset,
                    deadline=self.node.deadline(),
                )
            )
            for each in queues:
                if each.queue == name:
                    return each
            if len(queues) < _PAGE:
                raise self.missing(full_name)
            offset += _PAGE

    def follow(self, name: str) -> LocalArrivals:
        """Return what arrives in a queue from now on; raise errors.QueueDoesNotExist."""
        return LocalArrivals(self, name)

    def advance_tasks(self) -> None:
        """Take message tasks a step further, since no node may be running."""
        self.run(self.upkeep.run(MOVES))

    def _record(self, call: "Call", error: errors.SqsError | None) -> None:
        from skipmq.cli import calls  # noqa: PLC0415 - as above.

        if self._user:
            self.run(calls.record(self.node, call, error))

    @property
    def upkeep(self) -> Upkeep:
        """Return the maintenance functions of the database."""
        return Upkeep(self.node.database)

    def close(self) -> None:
        """Close the connections and the event loop."""
        self.run(self.node.close())
        self._runner.close()


@contextmanager
def opened(settings: Settings, database_url: str, user: str = "") -> Iterator[LocalNode]:
    """Yield a node in this process; raise errors.ServiceUnavailable."""
    local = LocalNode(settings, database_url, user)
    try:
        yield local
    finally:
        local.close()


async def _opened(settings: Settings, database_url: str) -> Node:
    # Actions of a command are not signed.
    node = Node(replace(settings, auth="off"), database_url)
    try:
        await node.open()
    except BaseException:
        await node.close()
        raise
    return node

"""A node in the process of a command, and operations as the schema's owner."""

import asyncio
import os
import pwd
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from socket import gethostname
from typing import Any, TypeVar
from uuid import uuid4

import click
import msgspec

from skipmq.actions.dispatch import EVERY, perform, queue_name
from skipmq.broker import upkeep, workers
from skipmq.broker.audit_log import Audit
from skipmq.broker.node import Node
from skipmq.broker.trouble_kinds import SILENT_SECONDS
from skipmq.broker.upkeep import MOVES
from skipmq.cli import place
from skipmq.cli.environment import configuration, open_database
from skipmq.config.settings import Settings
from skipmq.database import schema
from skipmq.database.partitions import Database
from skipmq.database.retry import InsufficientPrivilege
from skipmq.database.router.partition_map import owner_urls
from skipmq.protocol import errors
from skipmq.protocol.call import Call, Request, Result
from skipmq.protocol.codec import REQUESTS, TOPIC_REQUESTS
from skipmq.protocol.identity import Identity, QueueName
from skipmq.protocol.limits import LIST_RESULTS
from skipmq.server import request_log

T = TypeVar("T")


class LocalNode:
    """A node without a server, on an event loop that runs during calls only.

    Changes are recorded in the audit log if it has a `user`.
    """

    counted_queues = LIST_RESULTS

    def __init__(self, settings: Settings, database_url: str, user: str = "") -> None:
        self._runner = asyncio.Runner()
        self._user = user
        self._identity = replace(settings.identity, is_operator=True)
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
        given = {name: value for name, value in parameters.items() if value is not None}
        struct = msgspec.convert(given, (REQUESTS | TOPIC_REQUESTS)[action])
        address = gethostname()
        request = Request("POST", "/", {}, "", b"", "http://localhost", str(uuid4()), address)
        caller = replace(identity or self._identity, user=self._user)
        call = Call(action, struct, request, caller, self.node.deadline())
        try:
            result = self.run(self._perform(call))
        except errors.SqsError as error:
            self._record(call, error)
            name = queue_name(call)
            if isinstance(error, errors.QueueDoesNotExist) and name is not None:
                raise self._missing(name, action) from error
            raise
        except KeyboardInterrupt:
            self._record(call, errors.RequestCancelled())
            raise
        self._record(call, None, result)
        return result

    async def _perform(self, call: Call) -> dict[str, Any]:
        # No task polls it: the loop runs during calls only.
        await self.node.monitor.check()
        result: dict[str, Any] = msgspec.to_builtins(await perform(self.node, call) or {})
        return result

    def name_place(self, account: str, region: str) -> None:
        """Read statistics of an account and a region from now on; an empty text is every one."""
        self._identity = replace(self._identity, account=account, region=region)

    def counts_age(self) -> float | None:
        """Return the seconds since a node last added up all counts; None if none ever did."""
        found = self.run(upkeep.database_statistics(self.node.database.pool))
        return next((value for name, _, value in found if name == "counted age"), None)

    def has_workers(self) -> bool:
        """Return whether a worker has sent a heartbeat in the last half minute."""
        found = self.run(workers.known(self.node.database, self.node.deadline()))
        return any(each.seen < SILENT_SECONDS for each in found)

    def _missing(self, name: QueueName, action: str) -> errors.QueueDoesNotExist:
        """Return the error for a queue that is not there, which names where one is."""
        node = self.node
        found = self.run(node.queues.places(name.name, node.deadline()))
        others = [(account, region) for account, region, _ in found]
        owner = Identity(name.account, name.region, name.account)
        urls = self.act("ListQueues", owner).get("QueueUrls", [])
        known = (url.rsplit("/", 1)[1] for url in urls)
        return place.missing(name, others, known, action)

    def queue_url(self, text: str) -> str:
        """Return the URL of a queue by its name, URL or ARN, as `place.queue_url` does."""
        return place.queue_url(text, self.node.settings.account, self.node.settings.region)

    def advance_tasks(self) -> None:
        """Take message tasks a step further, since no node may be running."""
        self.run(upkeep.run(self.node.database.pool, MOVES))

    def _record(self, call: Call, error: errors.SqsError | None, result: Result = None) -> None:
        """Record a change, or why there was none, in the audit log."""
        if self._user and EVERY[call.action].is_change:
            self.node.audit.note(request_log.command_record(call, error, result))
            self.run(self.node.audit.flush())

    def close(self) -> None:
        """Close the connections and the event loop."""
        self.run(self.node.close())
        self._runner.close()


@contextmanager
def open_node(settings: Settings, url: str = "", *, create: bool = False) -> Iterator[LocalNode]:
    """Yield a node in this process, which audits its changes under the name of the Unix account.

    With `create`, an embedded database is created if missing. A database at `url` is taken as it
    is: it is not checked, and changes are not audited. Raises errors.ServiceUnavailable.
    """
    with ExitStack() as stack:
        user = ""
        if not url:
            _, url = stack.enter_context(open_database(settings, create=create))
            schema.check_for_node(url)
            user = account_name()
        yield stack.enter_context(closing(LocalNode(settings, url, user)))


def account_name() -> str:
    """Return the name of the Unix account that runs the command."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


async def _opened(settings: Settings, database_url: str) -> Node:
    # Actions of a command are not signed.
    node = Node(replace(settings, auth="off"), database_url)
    try:
        await node.open()
    except BaseException:
        await node.close()
        raise
    return node


def run_as_owner(
    command: str,
    operation: Callable[[Database], Awaitable[T]],
    settings: Settings | None = None,
    *,
    create: bool = False,
    everywhere: bool = False,
) -> T:
    """Run an operation on the database as the schema's owner, and return its result.

    With `create`, an embedded database is created if missing. With `everywhere`, behind a router it
    runs on each partition, also after one that failed, and must do the same in each; the
    result is the first that is not None. Raises click.ClickException if the role of the URL lacks
    the privilege.
    """

    async def run(url: str) -> T:
        database = Database(url, size=1, application_name=f"skipmq {command}")
        try:
            return await operation(database)
        finally:
            database.close()

    with open_database(settings or configuration().settings, create=create) as (url, _):
        try:
            schema.check(url)
            if not everywhere or not schema.is_router(url):
                return asyncio.run(run(url))
            return asyncio.run(_on_each(owner_urls(url)[0], run))
        except InsufficientPrivilege as error:
            raise _refused(error.diag.message_primary, error.diag.message_hint) from error
        except errors.InsufficientPrivilege as error:
            raise _refused(error.reason, error.remedy) from error


async def _on_each(urls: list[str], run: Callable[[str], Awaitable[T]]) -> T:
    results: list[T] = []
    for result in await asyncio.gather(*map(run, urls), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return next((each for each in results if each is not None), results[0])


def _refused(reason: str | None, remedy: str | None) -> click.ClickException:
    remedy = remedy or "run this with the URL of the schema's owner"
    return click.ClickException(f"{reason}: {remedy}")


def record_change(
    command: str, action: str, account: str | None, parameters: dict[str, Any]
) -> None:
    """Record a change that the schema's owner has made by a command in the audit log."""

    async def write(database: Database) -> None:
        audit = Audit(database, writes=True)
        audit.note(
            {
                "account": account,
                "access_key": None,
                "claimed": False,
                "user_arn": account_name(),
                "action": action,
                "client": gethostname(),
                "door": "command",
                "request_id": str(uuid4()),
                "outcome": "done",
                "parameters": parameters,
            }
        )
        await audit.flush()

    run_as_owner(command, write)

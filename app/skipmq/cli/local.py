"""A node in the process of a command, which calls actions directly."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from socket import gethostname
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
import structlog

from skipmq import errors
from skipmq.actions import attributes
from skipmq.config.settings import Settings
from skipmq.model import DeclaredQueue, Identity, QueueName
from skipmq.node import Node
from skipmq.protocol import REQUESTS, Call, Request
from skipmq.server import request_log
from skipmq.server.dispatch import EVERY, perform
from skipmq.store import Upkeep

log = structlog.get_logger()

T = TypeVar("T")
_REDRIVE_POLICY = "RedrivePolicy"


class DeclarationError(Exception):
    """A queue cannot be created as the configuration file declares it."""


class LocalNode:
    """A node without a server, on an event loop that runs during calls only.

    Changes are recorded in the audit log if it has a `user`.
    """

    def __init__(self, settings: Settings, database_url: str, user: str = "") -> None:
        self._runner = asyncio.Runner()
        self._user = user
        self.node = self.run(_opened(settings, database_url))

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
        struct = msgspec.convert(given, REQUESTS[action])
        request = Request("POST", "/", {}, "", b"", "http://localhost", str(uuid4()), gethostname())
        caller = replace(identity or self.node.settings.identity, user=self._user)
        call = Call(action, struct, request, caller, self.node.deadline())
        try:
            result: dict[str, Any] = msgspec.to_builtins(self.run(_act(self.node, call)) or {})
        except errors.SqsError as error:
            self._record(call, error)
            raise
        except KeyboardInterrupt:
            self._record(call, errors.RequestCancelled())
            raise
        self._record(call, None)
        return result

    def _record(self, call: Call, error: errors.SqsError | None) -> None:
        if self._user and EVERY[call.action].is_change:
            self.node.audit.note(request_log.command_record(call, error))
            self.run(self.node.audit.flush())

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


def queue_name(name: str, settings: Settings) -> QueueName:
    """Return the full name of a queue of the account and the region of the settings."""
    return QueueName(settings.account, settings.region, name)


def queue_url(name: str) -> str:
    """Return what names a queue of the identity of a call."""
    return name


def declare_queues(settings: Settings, database_url: str) -> None:
    """Create the queues that the configuration file declares.

    An existing queue keeps its attributes; differences are logged. Raises DeclarationError.
    """
    if not settings.queues:
        return
    with opened(settings, database_url) as local:
        # Redrive policies last, because they refer to other queues.
        for declare in (_create, _redrive):
            for queue in settings.queues:
                try:
                    declare(local, queue)
                except errors.SqsError as error:
                    raise DeclarationError(
                        f"the declared queue {_name(local, queue).arn}: {error.message}"
                    ) from error


def _create(local: LocalNode, queue: DeclaredQueue) -> None:
    owner = _owner(local, queue)
    declared = {k: v for k, v in queue.attributes.items() if k != _REDRIVE_POLICY}
    try:
        local.act("CreateQueue", owner, QueueName=queue.name, Attributes=declared)
    except errors.QueueNameExists:
        present = _present(local, queue)
        for name, value in attributes.stored(declared, fifo=attributes.is_fifo(declared)).items():
            if name in present and present[name] != value:
                _warn(queue, name, value, present[name])


def _redrive(local: LocalNode, queue: DeclaredQueue) -> None:
    policy = queue.attributes.get(_REDRIVE_POLICY)
    if not policy:
        return
    declared = attributes.stored({_REDRIVE_POLICY: policy}, fifo=False)[_REDRIVE_POLICY]
    present = _present(local, queue)[_REDRIVE_POLICY]
    if not present:
        owner, new = _owner(local, queue), {_REDRIVE_POLICY: declared}
        local.act("SetQueueAttributes", owner, QueueUrl=queue.name, Attributes=new)
    elif present != declared:
        _warn(queue, _REDRIVE_POLICY, declared, present)


def _owner(local: LocalNode, queue: DeclaredQueue) -> Identity:
    """Return the identity that owns a declared queue."""
    own = local.node.settings
    account = queue.account or own.account
    return Identity(account, queue.region or own.region, account)


def _name(local: LocalNode, queue: DeclaredQueue) -> QueueName:
    owner = _owner(local, queue)
    return QueueName(owner.account, owner.region, queue.name)


def _present(local: LocalNode, queue: DeclaredQueue) -> Mapping[str, str]:
    """Return the present attributes of a queue."""
    node, name = local.node, _name(local, queue)
    node.queues.forget(name.arn)
    found = local.run(node.queues.find(name, node.deadline()))
    return found.attributes.texts(fifo=found.fifo)


def _warn(queue: DeclaredQueue, attribute: str, declared: str, present: str) -> None:
    log.warning(
        "an existing queue differs from its declaration",
        queue=queue.name,
        attribute=attribute,
        declared=declared,
        present=present,
    )


async def _opened(settings: Settings, database_url: str) -> Node:
    # Actions of a command are not signed.
    node = Node(replace(settings, auth="off"), database_url)
    try:
        await node.open()
    except BaseException:
        await node.close()
        raise
    return node


async def _act(node: Node, call: Call) -> dict[str, Any] | None:
    return await perform(node, call)

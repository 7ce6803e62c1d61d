"""A node for this process alone: the actions as plain calls, for the command line and start-up."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from socket import gethostname
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
import structlog

from skipmq import errors, limits
from skipmq.actions import EVERY, attributes, perform
from skipmq.model import DeclaredQueue, Identity, QueueName
from skipmq.node import Node
from skipmq.protocol import REQUESTS, Call, Request
from skipmq.server import request_log
from skipmq.settings import Settings
from skipmq.store import Upkeep

log = structlog.get_logger()

T = TypeVar("T")
_REDRIVE_POLICY = "RedrivePolicy"


class DeclarationError(Exception):
    """A queue cannot be as the configuration file declares it; the message says why."""


class LocalNode:
    """A node on an event loop of its own, which runs while something is asked of it.

    What it changes for a `user` is in the audit log.
    """

    def __init__(self, settings: Settings, database_url: str, user: str = "") -> None:
        self._runner = asyncio.Runner()
        self._user = user
        self.node = self.run(_opened(settings, database_url))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result."""
        return self._runner.run(coroutine)

    def act(
        self, action: str, identity: Identity | None = None, /, **parameters: Any
    ) -> dict[str, Any]:
        """Run an action, as the default account or another; return its result, bytes in base64.

        Raises an errors.SqsError.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        struct = msgspec.convert(given, REQUESTS[action])
        request = Request("POST", "/", {}, "", b"", "http://localhost", str(uuid4()), gethostname())
        own = Identity(region=self.node.settings.region)
        caller = replace(identity or own, user=self._user)
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
        """Return the upkeep functions of the database."""
        return Upkeep(self.node.database)

    def close(self) -> None:
        """Close its connections and its loop."""
        self.run(self.node.close())
        self._runner.close()


@contextmanager
def opened(settings: Settings, database_url: str, user: str = "") -> Iterator[LocalNode]:
    """Give a node of this process, which serves nobody else.

    Raises errors.ServiceUnavailable.
    """
    local = LocalNode(settings, database_url, user)
    try:
        yield local
    finally:
        local.close()


def queue_name(name: str, settings: Settings) -> QueueName:
    """Return the full name of a queue of the default account in the node's region."""
    return QueueName(limits.DEFAULT_ACCOUNT, settings.region, name)


def queue_url(name: str) -> str:
    """Return a URL of a queue of the default account."""
    return f"http://localhost/{limits.DEFAULT_ACCOUNT}/{name}"


def declare_queues(settings: Settings, database_url: str) -> None:
    """Create the queues that the configuration file asks for, in any order.

    One that is there already keeps its attributes: where they differ the log says so. Raises
    DeclarationError.
    """
    if not settings.queues:
        return
    with opened(settings, database_url) as local:
        for declare in (_create, _redrive):  # Dead-letter queues are there before they are named.
            for queue in settings.queues:
                try:
                    declare(local, queue)
                except errors.SqsError as error:
                    raise DeclarationError(
                        f"the declared queue {queue.name}: {error.message}"
                    ) from error


def _create(local: LocalNode, queue: DeclaredQueue) -> None:
    wanted = {k: v for k, v in queue.attributes.items() if k != _REDRIVE_POLICY}
    try:
        local.act("CreateQueue", QueueName=queue.name, Attributes=wanted)
    except errors.QueueNameExists:
        present = _present(local, queue)
        for name, value in attributes.stored(wanted, fifo=attributes.is_fifo(wanted)).items():
            if name in present and present[name] != value:
                _warn(queue, name, value, present[name])


def _redrive(local: LocalNode, queue: DeclaredQueue) -> None:
    policy = queue.attributes.get(_REDRIVE_POLICY)
    if not policy:
        return
    wanted = attributes.stored({_REDRIVE_POLICY: policy}, fifo=False)[_REDRIVE_POLICY]
    present = _present(local, queue)[_REDRIVE_POLICY]
    if not present:
        new = {_REDRIVE_POLICY: wanted}
        local.act("SetQueueAttributes", QueueUrl=queue_url(queue.name), Attributes=new)
    elif present != wanted:
        _warn(queue, _REDRIVE_POLICY, wanted, present)


def _present(local: LocalNode, queue: DeclaredQueue) -> Mapping[str, str]:
    """Return the attributes that a queue has."""
    node, name = local.node, queue_name(queue.name, local.node.settings)
    node.queues.forget(name.arn)
    found = local.run(node.queues.find(name, node.deadline()))
    return found.attributes.texts(fifo=found.fifo)


def _warn(queue: DeclaredQueue, attribute: str, declared: str, present: str) -> None:
    log.warning(
        "a queue differs from its declaration, and stays as it is",
        queue=queue.name,
        attribute=attribute,
        declared=declared,
        present=present,
    )


async def _opened(settings: Settings, database_url: str) -> Node:
    # Nobody signs what a command does.
    node = Node(replace(settings, auth="off"), database_url)
    try:
        await node.open()
    except BaseException:
        await node.close()
        raise
    return node


async def _act(node: Node, call: Call) -> dict[str, Any] | None:
    return await perform(node, call)

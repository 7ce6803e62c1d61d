"""The record of an action."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from skipmq.actions import access
from skipmq.protocol.call import Result
from skipmq.protocol.identity import QueueName


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action: its coroutine, the permissions that it needs, and how its calls are run."""

    # Called with the node and the call, and the queue of QueueUrl if it needs permissions on that.
    run: Callable[..., Awaitable[Result]]
    # On the queue of QueueUrl.
    permissions: tuple[str, ...] = ()
    # Returns what else it needs.
    needs: access.Needs | None = None
    # Looks the queue up without the cache.
    is_fresh: bool = False
    # Is recorded in the audit log, with its parameters.
    is_change: bool = False
    # May be called by an unsigned GET.
    is_read: bool = False
    # May be called by an unsigned GET even where requests must be signed: a link in a message.
    is_link: bool = False
    # Seconds to wait for the database, if fewer than other requests have.
    seconds: float | None = None


def on_queue(run: Callable[..., Awaitable[Result]], *permissions: str, **options: Any) -> Action:
    """Return the record of an action on the queue of QueueUrl, which needs these permissions."""
    return Action(run=run, permissions=permissions, **options)


def on_account(
    run: Callable[..., Awaitable[Result]],
    permission: str,
    kind: type[QueueName] = QueueName,
    **options: Any,
) -> Action:
    """Return the record of an action that needs a permission on all queues of the caller's."""
    return Action(run=run, needs=access.account_needs(permission, kind), **options)


def by_name(*actions: Action) -> Mapping[str, Action]:
    """Return records by the names of the actions, after which their coroutines are named."""
    return {each.run.__name__.title().replace("_", ""): each for each in actions}

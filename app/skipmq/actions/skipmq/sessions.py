"""Beyond SQS: the sessions of the database server, and how one is cancelled or terminated."""

from collections.abc import Sequence
from typing import Any

from skipmq.actions import checks
from skipmq.broker import overview
from skipmq.broker.node import Node
from skipmq.database.pool import Pool
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import Identity

_KINDS = ("cancel", "terminate")


async def list_sessions(node: Node, call: Call[extensions.ListSessions]) -> dict[str, Any]:
    """List the sessions of the database server, or of a partition's, with who blocks whom.

    Those that block others are first, then those that wait. The answer is not limited to the
    caller's account, so keys of other accounts than the node's own are refused.
    """
    if not may_list(node, call.identity):
        raise _denied(node, "may list its sessions.")
    return {"Sessions": await overview.sessions(await _pool(node, call), call.deadline)}


async def end_session(node: Node, call: Call[extensions.EndSession]) -> dict[str, Any]:
    """Cancel the statement of a session, or terminate it.

    That is for keys of the node's own account, and for the command line of the node's host.
    """
    parameters, kind = call.parameters, call.parameters.Kind
    if not may_end(node, call.identity):
        raise _denied(
            node,
            "may end its sessions. Where signatures are not checked (SKIPMQ_AUTH), use `skipmq"
            " sessions` on the host of a node, without --endpoint.",
        )
    if kind not in _KINDS:
        raise checks.invalid(kind, "Kind", f"Must be one of {', '.join(_KINDS)}.")
    checks.between(parameters.ProcessId, 1, 2**31 - 1, "ProcessId", "Must be a process number.")
    outcome = await overview.end_session(
        await _pool(node, call),
        parameters.ProcessId,
        parameters.StartedMicroseconds,
        terminates=kind == "terminate",
        deadline=call.deadline,
    )
    if outcome == "missing":
        raise errors.ResourceNotFoundException("The session does not exist any more.")
    if outcome == "refused":
        raise errors.UnsupportedOperation(
            "The owner of the schema may not end this session: it needs pg_signal_backend and"
            " pg_monitor, or the session's role; a superuser's only a superuser ends."
        )
    return {}


def may_list(node: Node, identity: Identity) -> bool:
    """Return whether an identity may see the sessions of all accounts; unsigned ones see all."""
    return identity.key_id is None or identity.account == node.settings.account


def may_end(node: Node, identity: Identity) -> bool:
    """Return whether an identity may end sessions; unsigned, only a local command may."""
    return identity.is_operator or (identity.key_id is not None and may_list(node, identity))


def _denied(node: Node, what: str) -> errors.AccessDenied:
    return errors.AccessDenied(
        "All accounts share the database: only keys of account"
        f" {node.settings.account} (SKIPMQ_ACCOUNT) {what}"
    )


async def _pool(node: Node, call: Call[Any]) -> Pool:
    await node.database.open_partitions()
    pools: Sequence[Pool] = node.database.known()
    number = call.parameters.Partition or 0
    last = len(pools) - 1
    checks.between(number, 0, last, "Partition", f"Must be between 0 and {last}.")
    return pools[number]

"""Beyond SQS: an overview of the broker, with what needs attention, for people on call."""

from typing import Any, NamedTuple

from skipmq.actions import access, checks
from skipmq.actions.skipmq.database import describe_database
from skipmq.broker import refusals, statistics, troubles, workers
from skipmq.broker.node import Node
from skipmq.broker.troubles import QueueTrouble
from skipmq.database import monitor
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

_READ, _SHOWN = 100, 20


class Kind(NamedTuple):
    """A kind of trouble: its summary, its alert in deploy/prometheus and its runbook's section.

    The alert's summary has the same words, which a test compares.
    """

    severity: str
    summary: str
    alert: str | None
    section: str


# By the names that the SQL function and the answers have, the worst first.
KINDS = {
    "database": Kind("critical", "the database is {reason}", None, "the-database-refuses-writes"),
    "damaged": Kind(
        "critical",
        "pages of {reason} are damaged: {messages}",
        "DatabaseDamaged",
        "a-page-is-damaged",
    ),
    "standbys": Kind(
        "critical",
        "sends wait: too few standbys acknowledge",
        "StandbysAway",
        "no-standby-acknowledges",
    ),
    "expired": Kind(
        "critical",
        "messages of {queue} expired in a quarter of an hour: {messages}",
        "MessagesExpired",
        "messages-expire",
    ),
    "not-received": Kind(
        "critical",
        "no client receives from {queue}, which has messages",
        "QueueNotReceived",
        "the-queue-grows",
    ),
    "expiring": Kind(
        "warning",
        "the oldest message of {queue} expires in {age}",
        "MessagesExpiring",
        "messages-expire",
    ),
    "not-deleted": Kind(
        "warning",
        "messages of {queue} are received and none was deleted for half an hour",
        "QueueNotDeleted",
        "a-poison-message",
    ),
    "redelivered": Kind(
        "warning",
        "messages of {queue} are received repeatedly and not deleted",
        "Redelivery",
        "a-poison-message",
    ),
    "dead-lettered": Kind(
        "warning",
        "messages of {queue} moved to its dead-letter queue in a quarter of an hour: {messages}",
        "DeadLetters",
        "the-dead-letter-queue-fills",
    ),
    "sent-dead": Kind(
        "warning",
        "messages that clients sent to the dead-letter queue {queue} in a quarter of an hour:"
        " {messages}",
        "DeadLettersSent",
        "the-dead-letter-queue-fills",
    ),
    "refused": Kind(
        "warning",
        "{reason} is refused on {queue}: {error}, {messages} a minute",
        "CallerRefused",
        "a-caller-is-refused",
    ),
    "behind": Kind(
        "warning",
        "the oldest message of {queue} was sent {age} ago",
        "QueueBehind",
        "the-queue-grows",
    ),
    "paused": Kind(
        "warning", "receives of {queue} are paused by {reason}", None, "the-queue-grows"
    ),
    "task-failed": Kind(
        "warning", "a task of {queue} failed: {reason}", None, "the-dead-letter-queue-fills"
    ),
    "worker-silent": Kind(
        "warning", "a worker of {reason} has not sent a heartbeat for {age}", None, "a-node-hangs"
    ),
    "snapshot": Kind(
        "warning",
        "a transaction has kept vacuum from removing rows for {age}",
        "SnapshotHeld",
        "what-waits",
    ),
    "counts": Kind(
        "warning",
        "the counts of queues have not been updated for {age}",
        "CountsStopped",
        "counts-are-not-updated",
    ),
}
# From this age on in seconds a snapshot is trouble, as in the alert.
_LONG_SNAPSHOT = 120
# The janitor adds up all counts once a minute.
_COUNTED = 600
# A worker sends a heartbeat every few seconds.
_SILENT = 30


async def get_overview(node: Node, call: Call[extensions.GetOverview]) -> dict[str, Any]:
    """Return totals, the state of the database, and what needs attention, the worst first.

    Queues whose attributes the caller may not read are omitted, the totals without the right on all
    queues, and the database without the right to describe it. Of one queue they are left out. While
    a partition is unavailable there are no totals, and its queues are omitted.
    """
    given = call.parameters.MaxResults
    limit = _SHOWN if given is None else given
    checks.between(limit, 1, _READ, "MaxResults", f"Must be between 1 and {_READ}.")
    every = QueueName(call.identity.account, call.identity.region, "*")
    answer: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    queue = call.parameters.QueueName
    if "\0" in (queue or ""):
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    if queue is None and access.allows(node, call, "DescribeDatabase", every, ""):
        described = await describe_database(node)
        answer["Database"] = _database(described)
        found += _database_troubles(described)
    rows: list[QueueTrouble] = []
    if node.monitor.state in monitor.SERVING:
        if "Database" in answer:
            known = await workers.known(node.database, call.deadline)
            alive = [each for each in known if each.seen < _SILENT]
            answer["Nodes"] = {
                "Hosts": len({each.host for each in alive}),
                "Workers": len(alive),
            }
            found += [
                _trouble("worker-silent", reason=each.host, seconds=each.seen)
                for each in known
                if each.seen >= _SILENT
            ]
        account, region = every.account, every.region
        rows = await troubles.queues(node.database, account, region, _READ, queue, call.deadline)
        may_total = access.allows(node, call, "GetQueueAttributes", every, "")
        if queue is None and may_total and node.database.is_everywhere_available:
            answer["Totals"] = await _totals(node, call)
        if access.allows(node, call, "ListAuditRecords", every, ""):
            found += await _refusals(node, call, queue)
    found += [_shown(row) for row in rows if _may_read(node, call, row)]
    found.sort(key=lambda each: each["Severity"] != "critical")
    for each in found:
        each["Runbook"] = f"{node.settings.runbook_url}#{each['Runbook']}"
    answer["Troubles"] = found[:limit]
    answer["Found"] = len(found)
    return answer


def _may_read(node: Node, call: Call[Any], row: QueueTrouble) -> bool:
    name = QueueName(call.identity.account, call.identity.region, row.queue)
    return access.allows(node, call, "GetQueueAttributes", name, row.policy or "")


async def _refusals(node: Node, call: Call[Any], queue: str | None) -> list[dict[str, Any]]:
    """Return the callers that are refused, once a minute or more."""
    identity = call.identity
    rows = await refusals.recent(
        node.database, identity.account, identity.region, queue, call.deadline
    )
    return [
        _trouble("refused", row.queue, row.seconds, row.per_minute, row.caller, row.error)
        for row in rows
        if row.number >= refusals.MINUTES
    ]


async def _totals(node: Node, call: Call[Any]) -> dict[str, Any]:
    _, total = await statistics.queues(
        node.database,
        0,
        account=call.identity.account,
        region=call.identity.region,
        deadline=call.deadline,
    )
    return {
        "Queues": total.queues,
        "Messages": total.messages,
        "SentPerMinute": round(total.sent_per_minute or 0),
        "ReceivedPerMinute": round(total.received_per_minute or 0),
        "DeletedPerMinute": round(total.deleted_per_minute or 0),
    }


def _database(described: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the database, and the number of workers with sessions in it."""
    state = {name: described[name] for name in ("State", "StateSeconds")}
    if "Reason" in described:
        state["Reason"] = described["Reason"]
    if "Server" in described:
        replication = described["Replication"]
        state["Version"] = described["Server"]["Version"]
        state["Replication"] = replication["Summary"]
        state["StandbyCount"] = replication["StandbyCount"]
        state["RequiredStandbys"] = replication["Required"]
    if "Partitions" in described:
        state["Partitions"] = len(described["Partitions"])
        state["AvailablePartitions"] = sum(map(_is_available, described["Partitions"]))
    return state


def _is_available(partition: dict[str, Any]) -> bool:
    return "Reason" not in partition


def _database_troubles(described: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the troubles of the database, or of the router and each partition."""
    found = _troubles_of(described)
    for partition in described.get("Partitions", []):
        number = partition["Partition"]
        found += [
            each | {"Partition": number, "Summary": f"Partition {number}: {each['Summary']}"}
            for each in _troubles_of(partition)
        ]
    return found


def _troubles_of(described: dict[str, Any]) -> list[dict[str, Any]]:
    state = described["State"]
    if state not in monitor.SERVING:
        reason = described.get("Reason") or state.replace("_", " ")
        return [
            _trouble("database", reason=state.replace("_", " "), seconds=described["StateSeconds"])
            | {"Reason": reason}
        ]
    found = _damage(described)
    replication = described.get("Replication")
    if replication is not None and replication["StandbyCount"] < replication["Required"]:
        found.append(_trouble("standbys"))
    oldest = described.get("Server", {}).get("OldestSnapshotSeconds")
    if oldest is not None and oldest > _LONG_SNAPSHOT:
        found.append(_trouble("snapshot", seconds=oldest))
    numbers = {each["Name"]: each["Value"] for each in described.get("Numbers", [])}
    counted = numbers.get("counted age", 0)
    if counted > _COUNTED:
        found.append(_trouble("counts", seconds=counted))
    return found


def _damage(described: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a trouble for each relation with damaged pages, with the remedies."""
    by_relation: dict[str, list[dict[str, Any]]] = {}
    for page in described.get("Damage", []):
        by_relation.setdefault(page["Relation"] or "an unknown relation", []).append(page)
    return [
        _trouble(
            "damaged",
            seconds=max(page["Seconds"] for page in pages),
            messages=len(pages),
            reason=relation,
        )
        | {"Reason": "; ".join(f"{page['Error']}: {page['Remedy']}" for page in pages)}
        for relation, pages in by_relation.items()
    ]


def _shown(row: QueueTrouble) -> dict[str, Any]:
    shown = _trouble(row.trouble, row.queue, row.seconds, row.messages, row.reason or "")
    if row.dead_letter_queue is not None:
        shown["DeadLetterQueue"] = row.dead_letter_queue
    if row.trouble == "sent-dead" and row.reason is not None:
        shown["SourceQueue"] = row.reason
    return shown


def _trouble(  # noqa: PLR0913, PLR0917 - what kinds are filled in with.
    name: str,
    queue: str | None = None,
    seconds: float | None = None,
    messages: int | None = None,
    reason: str = "",
    error: str = "",
) -> dict[str, Any]:
    kind = KINDS[name]
    text = kind.summary.format(
        queue=queue,
        messages=f"{messages or 0:,}",
        age=_age(seconds or 0),
        reason=reason,
        error=error,
    )
    known = {
        "Trouble": name,
        "Severity": kind.severity,
        "Summary": f"{text[0].upper()}{text[1:]}",
        "QueueName": queue,
        "Seconds": None if seconds is None else int(seconds),
        "Messages": messages,
        "Alert": kind.alert,
        "Runbook": kind.section,
    }
    return {name: value for name, value in known.items() if value is not None}


def _age(seconds: float) -> str:
    whole = int(seconds)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}s"
    return f"{whole} seconds"

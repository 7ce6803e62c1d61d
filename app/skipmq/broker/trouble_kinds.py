"""The kinds of trouble: what the overview, `skipmq trouble`, `doctor` and the alerts agree on.

Tests compare this table with deploy/prometheus/skipmq.rules.yml, the runbook and the SQL function
skipmq.queue_troubles, in both directions.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

from skipmq.database.monitor import LOCK_REPORTED_AFTER

Severity: TypeAlias = Literal["critical", "warning"]
# A worker sends a heartbeat every five seconds.
SILENT_SECONDS = 30
_DAY, _MEBIBYTE = 86_400, 1_048_576


class Kind(NamedTuple):
    """A kind of trouble: its words, what to do, its section of the runbook, and its alerts.

    `bound` is that of the condition, in the unit of what is compared; None where there is trouble
    or none. The first alert has the same words and bound. A kind without alert has a reason.
    """

    severity: Severity
    summary: str
    remedy: str
    section: str
    alerts: tuple[str, ...] = ()
    bound: float | None = None
    no_alert: str = ""


# By the names that the SQL function and the answers have, the worst first.
KINDS = {
    "database-unreachable": Kind(
        "critical",
        "the database is unreachable",
        "check that PostgreSQL runs and that nodes reach it",
        "other-alarms-and-log-lines-of-the-nodes",
        ("DatabaseAway",),
    ),
    "database-no-connection": Kind(
        "critical",
        "the database refuses sessions of nodes: other programs use all connections",
        "end sessions of other programs, or lower their number",
        "too-many-sessions",
        ("DatabaseNoConnection",),
    ),
    "database-read-only": Kind(
        "critical",
        "the database is read-only",
        "connect to the primary, or reset default_transaction_read_only",
        "the-database-refuses-writes",
        ("DatabaseReadOnly",),
    ),
    "database-disk-full": Kind(
        "critical",
        "the disk of the database is full",
        "free space on its disk",
        "disk-full",
        ("DatabaseDiskFull",),
    ),
    "database-no-privilege": Kind(
        "critical",
        "the role of the nodes lacks rights in the database",
        "run `skipmq migrate` as the schema's owner",
        "the-database-refuses-writes",
        ("DatabasePrivilegeLost",),
    ),
    "table-locked": Kind(
        "critical",
        "requests wait: {reason}",
        "cancel or terminate that session",
        "a-table-is-locked",
        ("TableLocked",),
        bound=LOCK_REPORTED_AFTER,
    ),
    "damaged": Kind(
        "critical",
        "pages of {reason} are damaged: {messages}",
        "repair the pages, and replace the disk",
        "a-page-is-damaged",
        ("DatabaseDamaged",),
    ),
    "standbys": Kind(
        "critical",
        "sends wait: too few standbys acknowledge",
        "make a standby available",
        "no-standby-acknowledges",
        ("StandbysAway", "NoQuorumStandby"),
    ),
    "expired": Kind(
        "critical",
        "messages of {queue} expired in a quarter of an hour: {messages}",
        "raise its retention period, and find out why nothing deletes them",
        "messages-expire",
        ("MessagesExpired",),
        bound=0,
    ),
    "not-received": Kind(
        "critical",
        "no client receives from {queue}, where messages wait",
        "start its consumers",
        "the-queue-grows",
        ("QueueNotReceived",),
        bound=600,
    ),
    "expiring": Kind(
        "warning",
        "the oldest message of {queue} expires in {age}",
        "raise its retention period, or have its messages processed",
        "messages-expire",
        ("MessagesExpiring",),
        bound=_DAY,
    ),
    "not-deleted": Kind(
        "warning",
        "messages of {queue} are received and none was deleted for half an hour",
        "find out why its consumers fail",
        "a-poison-message",
        ("QueueNotDeleted",),
        bound=1800,
    ),
    "redelivered": Kind(
        "warning",
        "messages of {queue} are received repeatedly and not deleted",
        "find out why its consumers fail, and set a dead-letter queue",
        "a-poison-message",
        ("Redelivery",),
        bound=20,
    ),
    "new-failure": Kind(
        "warning",
        "messages of {queue} fail in a new way: {reason}",
        "find out what was deployed or changed within the hour",
        "the-dead-letter-queue-fills",
        no_alert="kinds of failure are texts of clients, so that labels would have no bound",
    ),
    "dead-lettered": Kind(
        "warning",
        "messages of {queue} moved to a dead-letter queue in a quarter of an hour: {messages}",
        "look at the kinds of failure in its dead-letter queue",
        "the-dead-letter-queue-fills",
        ("DeadLetters",),
        bound=0,
    ),
    "sent-dead": Kind(
        "warning",
        "messages that clients sent to the dead-letter queue {queue} in a quarter of an hour:"
        " {messages}",
        "have consumers dead-letter messages by DeadLetterMessage, which keeps their source",
        "the-dead-letter-queue-fills",
        ("DeadLettersSent",),
        bound=0,
    ),
    "refused": Kind(
        "warning",
        "{reason} is refused on {queue}: {error}, {messages} a minute",
        "give the key the right, create the queue that is gone, or stop the client",
        "a-caller-is-refused",
        ("CallerRefused",),
        bound=1,
    ),
    "receivers-idle": Kind(
        "warning",
        "receives from {queue} are empty although messages are visible",
        "look at what is in flight before them",
        "receivers-idle-while-messages-wait",
        ("ReceiversIdle",),
        bound=10,
    ),
    "repeated": Kind(
        "warning",
        "{messages} message{s} of {queue} received {reason} times and not deleted",
        "set a dead-letter queue",
        "a-poison-message",
        ("PoisonMessages",),
        bound=600,
    ),
    "behind": Kind(
        "warning",
        "the oldest message of {queue} was sent {age} ago",
        "add consumers, or let each receive batches",
        "the-queue-grows",
        ("QueueBehind",),
        bound=600,
    ),
    "paused": Kind(
        "warning",
        "receives of {queue} are paused by {reason}",
        "resume them when the cause is removed",
        "the-queue-grows",
        no_alert="an operator does it on purpose; skipmq_queue_paused has it",
    ),
    "group-paused": Kind(
        "warning",
        "the oldest messages of {queue} are of group {reason} {age} ago",
        "resume the group when the cause is removed",
        "the-queue-grows",
        no_alert="an operator does it on purpose; skipmq_queue_paused_groups has it",
    ),
    "limited": Kind(
        "warning",
        "the oldest messages of {queue} wait for {reason}",
        "raise the limit, or find out what keeps messages in flight",
        "the-queue-grows",
        no_alert="a limit is set on purpose; skipmq_queue_held has it",
    ),
    "task-failed": Kind(
        "warning",
        "a task of {queue} failed: {reason}",
        "remove the cause, and start it again",
        "the-dead-letter-queue-fills",
        ("TaskFailed",),
    ),
    "schedule-ended": Kind(
        "warning",
        "a schedule of {queue} has ended: {reason}",
        "remove the cause, and resume the schedule or delete it",
        "other-alarms-and-log-lines-of-the-nodes",
        no_alert="the number of schedules has no bound, so that they have no metrics",
    ),
    "worker-silent": Kind(
        "warning",
        "a worker of {reason} has not sent a heartbeat for {age}",
        "look at the node's log, or start it again",
        "a-node-hangs",
        ("NodeHangs", "NodeDown", "DatabaseAwayForOneNode"),
        bound=SILENT_SECONDS,
    ),
    "node-slow": Kind(
        "warning",
        "node {reason} is slower than the others",
        "find out what else its machine does",
        "latency",
        ("NodeSlow",),
        bound=1,
    ),
    "requests-slow": Kind(
        "warning",
        "one request in a hundred takes longer than {age}",
        "find the slow part: connections, database or processor",
        "latency",
        ("RequestsSlow",),
        bound=1,
    ),
    "requests-refused": Kind(
        "warning",
        "node {reason} refuses requests beyond its limit",
        "add a node, or find clients that poll without waiting",
        "other-alarms-and-log-lines-of-the-nodes",
        ("RequestsRefused",),
        bound=0,
    ),
    "database-slow": Kind(
        "warning",
        "node {reason} closes connections on which the database takes too long",
        "look at the disk of the primary, its standbys and what waits",
        "other-alarms-and-log-lines-of-the-nodes",
        ("DatabaseSlow",),
        bound=0,
    ),
    "node-grows": Kind(
        "warning",
        "node {reason} has {size} of memory for each worker",
        "restart it, and report its metrics",
        "a-node-leaks",
        ("NodeGrows",),
        bound=1024 * _MEBIBYTE,
    ),
    "clock-skew": Kind(
        "warning",
        "the clock of node {reason} differs from the database's by {age}",
        "synchronise the clocks of both machines",
        "a-clock-is-wrong",
        ("ClockSkew",),
        bound=30,
    ),
    "certificate": Kind(
        "warning",
        "the certificate of node {reason} expires in {age}",
        "renew it",
        "other-alarms-and-log-lines-of-the-nodes",
        ("CertificateEnds",),
        bound=14 * _DAY,
    ),
    "sessions": Kind(
        "warning",
        "the server has {messages} sessions, nine tenths of its limit",
        "end sessions of other programs, or lower SKIPMQ_CONNECTIONS",
        "too-many-sessions",
        ("SessionsNearLimit",),
        bound=0.9,
    ),
    "replication-lag": Kind(
        "warning",
        "{reason} is {size} behind the primary",
        "look at its disk and its network",
        "replication-lag",
        ("ReplicationLag",),
        bound=64 * _MEBIBYTE,
    ),
    "snapshot": Kind(
        "warning",
        "a transaction has kept vacuum from removing rows for {age}",
        "terminate that session",
        "what-waits",
        ("SnapshotHeld",),
        bound=120,
    ),
    "bloated": Kind(
        "warning",
        "{reason} has {messages} dead rows",
        "find what keeps vacuum from removing them",
        "bloat",
        ("TableBloated",),
        bound=1_000_000,
    ),
    "not-frozen": Kind(
        "warning",
        "a table was not frozen for {messages} transactions; PostgreSQL stops at 2.1 billion",
        "find what keeps vacuum from freezing rows",
        "bloat",
        ("VacuumBehind",),
        bound=1_000_000_000,
    ),
    "archive-behind": Kind(
        "warning",
        "{messages} days of the history are kept because no export has them",
        "run `skipmq analytics export`",
        "other-alarms-and-log-lines-of-the-nodes",
        ("ArchiveBehind",),
        bound=0,
    ),
    "counts": Kind(
        "warning",
        "the counts of queues have not been updated for {age}",
        "look for `maintenance job failed` in the log of a node",
        "counts-are-not-updated",
        ("CountsStopped",),
        bound=600,
    ),
}


def bound(name: str) -> float:
    """Return the bound of a kind that has one."""
    found = KINDS[name].bound
    assert found is not None
    return found


def described(  # noqa: PLR0913 - what kinds are filled in with.
    name: str,
    *,
    queue: str | None = None,
    seconds: float | None = None,
    messages: int | None = None,
    reason: str = "",
    error: str = "",
    size: float = 0.0,
    lasts: bool = True,
) -> dict[str, Any]:
    """Return a trouble as the answers have it; `lasts`: `seconds` are those since it began."""
    kind = KINDS[name]
    text = kind.summary.format(
        queue=queue,
        messages=f"{messages or 0:,}",
        s="" if messages == 1 else "s",
        age=duration(seconds or 0),
        reason=reason,
        error=error,
        size=f"{size / _MEBIBYTE:,.0f} MiB",
    )
    known = {
        "Trouble": name,
        "Severity": kind.severity,
        "Summary": f"{text[0].upper()}{text[1:]}",
        "Remedy": f"{kind.remedy[0].upper()}{kind.remedy[1:]}.",
        "QueueName": queue,
        "Seconds": None if seconds is None or not lasts else int(seconds),
        "Messages": messages,
        "Alert": kind.alerts[0] if kind.alerts else None,
        "Runbook": kind.section,
    }
    return {name: value for name, value in known.items() if value is not None}


def duration(seconds: float) -> str:
    """Return a time in words, in the largest unit of which it has two."""
    whole = int(seconds)
    for unit, length in (("day", _DAY), ("hour", 3_600), ("minute", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}s"
    return f"{whole} second{'' if whole == 1 else 's'}"

"""Beyond SQS: an overview of the broker, with its activity and what needs attention."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from time import monotonic, time  # noqa: TID251 - certificates expire by the system clock.
from typing import Any, TypeVar

from skipmq.actions import access, checks
from skipmq.actions.skipmq import server_troubles
from skipmq.actions.skipmq.database import describe_database
from skipmq.broker import minutes, refusals, statistics, troubles, workers
from skipmq.broker.minutes import BOUNDS, KEPT_MINUTES, BrokerMinute
from skipmq.broker.node import Node
from skipmq.broker.refusals import Refusal
from skipmq.broker.trouble_kinds import SILENT_SECONDS, described
from skipmq.broker.troubles import QueueTrouble
from skipmq.broker.workers import Worker
from skipmq.database import monitor
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call
from skipmq.protocol.identity import QueueName

T = TypeVar("T")
_READ, _SHOWN = 100, 20
# The longest wait in seconds for one part: the others are shown without it.
_TIMEOUT = 5.0
# These have a reason of their own.
_ALONE = {
    *("task-failed", "new-failure", "paused", "refused", "sent-dead"),
    *("group-paused", "limited", "schedule-ended"),
}
# From this number on troubles of a kind in one place are one.
_FOLDED = 3
# Activity of more minutes has steps of several.
_BY_MINUTE, _STEP = 90, 5
_FLOWS = {"sent": "Sent", "received": "Received", "deleted": "Deleted", "messages": "Messages"}
_MINUTE = 60


async def get_overview(node: Node, call: Call[extensions.GetOverview]) -> dict[str, Any]:
    """Return totals, the state of the database, and what needs attention, the worst first.

    Queues whose attributes the caller may not read are omitted, the totals without the right on all
    queues, and the database without the right to describe it. Of one queue they are left out. With
    `Everywhere` they are of all accounts and regions: with a key, of its account's. While a
    partition is unavailable there are no totals, and its queues are omitted. `Minutes` adds
    the activity of all regions, for those with the right on all; of one queue there is none.
    Parts that could not be read are named by `Unknown`.
    """
    limit, queue = _checked(call.parameters), call.parameters.QueueName
    account, region = _place(call)
    every = QueueName(account or "*", region or "*", "*")
    answer: dict[str, Any] = {}
    now = time()
    found: list[dict[str, Any]] = []
    unknown: list[str] = []
    is_serving = node.monitor.state in monitor.SERVING
    is_read_only = node.monitor.state == monitor.READ_ONLY
    is_readable = is_serving or is_read_only
    deadline = min(call.deadline, monotonic() + _TIMEOUT)
    if queue is None and access.allows(node, call, "DescribeDatabase", every, ""):
        lock = await node.table_locks.oldest(_TIMEOUT) if is_serving else None
        described_database = await describe_database(node)
        answer["Database"] = _database(described_database)
        found += server_troubles.lock_troubles(lock)
        found += server_troubles.database_troubles(described_database)
        known = partial(workers.known, node.database, deadline)
        heard = await _known(known, is_readable, "nodes", unknown)
        if heard is not None:
            answer["Nodes"] = _nodes(heard)
            found += server_troubles.worker_troubles(heard, now)
    reading = partial(troubles.queues, node.database, account, region, _READ, queue, deadline)
    rows = await _known(reading, is_readable, "queues", unknown) or []
    may_total = access.allows(node, call, "GetQueueAttributes", every, "")
    if (period := call.parameters.Minutes) is not None and queue is None:
        regions = QueueName(account or "*", "*", "*")
        whose = account if access.allows(node, call, "GetQueueAttributes", regions, "") else ""
        drawing = partial(_activity, node, whose, period, deadline, "Database" in answer)
        drawn = await _known(drawing, is_readable, "activity", unknown)
        answer |= {"Activity": drawn} if drawn is not None else {}
    is_complete = is_read_only or node.database.is_everywhere_available
    if queue is None and may_total and is_readable and is_complete:
        counting = partial(_totals, node, account, region, deadline)
        totals = await _known(counting, not unknown, "totals", unknown)
        answer |= {"Totals": totals} if totals is not None else {}
    found += [_shown(row) for row in rows if _may_read(node, call, row)]
    if access.allows(node, call, "ListAuditRecords", every, ""):
        denied = partial(refusals.recent, node.database, account, region, queue, deadline)
        found += _refused(await _known(denied, is_readable, "refusals", unknown) or [])
    found.sort(key=lambda each: each["Severity"] != "critical")
    shown = folded(found) if call.parameters.Folded else found
    for each in shown:
        each["Runbook"] = f"{node.settings.runbook_url}#{each['Runbook']}"
        if "Seconds" in each:
            each["SinceTimestamp"] = int(now) - each["Seconds"]
    answer["Troubles"] = shown[:limit]
    answer["Found"] = len(shown)
    if unknown:
        answer["Unknown"] = unknown
    return answer


def _checked(parameters: extensions.GetOverview) -> int:
    """Check the parameters; return the number of troubles to answer with."""
    limit = checks.results(parameters.MaxResults, _SHOWN, _READ)
    checks.between(parameters.Minutes, 1, KEPT_MINUTES, "Minutes")
    if "\0" in (parameters.QueueName or ""):
        raise errors.InvalidParameterValueException("A text cannot contain NUL.")
    return limit


def _place(call: Call[extensions.GetOverview]) -> tuple[str | None, str | None]:
    """Return the account and region whose queues are examined; None is every one."""
    identity = call.identity
    if not call.parameters.Everywhere:
        return identity.account or None, identity.region or None
    return (identity.account if identity.key_id is not None else None), None


async def _known(
    reading: Callable[[], Awaitable[T]], is_readable: bool, part: str, unknown: list[str]
) -> T | None:
    """Return what is read; None, with the part added to `unknown`, where the database fails."""
    try:
        if is_readable:
            return await reading()
    except (errors.ServiceUnavailable, errors.Locked):
        pass
    unknown.append(part)
    return None


def _may_read(node: Node, call: Call[Any], row: QueueTrouble) -> bool:
    name = QueueName(row.account, row.region, row.queue)
    return access.allows(node, call, "GetQueueAttributes", name, row.policy or "")


def _refused(rows: Sequence[Refusal]) -> list[dict[str, Any]]:
    """Return the callers that are refused, once a minute or more."""
    return [
        described(
            "refused",
            queue=each.queue,
            seconds=each.seconds,
            messages=each.per_minute,
            reason=each.caller,
            error=each.error,
        )
        | {"Account": each.account, "Region": each.region}
        for each in rows
        if each.number >= refusals.MINUTES
    ]


def _nodes(heard: list[Worker]) -> dict[str, int]:
    alive = [each for each in heard if each.seen < SILENT_SECONDS]
    hosts, nodes = {each.host for each in alive}, {each.node for each in alive}
    return {"Hosts": len(hosts), "Nodes": len(nodes), "Workers": len(alive)}


async def _totals(
    node: Node, account: str | None, region: str | None, deadline: float
) -> dict[str, Any]:
    _, total = await statistics.queues(
        node.database, 0, account=account, region=region, deadline=deadline
    )
    return {
        "Queues": total.queues,
        "Messages": total.messages,
        "SentPerMinute": round(total.sent_per_minute or 0),
        "ReceivedPerMinute": round(total.received_per_minute or 0),
        "DeletedPerMinute": round(total.deleted_per_minute or 0),
    }


def _database(database: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the database, and the number of workers with sessions in it."""
    state = {name: database[name] for name in ("State", "StateSeconds")}
    if "Reason" in database:
        state["Reason"] = database["Reason"]
    if "Server" in database:
        replication = database["Replication"]
        state["Version"] = database["Server"]["Version"]
        state["Replication"] = replication["Summary"]
        state["StandbyCount"] = replication["StandbyCount"]
        state["RequiredStandbys"] = replication["Required"]
    if "Partitions" in database:
        state["Partitions"] = len(database["Partitions"])
        state["AvailablePartitions"] = sum(map(_is_available, database["Partitions"]))
    return state


def _is_available(partition: dict[str, Any]) -> bool:
    return "Reason" not in partition


def _shown(row: QueueTrouble) -> dict[str, Any]:
    shown = described(
        row.trouble,
        queue=row.queue,
        seconds=row.seconds,
        messages=row.messages,
        reason=row.reason or "",
        lasts=row.trouble != "expiring",
    )
    shown |= {"Account": row.account, "Region": row.region}
    if row.dead_letter_queue is not None:
        shown["DeadLetterQueue"] = row.dead_letter_queue
    if row.usual is not None:
        shown["Usual"] = round(row.usual, 2)
    if row.trouble == "sent-dead" and row.reason is not None:
        shown["SourceQueue"] = row.reason
    return shown


def folded(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return troubles with one for the queues of a place that have the same, if they are many.

    A queue whose rate is unusual, and a trouble with a reason of its own, stays alone.
    """
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, each in enumerate(found):
        key = (each["Trouble"], each.get("Account", ""), each.get("Region", ""))
        alone = (str(number),) if _is_alone(each) else ()
        groups.setdefault((*key, *alone), []).append(each)
    shown: list[dict[str, Any]] = []
    for group in groups.values():
        shown += [_fold(group)] if len(group) >= _FOLDED else group
    return shown


def _is_alone(trouble: dict[str, Any]) -> bool:
    if "QueueName" not in trouble or trouble["Trouble"] in _ALONE:
        return True
    usual = trouble.get("Usual")
    return usual is not None and trouble["Messages"] > _UNUSUAL * max(usual, 1)


# A rate is unusual that is this many times the queue's usual one.
_UNUSUAL = 3


def _fold(group: list[dict[str, Any]]) -> dict[str, Any]:
    first = group[0]
    seconds = [each["Seconds"] for each in group if "Seconds" in each]
    shown = described(
        first["Trouble"],
        queue=f"{len(group)} queues",
        seconds=max(seconds, default=None),
        messages=sum(each.get("Messages", 0) for each in group),
    )
    del shown["QueueName"]
    return shown | {
        "Account": first["Account"],
        "Region": first["Region"],
        "Queues": [each["QueueName"] for each in group],
    }


async def _activity(
    node: Node, account: str | None, period: int, deadline: float, may_describe: bool
) -> dict[str, Any]:
    """Return the activity of the last `period` minutes: of an account, of all, or of none if empty.

    With `may_describe` it has the requests of the whole broker, their errors by code, and events.
    """
    step = 1 if period <= _BY_MINUTE else _STEP
    accounts = [] if account == "" else [account or minutes.ALL]
    accounts += [minutes.NODES] if may_describe else []
    clock = await node.database.clock(deadline)
    found = await node.minutes.read(accounts, period, step, clock, deadline)
    steps: dict[int, dict[str, Any]] = {}
    durations: dict[int, dict[str, int]] = {}
    for at, kind, label, number in found:
        start = at - at % (_MINUTE * step)
        if kind in _FLOWS:
            steps.setdefault(start, {"Start": start})[_FLOWS[kind]] = number
        elif kind == "error":
            steps.setdefault(start, {"Start": start}).setdefault("Errors", {})[label] = number
        elif kind == "duration":
            steps.setdefault(start, {"Start": start})
            durations.setdefault(start, {})[label] = number
    for start, counted in durations.items():
        counts = [counted.get(bound, 0) for bound in BOUNDS]
        steps[start]["Requests"] = sum(counts)
        for name, share in (("P50", 0.5), ("P99", 0.99)):
            seconds = minutes.quantile(counts, share) or 0.0
            steps[start][f"{name}Milliseconds"] = round(1000 * seconds, 1)
    return {
        "Clock": int(clock),
        "StepMinutes": step,
        "Steps": [steps[start] for start in sorted(steps)],
        "Events": events(found),
    }


def events(found: Iterable[BrokerMinute]) -> list[dict[str, Any]]:
    """Return starts of nodes, failovers, and the troubles of the database with their ends."""
    happened: list[dict[str, Any]] = []
    conditions: dict[str, dict[str, Any]] = {}
    timelines: dict[str, int] = {}
    for at, kind, label, _ in sorted(found):
        if kind == "node":
            happened.append({"Event": "node-started", "Detail": label, "StartTimestamp": at})
        elif kind == "timeline":
            partition, _, timeline = label.partition(".")
            before = timelines.get(partition)
            timelines[partition] = max(before or 0, int(timeline))
            if before is not None and int(timeline) > before:
                detail = f"timeline {timeline}"
                happened.append({"Event": "failover", "Detail": detail, "StartTimestamp": at})
        elif kind == "condition":
            end = at + _MINUTE
            known = conditions.get(label)
            if known is not None and at <= known["EndTimestamp"]:
                known["EndTimestamp"] = end
                continue
            conditions[label] = {"Event": label, "StartTimestamp": at, "EndTimestamp": end}
            happened.append(conditions[label])
    return happened

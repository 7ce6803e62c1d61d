"""Beyond SQS: the activity of the whole broker by the minute, with what happened to it."""

from collections.abc import Iterable
from typing import Any

from skipmq.broker import minutes
from skipmq.broker.minutes import BOUNDS, BrokerMinute
from skipmq.broker.node import Node

# Activity of more minutes has steps of several.
_BY_MINUTE, _STEP = 90, 5
_FLOWS = {"sent": "Sent", "received": "Received", "deleted": "Deleted", "messages": "Messages"}
_MINUTE = 60


async def recent(
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

"""What charts mark: changes in the audit log, and what befell nodes and the database."""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from skipmq.console.drawing import Event
from skipmq.console.pages import access
from skipmq.console.visit import current
from skipmq.protocol import errors

_CHANGES = {
    "CancelMessageMoveTask": "Task cancelled",
    "CreateQueue": "Queue created",
    "DeleteQueue": "Queue deleted",
    "EndSession": "Session of the database ended",
    "PauseQueue": "Receives paused",
    "PurgeQueue": "Purge",
    "SetQueueAttributes": "Settings changed",
    "StartMessageMoveTask": "Redrive started",
    "StartMessageTask": "Task started",
}
_EVENTS = {
    "database-disk-full": "The disk of the database is full",
    "database-no-privilege": "The database refuses the node's role",
    "database-unavailable": "Database unavailable",
    "failover": "Failover",
    "node-started": "Node started",
    "standbys": "Too few standbys",
    "table-locked": "A table of messages is locked",
}
_RESUMED = "Receives resumed"
_RECORDS = 100
# From this number on equal changes by one caller, one after another, are one.
_FOLDED = 3


def queue_events(arn: str, clock: int) -> list[Event]:
    """Return what changed a queue, and the last outage of the database that its node has seen."""
    found = _changes(Queue=arn, Outcome="done")
    if current().may("DescribeDatabase"):
        database, _ = current().attempt("DescribeDatabase")
        node = database.get("Node", {})
        if "LastOutageEndedSeconds" in node:
            ended = clock - node["LastOutageEndedSeconds"]
            began = ended - node["LastOutageSeconds"]
            found.append(_event(began, _EVENTS["database-unavailable"], until=ended))
    return found


def broker_events(activity: Mapping[str, Any], since: int) -> list[Event]:
    """Return what changed since a time, and what befell nodes and the database."""
    events = [
        _event(
            each["StartTimestamp"],
            _EVENTS.get(each["Event"], each["Event"]),
            until=each.get("EndTimestamp"),
            attributes=each.get("Detail", ""),
            is_bad="EndTimestamp" in each or each["Event"] == "failover",
        )
        for each in activity["Events"]
    ]
    return events + _folded(_changes(ChangesOnly=True, SinceTimestamp=since * 1000))


def _changes(**filters: Any) -> list[Event]:
    """Return the changes in the audit log that are marked, the newest first."""
    if not current().may("ListAuditRecords"):
        return []
    found, _ = current().attempt("ListAuditRecords", MaxResults=_RECORDS, **filters)
    return [
        _event(
            each["RecordedTimestamp"] / 1000,
            _text(each),
            attributes=_attributes(each, of_queue="Queue" in filters),
            who=access.shown_record(each)["caller"],
        )
        | _linked("" if "Queue" in filters else each.get("QueueArn") or "", each["Action"])
        for each in found.get("Records", [])
        if each["Action"] in _CHANGES
    ]


def _linked(arn: str, action: str) -> dict[str, Any]:
    """Return the queues that a mark leads to: none where it is gone or of no single one."""
    _, _, _, region, account, name = arn.split(":", 5) if arn.count(":") >= 5 else [""] * 6  # noqa: PLR2004
    is_gone = action == "DeleteQueue" or name in {"", "*"}
    return {"queues": [] if is_gone else [{"name": name, "region": region, "account": account}]}


def _event(time: float, text: str, *, until: float | None = None, **members: Any) -> Event:
    lasted = None if until is None else int(until - time)
    return {"time": time, "text": text, "until": until, "lasted": lasted, **members}


def _folded(changes: Iterable[Event]) -> list[Event]:
    """Return changes with one for several of a kind by one caller."""
    found: list[Event] = []
    for (text, _), group in groupby(changes, key=lambda each: (each["text"], each["who"])):
        equal = [*group]
        if len(equal) < _FOLDED:
            found += equal
        else:
            found.append({**equal[-1], "text": f"{text} ({len(equal)} times)"})
            queues = [queue for each in equal for queue in each["queues"]]
            found[-1]["queues"] = [*{tuple(each.items()): each for each in queues}.values()]
            named = dict.fromkeys(each["attributes"] for each in equal if each["attributes"])
            found[-1]["attributes"] = "; ".join(named)
    return found


def _text(record: Mapping[str, Any]) -> str:
    resumes = record["Action"] == "PauseQueue" and _parameters(record).get("Paused") is False
    return _RESUMED if resumes else _CHANGES[record["Action"]]


def _attributes(record: Mapping[str, Any], *, of_queue: bool) -> str:
    """Return the attributes that a record has set, what was deleted and how much, or nothing."""
    action, parameters = record["Action"], _parameters(record)
    attributes = parameters.get("Attributes") if action == "SetQueueAttributes" else None
    shown = [f"{name}={errors.shown(value)}" for name, value in (attributes or {}).items()]
    # A queue that is gone has no link.
    if action == "DeleteQueue" and not of_queue:
        shown.append((record.get("QueueArn") or "").rpartition(":")[2])
    if action in {"DeleteQueue", "PurgeQueue"} and "Messages" in parameters:
        number = parameters["Messages"]
        shown.append(f"{number:,} message{'s' * (number != 1)}")
    return ", ".join(shown)


def _parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.get("Parameters") or "{}")
    return found

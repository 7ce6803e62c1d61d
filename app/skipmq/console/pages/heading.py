"""What the pages of one queue have above them: its counts, its kind, its tabs."""

from typing import Any

from skipmq import errors
from skipmq.console.visit import current

OWN = ("HistoryMode", "ReplicationMode")
_ACTIONS = (
    "DeleteQueue",
    "ListMessageMoveTasks",
    "PeekMessages",
    "PurgeQueue",
    "SendMessage",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
)
_COUNTS = ("", "NotVisible", "Delayed")


def of(name: str, tab: str) -> dict[str, Any]:
    """Return what the template `queue.html` needs.

    Who may not read attributes sees none. Raises errors.QueueDoesNotExist, and errors.AccessDenied
    where nothing at all is allowed.
    """
    found, error = current().attempt(
        "GetQueueAttributes", QueueUrl=name, AttributeNames=["All", *OWN]
    )
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    try:
        rights = current().rights(name, *_ACTIONS)
    except errors.QueueDoesNotExist:
        # Whoever has no rights learns nothing of the queue, not even if it is.
        raise (error or errors.QueueDoesNotExist()) from None
    if error is not None and not rights:
        raise error
    attributes: dict[str, str] = found.get("Attributes", {})
    names = (f"ApproximateNumberOfMessages{each}" for each in _COUNTS)
    counts = [int(attributes[each]) for each in names] if attributes else None
    return {
        "name": name,
        "arn": current().arn(name),
        "fifo": name.endswith(".fifo"),
        "tab": tab,
        "attributes": attributes,
        "counts": counts,
        "rights": rights,
    }

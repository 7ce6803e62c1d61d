"""The heading of a queue's pages: counts, type, buttons and tabs."""

from typing import Any

from skipmq import errors
from skipmq.console.visit import current

OWN = ("HistoryMode", "ReplicationMode")
_ACTIONS = (
    "DeleteQueue",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "PeekMessages",
    "PurgeQueue",
    "SendMessage",
    "SetQueueAttributes",
    "StartMessageMoveTask",
    "TagQueue",
    "UntagQueue",
)
# The number of source queues that are named.
_SOURCES = 20
_COUNTS = ("", "NotVisible", "Delayed")


def build(name: str, tab: str) -> dict[str, Any]:
    """Return the variables of the template `queue.html`.

    Attributes are empty without the right to read them. Raises errors.QueueDoesNotExist, and
    errors.AccessDenied without any right on the queue.
    """
    result, error = current().attempt(
        "GetQueueAttributes", QueueUrl=name, AttributeNames=["All", *OWN]
    )
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    try:
        rights = current().rights(name, *_ACTIONS)
    except errors.QueueDoesNotExist:
        # Do not reveal whether the queue exists.
        raise (error or errors.QueueDoesNotExist()) from None
    if error is not None and not rights:
        raise error
    attributes: dict[str, str] = result.get("Attributes", {})
    names = (f"ApproximateNumberOfMessages{each}" for each in _COUNTS)
    counts = [int(attributes[each]) for each in names] if attributes else None
    sources: list[str] = []
    if "ListDeadLetterSourceQueues" in rights:
        found, _ = current().attempt(
            "ListDeadLetterSourceQueues", QueueUrl=name, MaxResults=_SOURCES
        )
        sources = [url.rpartition("/")[2] for url in found.get("queueUrls", [])]
    return {
        "name": name,
        "arn": current().arn(name),
        "fifo": name.endswith(".fifo"),
        "tab": tab,
        "attributes": attributes,
        "counts": counts,
        "rights": rights,
        "source_queues": sources,
        "may_redrive": bool(sources and counts and counts[0]),
    }

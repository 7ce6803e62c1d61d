"""The heading of a queue's pages: counts, type, buttons and tabs."""

from typing import Any

from skipmq.console.visit import current
from skipmq.protocol import errors
from skipmq.protocol.queue_attributes import OURS, PAUSED

_ACTIONS = (
    "DeleteQueue",
    "ListDeadLetterSourceQueues",
    "ListMessageMoveTasks",
    "ListQueueTags",
    "PauseMessageGroup",
    "PauseQueue",
    "PeekMessages",
    "PurgeQueue",
    "ReleaseMessages",
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
    result, error = current().read(
        "GetQueueAttributes", QueueUrl=name, AttributeNames=["All", *OURS, *PAUSED]
    )
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
    may_redrive = "StartMessageMoveTask" in rights
    is_fifo = name.endswith(".fifo")
    # The fragment of the counts, which has no tab, shows no way to redrive.
    is_asked = bool(tab and may_redrive and not sources and any(counts or []))
    origin = _origin(name, rights) if is_asked else ""
    return {
        "name": name,
        "arn": current().arn(name),
        "fifo": is_fifo,
        "tab": tab,
        "tabs": _tabs(rights, tab, readable=bool(attributes), redrive=bool(sources or origin)),
        "attributes": attributes,
        "counts": counts,
        "rights": rights,
        "source_queues": sources,
        "origin": origin,
        "has_redrive": bool(sources or origin),
        "may_audit": current().may("ListAuditRecords"),
        "may_redrive": may_redrive and bool((sources or origin) and counts and counts[0]),
    }


def _tabs(
    rights: frozenset[str], tab: str, *, readable: bool, redrive: bool
) -> dict[str, tuple[str, str]]:
    """Return the pages of a queue that the visitor may open, and the present one.

    Each has its view and its label.
    """
    may_peek = "PeekMessages" in rights
    pages = (
        ("overview", "queue", "Overview", True),
        ("messages", "messages", "Messages", may_peek),
        ("consumers", "consumers", "Consumers", may_peek),
        ("groups", "groups", "Groups", may_peek),
        ("charts", "charts", "Charts", readable),
        ("send", "send", "Send", "SendMessage" in rights),
        ("settings", "settings", "Settings", readable or "ListQueueTags" in rights),
        # It has the tasks of every queue: without anything to redrive it is reached from them.
        ("redrive", "redrive", "Redrive" if redrive else "Tasks", redrive),
        ("removal", "removal", "Purge or delete", bool(rights & {"PurgeQueue", "DeleteQueue"})),
    )
    return {key: (view, label) for key, view, label, may in pages if may or key == tab}


def _origin(name: str, rights: frozenset[str]) -> str:
    """Return the ARN of the queue that dead-lettered the first message of a queue, or nothing.

    Messages keep it when no queue names theirs as its dead-letter queue any more.
    """
    if "PeekMessages" not in rights:
        return ""
    found, _ = current().attempt("PeekMessages", QueueUrl=name, MaxResults=1)
    attributes = [each["Attributes"] for each in found.get("Messages", [])]
    return str(attributes[0].get("DeadLetterQueueSourceArn", "")) if attributes else ""

"""Beyond SQS: search the messages of a queue, without receiving them, and the filters of tasks."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from skipmq.actions import checks, paging
from skipmq.actions.skipmq.inspection import page
from skipmq.broker import inspection
from skipmq.broker.inspection import MessageFilter
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions, limits
from skipmq.protocol.call import Call

# Characters of each text of a filter, and the shown messages of an answer.
_TEXT, _SHOWN = 256, 50
_LATEST = 253_402_300_799_000
# The further members of a filter, by their names in the database; and those that are times.
FURTHER = {
    "path": "BodyPath",
    "receives": "MinimumReceiveCount",
    "failure": "FailureKind",
    "sent_before": "SentBefore",
    "until": "VisibleBefore",
}
TIMES = {"sent_before", "until"}
# The place where a search continues: a time in microseconds, and a number.
_PLACE = re.compile("[0-9]{1,18}/[0-9]{1,18}")


async def search_messages(
    node: Node, call: Call[extensions.SearchMessages], queue: Queue
) -> dict[str, Any]:
    """Return the first messages of a queue that match a filter, and how many were searched.

    A step reads 200,000 messages for a second at most; each NextToken continues.
    """
    limit = checks.results(call.parameters.MaxResults, _SHOWN, limits.PEEKED)
    token = paging.after(call, _PLACE)
    place = tuple(map(int, token.split("/"))) if token else (None, None)
    clock = await node.database.clock(call.deadline)
    matching = message_filter(call.parameters)
    step = await inspection.search(node.database, queue, matching, place, call.deadline)
    found = await inspection.picked(
        node.database, node.budget, queue, step.references[:limit], call.deadline
    )
    result: dict[str, Any] = {
        "Messages": page(node, found),
        "MessageReferences": [str(each) for each in step.references],
        "Found": step.found,
        "Searched": step.searched,
        "Clock": int(clock * 1_000),
    }
    if not step.finished:
        result["NextToken"] = paging.token(f"{step.at}/{step.number}")
    return result


def message_filter(parameters: extensions.FilterParameters) -> MessageFilter:
    """Check the members of a filter, and return it."""
    texts = (parameters.BodyContains, parameters.AttributeName, parameters.AttributeValue)
    for text in (*texts, parameters.BodyPath, parameters.FailureKind or None):
        if text is not None and (not text or "\0" in text or len(text) > _TEXT):
            raise errors.InvalidParameterValueException(
                f"A text of a filter must have 1 to {_TEXT} characters and no NUL."
            )
    if parameters.AttributeValue is not None and parameters.AttributeName is None:
        raise errors.InvalidParameterValueException(
            "A filter by attribute value requires an attribute name."
        )
    members = {name: getattr(parameters, member, None) for name, member in FURTHER.items()}
    given = {name: value for name, value in members.items() if value is not None}
    for name in TIMES & given.keys():
        if not 0 <= given[name] <= _LATEST:
            raise errors.InvalidParameterValueException("A time must be in milliseconds.")
        given[name] = datetime.fromtimestamp(given[name] / 1_000, UTC).isoformat()
    return MessageFilter(*texts, msgspec.json.encode(given).decode() if given else None)

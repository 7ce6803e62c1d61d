"""Beyond SQS: schedules, which send a message at the times of a cron expression."""

import re
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from skipmq.actions import checks, paging
from skipmq.broker import schedules
from skipmq.broker.node import Node
from skipmq.broker.queues import Queue
from skipmq.protocol import errors, extensions
from skipmq.protocol.call import Call

_PAGE, _PREVIEWED, _TICKS = 100, 10, 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CATCH_UP = ("latest", "all")
_LONGEST_EXPRESSION = 256
# The beginning of the last day of the year 9999, in milliseconds since 1970.
_LATEST = 253_402_214_400_000


async def create_schedule(
    node: Node, call: Call[extensions.CreateSchedule], queue: Queue
) -> dict[str, Any]:
    """Create a schedule that sends to a queue, or change the one of that name."""
    given = call.parameters
    _check(given, queue)
    try:
        times = schedules.Times(given.Expression, given.Zone)
    except schedules.ScheduleError as error:
        raise errors.InvalidParameterValueException(str(error)) from None
    now = datetime.fromtimestamp(await node.database.clock(call.deadline), UTC)
    end = given.EndTimestamp
    upcoming = [round(each.timestamp() * 1000) for each in islice(times.after(now), _PREVIEWED)]
    upcoming = [each for each in upcoming if end is None or each <= end]
    if not upcoming:
        raise errors.InvalidParameterValueException(f"{given.Expression!r} has passed.")
    attributes = given.MessageAttributes
    is_new = await schedules.create(
        node.database,
        (
            *(given.Name, queue.name.name, given.Expression, given.MessageBody, given.Zone),
            msgspec.json.encode(attributes).decode() if attributes else None,
            *(given.MessageGroupId, given.JitterSeconds, given.CatchUp),
            *(None if end is None else end * 1000, given.MaximumFailures),
            *(queue.name.account, queue.name.region),
        ),
        call.deadline,
    )
    return {"IsNew": is_new, "NextTimestamps": upcoming}


def _check(given: extensions.CreateSchedule, queue: Queue) -> None:
    if not _NAME.fullmatch(given.Name):
        reason = "Must be 1 to 64 letters, digits, dots, hyphens and underscores."
        raise errors.invalid(given.Name, "Name", reason)
    if len(given.Expression) > _LONGEST_EXPRESSION:
        reason = f"Must be at most {_LONGEST_EXPRESSION} characters."
        raise errors.invalid(given.Expression, "Expression", reason)
    reason = "Must be milliseconds since 1970."
    checks.between(given.EndTimestamp, 0, _LATEST, "EndTimestamp", reason)
    if not given.MessageBody:
        raise errors.missing("MessageBody")
    checks.characters(given.MessageBody)
    size = queue.attributes.maximum_message_size
    if len(given.MessageBody.encode()) > size:
        raise errors.InvalidParameterValueException(f"Message must be shorter than {size} bytes.")
    if given.MessageAttributes:
        checks.message_attributes(given.MessageAttributes)
        if queue.attributes.priority_mode != "none":
            checks.priority(given.MessageAttributes)
    checks.identifier(given.MessageGroupId, "MessageGroupId")
    checks.between(given.JitterSeconds, 0, 900, "JitterSeconds")
    checks.between(given.MaximumFailures, 1, 1_000, "MaximumFailures")
    if given.CatchUp not in _CATCH_UP:
        raise errors.invalid(given.CatchUp, "CatchUp", "Must be latest or all.")


async def list_schedules(node: Node, call: Call[extensions.ListSchedules]) -> dict[str, Any]:
    """List the schedules of an account in a region by name, in pages."""
    limit = checks.results(call.parameters.MaxResults or None, _PAGE, _PAGE)
    account, region = call.identity.account, call.identity.region
    after = paging.after(call)
    rows = await schedules.listed(node.database, account, region, after, limit + 1, call.deadline)
    result: dict[str, Any] = {"Schedules": rows[:limit]}
    if len(rows) > limit:
        result["NextToken"] = paging.token(rows[limit - 1].name)
    return result


async def describe_schedule(node: Node, call: Call[extensions.DescribeSchedule]) -> dict[str, Any]:
    """Return a schedule with its next ticks, and the last ones."""
    account, region, name = call.identity.account, call.identity.region, call.parameters.Name
    found = await schedules.listed(node.database, account, region, "", 1, call.deadline, name)
    if not found:
        raise errors.ResourceNotFoundException(f"There is no schedule {name!r}.")
    ticks = await schedules.ticks(node.database, account, region, name, _TICKS, call.deadline)
    upcoming = found[0].preview(_PREVIEWED)
    return {"Schedule": found[0], "NextTimestamps": upcoming, "Ticks": ticks}


async def pause_schedule(node: Node, call: Call[extensions.PauseSchedule]) -> None:
    """Pause a schedule, or with Paused of false resume it."""
    await _change(node, call, "resume" if call.parameters.Paused is False else "pause")


async def run_schedule(node: Node, call: Call[extensions.RunSchedule]) -> None:
    """Send the message of a schedule now."""
    await _change(node, call, "run")


async def delete_schedule(node: Node, call: Call[extensions.DeleteSchedule]) -> None:
    """Delete a schedule with its history."""
    await _change(node, call, "delete")


async def _change(node: Node, call: Call[Any], how: str) -> None:
    account, region = call.identity.account, call.identity.region
    await schedules.change(node.database, account, region, call.parameters.Name, how, call.deadline)

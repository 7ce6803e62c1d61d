"""The overview of a queue: its age, rates, trouble, dead letters and tags; consumers and groups."""

from collections.abc import Mapping
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.pages import heading, settings
from skipmq.console.pages.dead_letters import ACTIVE
from skipmq.console.pages.messages import outcomes_of
from skipmq.console.visit import current
from skipmq.protocol import errors

_MINUTES, _TASKS, _MOVES = 60, 5, 20
_RATES = {"In /min": "Sent", "Received /min": "Received", "Out /min": "Deleted"}


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/queues/<name>", "queue_home", lambda name: site.see("queue", name=name))
    pages.add_url_rule("/queues/<name>/overview", "queue", _queue)
    pages.add_url_rule("/queues/<name>/consumers", "consumers", _consumers)
    pages.add_url_rule("/queues/<name>/groups", "groups", _groups)
    pages.add_url_rule("/queues/<name>/groups", "release_groups", _release, methods=["POST"])
    pages.add_url_rule("/queues/<name>/groups/pause", "pause_group", _pause, methods=["POST"])


def _queue(name: str) -> ResponseReturnValue:
    head = heading.build(name, "overview")
    may_read = bool(head["attributes"])
    activity = _known("GetQueueActivity", may_read, QueueUrl=name, Minutes=_MINUTES, Times=False)
    consumers = _known("ListConsumers", "PeekMessages" in head["rights"], QueueUrl=name)
    may_list_tasks = "ListMessageMoveTasks" in head["rights"]
    tasks = _known("ListMessageTasks", may_list_tasks, QueueUrl=name, MaxResults=_TASKS)
    tags = _known("ListQueueTags", "ListQueueTags" in head["rights"], QueueUrl=name)
    overview = _known("GetOverview", current().may_list(), QueueName=name)
    target, receives = settings.redrive(head["attributes"])
    return flask.render_template(
        "overview_of_queue.html",
        **head,
        activity=activity,
        rates=_rates(activity) if activity else {},
        consumers=consumers,
        tasks=[each for each in tasks.get("Tasks", []) if each["Status"] in ACTIVE],
        moved_in=_moved_in(name, target),
        tags=tags.get("Tags", {}),
        troubles=overview.get("Troubles", []),
        dead_letter_queue=target,
        receives=receives,
    )


def _moved_in(name: str, dead_letter_queue: str) -> list[dict[str, Any]]:
    """Return the last tasks that moved or copied messages to a queue, the newest first.

    A redrive without a destination may have moved some of its messages to other source queues.
    """
    found = _known("ListTasks", current().may("ListMessageMoveTasks"), MaxResults=_MOVES)
    own, dead = current().arn(name), dead_letter_queue
    dead = dead if dead.startswith("arn:") else current().arn(dead)
    return [
        each | {"source": each["SourceArn"].rpartition(":")[2]}
        for each in found.get("Tasks", [])
        if each.get("ApproximateNumberOfMessagesMoved") and each["Kind"] != "delete"
        if each.get("DestinationArn", own if each["SourceArn"] == dead else "") == own
    ]


def _known(action: str, allowed: bool, **parameters: Any) -> dict[str, Any]:
    """Return the result of an action, empty without the right, of which no refusal is recorded."""
    if not allowed:
        return {}
    return current().read(action, **parameters)[0]


def _rates(activity: Mapping[str, Any]) -> dict[str, int]:
    """Return the events per minute in the present and the last minute."""
    minute = activity["Clock"] // 60 * 60
    recent = [each for each in activity["Minutes"] if each["Minute"] >= minute - 60]
    seconds = 60 + activity["Clock"] - minute
    return {
        label: round(60 * sum(each[member] for each in recent) / seconds)
        for label, member in _RATES.items()
    }


def _consumers(name: str) -> ResponseReturnValue:
    result, error = current().read("ListConsumers", QueueUrl=name)
    return flask.render_template(
        "consumers.html",
        **heading.build(name, "consumers"),
        error=error,
        consumers=result.get("Consumers", []),
        waiting=result.get("WaitingReceivers", 0),
        refused=result.get("Refused", []),
    )


def _groups(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    token, group = flask.request.values.get("token", ""), flask.request.values.get("group", "")
    head = heading.build(name, "groups")
    paused, denied = current().attempt(
        "ListPausedMessageGroups", QueueUrl=name, MessageGroupId=group or None
    )
    result: dict[str, Any] = {}
    if head["fifo"]:
        result, denied = current().attempt(
            "ListMessageGroups",
            QueueUrl=name,
            MessageGroupId=group or None,
            NextToken=token or None,
        )
    page = flask.render_template(
        "groups.html",
        **head,
        paused=paused.get("Groups", []),
        is_every_pause="NextToken" not in paused,
        groups=result.get("Groups", []),
        next_token=result.get("NextToken", ""),
        token=token,
        group=group,
        denied=denied,
        error=error,
    )
    return page, 200 if error is None else error.status


@site.showing_errors(_groups)
def _release(name: str) -> ResponseReturnValue:
    chosen = flask.request.form.getlist("release")
    if not chosen:
        raise errors.InvalidParameterValueException("Select groups first.")
    result = current().act("ReleaseMessages", QueueUrl=name, MessageGroupIds=chosen)
    outcomes = [each["Outcome"] for each in result["Results"]]
    released = result["Released"]
    messages = f"{released:,} message{'' if released == 1 else 's'}"
    site.notice(f"Groups: {outcomes_of(outcomes)}. {messages}.")
    return site.see("groups", name=name)


@site.showing_errors(_groups)
def _pause(name: str) -> ResponseReturnValue:
    """Pause a group, for some hours or until it is resumed, or resume it."""
    form = flask.request.form
    group, hours = form.get("id", "").strip(), form.get("hours", 0, int)
    is_pause = form.get("how") != "resume"
    if is_pause:
        until = int(current().clock()) + hours * 3_600 if hours else None
        current().act("PauseMessageGroup", QueueUrl=name, MessageGroupId=group, PausedUntil=until)
    else:
        current().act("ResumeMessageGroup", QueueUrl=name, MessageGroupId=group)
    site.notice(f"Group {group} {'paused' if is_pause else 'resumed'}.")
    return site.see("groups", name=name)

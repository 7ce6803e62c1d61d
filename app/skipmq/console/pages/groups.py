"""The page of a queue's groups, which frees those in flight, pauses and resumes them."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.pages import heading
from skipmq.console.pages.messages import outcomes_of
from skipmq.console.visit import current
from skipmq.protocol import errors


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/queues/<name>/groups", "groups", _groups)
    pages.add_url_rule("/queues/<name>/groups", "release_groups", _release, methods=["POST"])
    pages.add_url_rule("/queues/<name>/groups/pause", "pause_group", _pause, methods=["POST"])


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
    """Make the messages in flight of groups visible now."""
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

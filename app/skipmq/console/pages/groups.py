"""The page of a FIFO queue's groups, which frees those in flight."""

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


def _groups(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    token, group = flask.request.values.get("token", ""), flask.request.values.get("group", "")
    result, denied = current().attempt(
        "ListMessageGroups",
        QueueUrl=name,
        MessageGroupId=group or None,
        NextToken=token or None,
    )
    page = flask.render_template(
        "groups.html",
        **heading.build(name, "groups"),
        groups=result.get("Groups", []),
        next_token=result.get("NextToken", ""),
        token=token,
        group=group,
        denied=denied,
        error=error,
    )
    return page, 200 if error is None else error.status


def _release(name: str) -> ResponseReturnValue:
    """Make the messages in flight of groups visible now."""
    chosen = flask.request.form.getlist("release")
    try:
        if not chosen:
            raise errors.InvalidParameterValueException("Select groups first.")
        result = current().act("ReleaseMessages", QueueUrl=name, MessageGroupIds=chosen)
    except errors.SqsError as error:
        return _groups(name, error)
    outcomes = [each["Outcome"] for each in result["Results"]]
    released = result["Released"]
    messages = f"{released:,} message{'' if released == 1 else 's'}"
    site.notice(f"Groups: {outcomes_of(outcomes)}. {messages}.")
    return site.see("groups", name=name)

"""The page that redrives messages of a dead-letter queue and shows message tasks."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors, limits
from skipmq.console import site
from skipmq.console.pages import heading, tasks
from skipmq.console.visit import current, text, whole_number

_SOURCES = 100


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    path = "/queues/<name>/redrive"
    pages.add_url_rule(path, "redrive", _redrive)
    pages.add_url_rule(path, "start_redrive", _start, methods=["POST"])
    pages.add_url_rule(f"{path}/cancel", "cancel_redrive", _cancel, methods=["POST"])
    pages.add_url_rule(f"{path}/tasks", "tasks", _tasks)


def _redrive(name: str) -> ResponseReturnValue:
    return _page(name)


def _page(name: str, error: errors.SqsError | None = None) -> ResponseReturnValue:
    head = heading.build(name, "redrive")
    sources, source_error = current().attempt(
        "ListDeadLetterSourceQueues", QueueUrl=name, MaxResults=_SOURCES
    )
    page = flask.render_template(
        "redrive.html",
        **head,
        **_task_list(name),
        sources=[url.rpartition("/")[2] for url in sources.get("queueUrls", [])],
        has_more_sources="NextToken" in sources,
        source_error=source_error,
        messages=sum(head["counts"] or []),
        fastest=limits.MOVES_PER_SECOND,
        error=error,
        given=flask.request.form if error is not None else {},
    )
    return page, 200 if error is None else error.status


def _tasks(name: str) -> ResponseReturnValue:
    return flask.render_template("tasks.html", **heading.build(name, ""), **_task_list(name))


def _task_list(name: str) -> dict[str, Any]:
    result, error = current().attempt(
        "ListMessageTasks", QueueUrl=name, MaxResults=limits.MOVE_TASKS_LISTED
    )
    shown = tasks.shown(result.get("Tasks", []))
    is_running = any(each["Status"] in tasks.ACTIVE for each in shown)
    return {"tasks": shown, "task_error": error, "is_running": is_running}


def _start(name: str) -> ResponseReturnValue:
    """Start a redrive; of a queue that is no dead-letter queue any more, a move to a queue."""
    target = (text("destination") or "").strip()
    try:
        rate = whole_number("rate")
        if target and heading.build(name, "redrive")["origin"]:
            current().act(
                "StartMessageTask",
                QueueUrl=name,
                Kind="move",
                DestinationQueueUrl=target,
                MaxNumberOfMessagesPerSecond=rate,
            )
        else:
            current().act(
                "StartMessageMoveTask",
                SourceArn=current().arn(name),
                DestinationArn=_arn(target) if target else None,
                MaxNumberOfMessagesPerSecond=rate,
            )
    except errors.SqsError as error:
        return _page(name, error)
    site.notice("Started the redrive.")
    return site.see("redrive", name=name)


def _cancel(name: str) -> ResponseReturnValue:
    try:
        result = current().act("CancelMessageMoveTask", TaskHandle=text("handle") or "")
    except errors.SqsError as error:
        return _page(name, error)
    moved = result.get("ApproximateNumberOfMessagesMoved", 0)
    site.notice(f"Cancelled the task after {moved:,} messages.")
    return site.see("redrive", name=name)


def _arn(target: str) -> str:
    return target if target.startswith("arn:") else current().arn(target)

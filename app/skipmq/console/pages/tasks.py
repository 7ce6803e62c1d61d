"""The page of the tasks of all queues, and the mark in the head of pages while one runs."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import site
from skipmq.console.visit import current, text

_ACTIVE = ("RUNNING", "CANCELLING")


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/tasks", "all_tasks", _all_tasks)
    pages.add_url_rule("/tasks/running", "running_tasks", _running)
    pages.add_url_rule("/tasks/cancel", "cancel_task", _cancel, methods=["POST"])


def _all_tasks() -> ResponseReturnValue:
    return _page()


def _page(failure: errors.SqsError | None = None) -> ResponseReturnValue:
    result, error = current().attempt("ListTasks")
    if error is not None and not isinstance(error, errors.AccessDenied):
        raise error
    page = flask.render_template(
        "all_tasks.html",
        error=error,
        failure_of_cancel=failure,
        tasks=[
            _shown(each) | {"may_cancel": _may_cancel(each)} for each in result.get("Tasks", [])
        ],
    )
    return page, 200 if failure is None else failure.status


def _shown(task: dict[str, Any]) -> dict[str, Any]:
    return task | {
        "queue": task["SourceArn"].rpartition(":")[2],
        "target": task.get("DestinationArn", "").rpartition(":")[2],
        "done": task.get("ApproximateNumberOfMessagesPassed")
        or task.get("ApproximateNumberOfMessagesMoved", 0),
    }


def _may_cancel(task: dict[str, Any]) -> bool:
    if "TaskHandle" not in task:
        return False
    permission = "CancelMessageMoveTask"
    try:
        return permission in current().rights(task["SourceArn"].rpartition(":")[2], permission)
    except errors.QueueDoesNotExist:  # Deleted since the tasks were listed.
        return False


def _running() -> ResponseReturnValue:
    """Return the mark of running tasks, which is empty where none runs."""
    if not current().may("ListMessageMoveTasks"):
        return "", 204
    result, _ = current().attempt("ListTasks", MaxResults=10)
    running = [each for each in result.get("Tasks", []) if each["Status"] in _ACTIVE]
    return flask.render_template("running.html", tasks=[_shown(each) for each in running])


def _cancel() -> ResponseReturnValue:
    try:
        result = current().act("CancelMessageMoveTask", TaskHandle=text("handle") or "")
    except errors.SqsError as error:
        return _page(error)
    moved = result.get("ApproximateNumberOfMessagesMoved", 0)
    site.notice(f"Task cancelled after {moved:,} messages.")
    return site.see("all_tasks")

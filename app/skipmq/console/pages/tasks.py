"""The page of the tasks of all queues, and the mark in the head of pages while one runs."""

from collections.abc import Iterable
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current, text
from skipmq.protocol import errors

ACTIVE = ("RUNNING", "CANCELLING")


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/tasks", "all_tasks", _page)
    pages.add_url_rule("/tasks/running", "running_tasks", _running)
    pages.add_url_rule("/tasks/cancel", "cancel_task", _cancel, methods=["POST"])


def _page(failure: errors.SqsError | None = None) -> ResponseReturnValue:
    result, error = current().read("ListTasks")
    page = flask.render_template(
        "all_tasks.html",
        error=error,
        failure_of_cancel=failure,
        tasks=[each | {"may_cancel": _may_cancel(each)} for each in shown(result.get("Tasks", []))],
    )
    return page, 200 if failure is None else failure.status


def shown(tasks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the names of queues, what is done, and the seconds that are left, to tasks."""
    found = [
        each
        | {
            "queue": each["SourceArn"].rpartition(":")[2],
            "target": each.get("DestinationArn", "").rpartition(":")[2],
            "done": each.get("ApproximateNumberOfMessagesPassed")
            or each.get("ApproximateNumberOfMessagesMoved", 0),
        }
        for each in tasks
    ]
    if not any(each["Status"] == "RUNNING" for each in found):
        return found
    clock = current().clock()
    return [each | {"left": _left(each, clock)} for each in found]


def _left(task: dict[str, Any], clock: float) -> int | None:
    """Return the seconds until a task ends at the speed that it had so far, if that is known."""
    rest: int = task.get("ApproximateNumberOfMessagesToMove", 0) - task["done"]
    took: float = clock - task["StartedTimestamp"] / 1000
    if task["Status"] != "RUNNING" or not task["done"] or rest <= 0:
        return None
    done: int = task["done"]
    return round(rest * took / done)


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
    running = [each for each in result.get("Tasks", []) if each["Status"] in ACTIVE]
    return flask.render_template("running.html", tasks=running)


@site.showing_errors(_page)
def _cancel() -> ResponseReturnValue:
    result = current().act("CancelMessageMoveTask", TaskHandle=text("handle") or "")
    moved = result.get("ApproximateNumberOfMessagesMoved", 0)
    site.notice(f"Task cancelled after {moved:,} messages.")
    return site.see("all_tasks")

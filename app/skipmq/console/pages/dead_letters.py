"""The pages of dead-letter queues, redrives and tasks, and the mark in pages while a task runs."""

from collections.abc import Iterable
from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions import checks
from skipmq.console import site
from skipmq.console.pages import heading
from skipmq.console.visit import current, requested_page, text, whole_number
from skipmq.protocol import errors, limits

PAGE = 25
_SOURCES = 100
ACTIVE = ("RUNNING", "CANCELLING")


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/dead-letters", "dead_letters", _dead_letters)
    pages.add_url_rule("/queues/<name>/failures", "failures", _failures)
    path = "/queues/<name>/redrive"
    pages.add_url_rule(path, "redrive", _page)
    pages.add_url_rule(path, "start_redrive", _start, methods=["POST"])
    pages.add_url_rule(f"{path}/cancel", "cancel_redrive", _cancel, methods=["POST"])
    pages.add_url_rule(f"{path}/tasks", "tasks", _tasks)
    pages.add_url_rule("/tasks", "all_tasks", _all_tasks)
    pages.add_url_rule("/tasks/running", "running_tasks", _running)
    pages.add_url_rule("/tasks/cancel", "cancel_task", _cancel_task, methods=["POST"])


def _dead_letters() -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = requested_page(PAGE)
    result, error = current().read(
        "ListDeadLetterQueues", Search=search, Offset=page.offset, MaxResults=PAGE
    )
    matches = result.get("Matches", 0)
    if page.offset and not error and page.offset >= matches:
        return site.see("dead_letters", q=search or None)
    return flask.render_template(
        "dead_letters.html",
        error=error,
        groups=result.get("DeadLetterQueues", []),
        redelivering=result.get("Redelivering", []) if page.offset == 0 else [],
        search=search,
        **page.shown(matches),
        # Screen readers must not announce the number of matches on each refresh.
        is_poll=flask.request.headers.get("HX-Trigger") == "dead-letters",
    )


def _failures(name: str) -> ResponseReturnValue:
    result, error = current().read("ListMessageFailures", QueueUrl=name)
    hide = current().mask.reason
    kinds = [
        each | {"shown": hide(each.get("FailureKind", ""))} for each in result.get("Kinds", [])
    ]
    gone = [each for each in result.get("Sources", []) if not each.get("Exists")]
    return flask.render_template(
        "failures.html",
        name=name,
        error=error,
        kinds=kinds,
        counted=result.get("Counted", 0),
        is_whole=result.get("IsWhole", True),
        without_source=sum(each["Messages"] for each in gone),
        gone=[each["QueueArn"].rpartition(":")[2] for each in gone if "QueueArn" in each],
    )


def _page(
    name: str, error: errors.SqsError | None = None, *, asks: bool = False
) -> ResponseReturnValue:
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
        default_rate=limits.REDRIVES_PER_SECOND,
        asks=asks,
        given=flask.request.form if error is not None or asks else {},
    )
    return page, 200 if error is None else error.status


def _tasks(name: str) -> ResponseReturnValue:
    return flask.render_template("tasks.html", **heading.build(name, ""), **_task_list(name))


def _task_list(name: str) -> dict[str, Any]:
    result, error = current().attempt(
        "ListMessageTasks", QueueUrl=name, MaxResults=limits.MOVE_TASKS_LISTED
    )
    found = shown(result.get("Tasks", []))
    is_running = any(each["Status"] in ACTIVE for each in found)
    return {"tasks": found, "task_error": error, "is_running": is_running}


@site.showing_errors(_page)
def _start(name: str) -> ResponseReturnValue:
    """Start a redrive, once it is confirmed on a page that says what moves and where.

    Of a queue that is no dead-letter queue any more it is a move to a queue.
    """
    target = (text("destination") or "").strip()
    rate = whole_number("rate")
    checks.moves_per_second(rate)
    if not text("confirmed"):
        return _page(name, asks=True)
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
    site.notice("Started the redrive.")
    return site.see("redrive", name=name)


@site.showing_errors(_page)
def _cancel(name: str) -> ResponseReturnValue:
    result = current().act("CancelMessageMoveTask", TaskHandle=text("handle") or "")
    moved = result.get("ApproximateNumberOfMessagesMoved", 0)
    site.notice(f"Cancelled the task after {moved:,} messages.")
    return site.see("redrive", name=name)


def _arn(target: str) -> str:
    return target if target.startswith("arn:") else current().arn(target)


def _all_tasks(failure: errors.SqsError | None = None) -> ResponseReturnValue:
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


@site.showing_errors(_all_tasks)
def _cancel_task() -> ResponseReturnValue:
    result = current().act("CancelMessageMoveTask", TaskHandle=text("handle") or "")
    moved = result.get("ApproximateNumberOfMessagesMoved", 0)
    site.notice(f"Task cancelled after {moved:,} messages.")
    return site.see("all_tasks")

"""The pages of schedules: all of them, and one with its ticks."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current, text
from skipmq.protocol import errors

_CHANGES = {
    "pause": ("PauseSchedule", {}, "paused"),
    "resume": ("PauseSchedule", {"Paused": False}, "resumed"),
    "run": ("RunSchedule", {}, "ran"),
    "delete": ("DeleteSchedule", {}, "deleted"),
}


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/schedules", "schedules", _all)
    pages.add_url_rule("/schedules", "create_schedule", _create, methods=["POST"])
    pages.add_url_rule("/schedules/<name>", "schedule", _one)
    pages.add_url_rule("/schedules/<name>", "change_schedule", _change, methods=["POST"])


def _all(failure: errors.SqsError | None = None) -> ResponseReturnValue:
    result, error = current().read("ListSchedules", NextToken=flask.request.args.get("next"))
    page = flask.render_template(
        "schedules.html",
        error=error,
        failed=failure,
        given=flask.request.form,
        schedules=result.get("Schedules", []),
        next_token=result.get("NextToken"),
        may_change=current().may("CreateSchedule"),
    )
    return page, 200 if failure is None else failure.status


@site.showing_errors(_all)
def _create() -> ResponseReturnValue:
    name = text("Name") or ""
    answer = current().act(
        "CreateSchedule",
        Name=name,
        QueueUrl=text("queue") or "",
        Expression=text("Expression") or "",
        Zone=text("Zone") or "UTC",
        MessageBody=flask.request.form.get("MessageBody", ""),
        MessageGroupId=text("MessageGroupId") or None,
    )
    site.notice(f"Schedule {name} {'created' if answer['IsNew'] else 'changed'}.")
    return site.see("schedule", name=name)


def _one(name: str, failure: errors.SqsError | None = None) -> ResponseReturnValue:
    result, error = current().read("DescribeSchedule", Name=name)
    page = flask.render_template(
        "schedule.html",
        name=name,
        error=error,
        failed=failure,
        schedule=result.get("Schedule"),
        upcoming=result.get("NextTimestamps", []),
        ticks=result.get("Ticks", []),
        may_change=current().may("PauseSchedule"),
    )
    return page, 200 if failure is None else failure.status


def _change(name: str) -> ResponseReturnValue:
    how = flask.request.form.get("how", "")
    if how not in _CHANGES:
        raise errors.InvalidParameterValueException("Choose pause, resume, run or delete.")
    action, parameters, done = _CHANGES[how]
    try:
        current().act(action, Name=name, **parameters)
    except errors.SqsError as error:
        return _one(name, error)
    site.notice(f"Schedule {name} {done}.")
    return site.see("schedules") if how == "delete" else site.see("schedule", name=name)

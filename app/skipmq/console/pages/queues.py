"""The page that lists queues, and the completion of their names in form fields."""

from typing import Any, NamedTuple

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current, requested_page
from skipmq.protocol import errors, names
from skipmq.server import web

PAGE = 50
# The length of the sparklines.
_MINUTES = 60
_COOKIE, _YEAR = "skipmq_columns", 365 * 86_400
_ORDER = "trouble"


class Column(NamedTuple):
    """A column of the list: its key, which is an order if it has a member of the answer."""

    key: str
    label: str
    member: str | None
    is_default: bool = True


COLUMNS = (
    Column("oldest", "Oldest", "OldestSeconds"),
    Column("visible", "Visible", "Visible"),
    Column("in-flight", "In flight", "InFlight"),
    Column("delayed", "Delayed", "Delayed", is_default=False),
    Column("messages", "Messages", "Messages", is_default=False),
    Column("dead-lettered", "Dead-lettered", "DeadLettered"),
    Column("expired", "Expired", "Expired", is_default=False),
    Column("sent", "In /min", "SentPerMinute"),
    Column("deleted", "Out /min", "DeletedPerMinute"),
    Column("curve", "Last hour", None),
)
ORDERS = {"trouble": "Trouble", "name": "Name", **{c.key: c.label for c in COLUMNS if c.member}}
FILTERS = {
    "backlog": "Backlog",
    "not-received": "Not received",
    "failing": "Failing",
    "dead-letters": "Dead letters",
    "fifo": "FIFO",
}
_MAX_COMPLETIONS = 20


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/queues", "queues", _queues)
    pages.add_url_rule("/columns", "columns", _columns, methods=["POST"])
    pages.add_url_rule("/open", "open", _open)
    pages.add_url_rule("/complete/queues", "complete_queues", _complete)


def _queues() -> ResponseReturnValue:
    arguments = flask.request.args
    order = arguments.get("sort", _ORDER)
    order = order if order in ORDERS else _ORDER
    direction = arguments.get("dir", "")
    only = arguments.get("only", "")
    given: dict[str, Any] = {
        "q": arguments.get("q", "").strip() or None,
        "only": only if only in FILTERS else None,
        "tag": arguments.get("tag", "").strip() or None,
        "sort": order if order != _ORDER else None,
        "dir": direction if direction in ("asc", "desc") else None,
    }
    descending = (given["dir"] or ("asc" if order == "name" else "desc")) == "desc"
    page = requested_page(PAGE)
    # Check first, because a refusal would be recorded in the audit log.
    if not current().may_list():
        return flask.render_template("open.html")
    result = current().act(
        "ListQueueStatistics",
        Search=given["q"],
        Filter=given["only"],
        Tag=given["tag"],
        Order=order,
        Descending=descending,
        Offset=page.offset,
        MaxResults=PAGE,
        Minutes=_MINUTES,
    )
    if not result.get("Queues") and page.offset:
        # Queues were deleted; the number of matches is only known on a page with rows.
        return site.see("queues", **given)
    return flask.render_template(
        "queues.html",
        queues=[_with_sum(each) for each in result.get("Queues", [])],
        clock=result.get("Clock"),
        given=given,
        order=order,
        orders=ORDERS,
        filters=FILTERS,
        columns=COLUMNS,
        shown=_shown_columns(),
        descending=descending,
        **page.shown(result.get("Matches", 0)),
        # Screen readers must not announce the number of matches on each refresh.
        is_poll=flask.request.headers.get("HX-Trigger") == "queues",
    )


def _with_sum(queue: dict[str, Any]) -> dict[str, Any]:
    if "Visible" not in queue:
        return queue
    return queue | {"Messages": queue["Visible"] + queue["InFlight"] + queue["Delayed"]}


def _shown_columns() -> set[str]:
    """Return the keys of the columns that the browser's cookie names, else the default ones."""
    chosen = flask.request.cookies.get(_COOKIE)
    if chosen is None:
        return {each.key for each in COLUMNS if each.is_default}
    return {each.key for each in COLUMNS} & set(chosen.split("."))


def _columns() -> ResponseReturnValue:
    """Remember which columns the browser shows, and lead back to the list as it was."""
    chosen = [each.key for each in COLUMNS if each.key in flask.request.form.getlist("column")]
    kept = ("q", "only", "tag", "sort", "dir")
    answer = site.see("queues", **{key: flask.request.form.get(key) or None for key in kept})
    answer.set_cookie(
        _COOKIE, ".".join(chosen), path=web.PAGES, samesite="Strict", httponly=True, max_age=_YEAR
    )
    return answer


def _open() -> ResponseReturnValue:
    name = flask.request.args.get("name", "").strip()
    if not names.is_valid(name):
        raise errors.QueueDoesNotExist
    return site.see("queue", name=name)


def _complete() -> ResponseReturnValue:
    """Return the names of queues with the prefix in the only field of the request."""
    prefix = next(iter(flask.request.args.values()), "").strip()
    names = []
    # Check first, because a refusal of each keystroke would be recorded in the audit log.
    if current().may_list():
        result, _ = current().attempt(
            "ListQueues", QueueNamePrefix=prefix or None, MaxResults=_MAX_COMPLETIONS
        )
        names = [url.rpartition("/")[2] for url in result.get("QueueUrls", [])]
    return flask.render_template("options.html", options=names)

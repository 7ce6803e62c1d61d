"""The page that creates a queue."""

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console import site
from skipmq.console.pages import settings
from skipmq.console.visit import current


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/create", "create", _create, methods=["GET", "POST"])


def _create() -> ResponseReturnValue:
    form = flask.request.form
    fields = settings.fields(fifo=True, new=True)
    page = {"fields": fields, "given": form, "groups": settings.GROUPS}
    if flask.request.method != "POST":
        return flask.render_template("create.html", error=None, **page)
    name = form.get("name", "").strip()
    is_fifo = form.get("kind") == "fifo"
    if is_fifo and not name.endswith(".fifo"):
        name += ".fifo"
    attributes = {} if not is_fifo else {"FifoQueue": "true"}
    try:
        attributes |= settings.submitted(settings.fields(fifo=is_fifo, new=True), {})
        settings.check(attributes, fifo=is_fifo, name=name)
        current().act("CreateQueue", QueueName=name, Attributes=attributes)
    except errors.SqsError as error:
        return flask.render_template("create.html", error=error, **page), error.status
    site.notice(f"Queue {name} created.")
    return site.see("messages", name=name)

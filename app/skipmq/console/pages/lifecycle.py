"""The pages that create a queue, and that purge or delete it after its name was typed."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.pages import heading, settings
from skipmq.console.visit import current
from skipmq.protocol import errors


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/create", "create", _create, methods=["GET", "POST"])
    path = "/queues/<name>/delete"
    pages.add_url_rule(path, "removal", _page)
    pages.add_url_rule(path, "delete", _delete, methods=["POST"])
    pages.add_url_rule("/queues/<name>/purge", "purge", _purge, methods=["POST"])


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


def _page(name: str, failed: str = "", error: errors.SqsError | None = None) -> ResponseReturnValue:
    page = flask.render_template(
        "removal.html",
        **heading.build(name, "removal"),
        cooldown=current().broker.node.settings.name_cooldown,
        failed=failed,
        error=error,
    )
    return page, 200 if error is None else error.status


@site.showing_errors(_page, "purge")
def _purge(name: str) -> ResponseReturnValue:
    _check_typed(name)
    number = current().act("PurgeQueue", QueueUrl=name)["Removed"]
    site.notice(f"Deleted all messages of the queue: {number:,}.")
    return site.see("messages", name=name)


def _delete(name: str) -> ResponseReturnValue:
    try:
        _check_typed(name)
        number = current().act("DeleteQueue", QueueUrl=name)["Removed"]
    except errors.QueueDoesNotExist:
        raise
    except errors.SqsError as error:
        return _page(name, "delete", error)
    site.notice(f"Deleted the queue {name}. Messages that it had: {number:,}.")
    return site.see("queues")


def _check_typed(name: str) -> None:
    if flask.request.form.get("typed", "").strip() != name:
        raise errors.InvalidParameterValueException("Type the name of the queue to confirm.")

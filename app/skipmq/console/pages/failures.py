"""Why messages of a queue failed: a part of the pages of dead-letter queues."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console.visit import current


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/queues/<name>/failures", "failures", _failures)


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

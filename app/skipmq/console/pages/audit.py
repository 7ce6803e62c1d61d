"""The page of the audit log."""

from typing import Any

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console.visit import current
from skipmq.server.dispatch import EVERY

PAGE = 50
_ACTIONS = sorted({name for name, action in EVERY.items() if action.is_change} | {"SignIn"})
_OUTCOMES = ("done", "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch")
_USER = ":user/"


def add(pages: flask.Blueprint) -> None:
    """Add the view."""
    pages.add_url_rule("/audit", "audit", _audit)


def _audit() -> ResponseReturnValue:
    names = ("queue", "key", "action", "outcome")
    given = {name: flask.request.args.get(name, "").strip() or None for name in names}
    token = flask.request.args.get("token") or None
    result, error = current().read(
        "ListAuditRecords",
        Queue=given["queue"],
        AccessKeyId=given["key"],
        Action=given["action"],
        Outcome=given["outcome"],
        MaxResults=PAGE,
        NextToken=token,
    )
    return flask.render_template(
        "audit.html",
        error=error,
        records=[shown(each) for each in result.get("Records", [])],
        next_token=result.get("NextToken"),
        token=token,
        given=given,
        actions=_ACTIONS,
        outcomes=_OUTCOMES,
    )


def shown(record: dict[str, Any]) -> dict[str, Any]:
    """Add short names of the caller, the queue and the outcome to a record."""
    user, key = record.get("User") or "", record.get("AccessKeyId")
    arn = record.get("QueueArn") or ""
    return record | {
        "caller": user.rpartition(_USER)[2] or key or record.get("Account") or "anonymous",
        "queue": arn.removeprefix(current().arn("")),
        "outcome": record["Outcome"].removeprefix(errors.LEGACY),
    }

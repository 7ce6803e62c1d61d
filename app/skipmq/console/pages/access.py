"""Sign-in and sign-out, the choice of theme, account and region, access keys and the audit log."""

import re
from typing import Any
from urllib.parse import urlsplit

import flask
from flask.typing import ResponseReturnValue

from skipmq.actions.dispatch import EVERY
from skipmq.actions.skipmq import audit
from skipmq.actions.skipmq.access_keys import ACCOUNT_PERMISSIONS, PERMISSIONS
from skipmq.console import site
from skipmq.console.session import Session
from skipmq.console.visit import current, requested_page
from skipmq.protocol import errors, limits

# Valid targets of a redirect, which are pages of this console only.
_OWN_PATH = re.compile(r"/console(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+/?(\?[A-Za-z0-9_.=&%+-]*)?")
THROTTLED = "Too many sign-ins from your address. Wait ten seconds, then try again."
_LOOPBACK = re.compile(r"localhost|.+\.localhost|127\.[0-9.]+|::1")
PAGE = 50
# Those of `skipmq keys`.
_OF_KEYS = {
    *("CreateAccessKey", "CreateSession", "DisableAccessKey", "EnableAccessKey"),
    *("PermitAccessKey", "RevokeAccessKey", "RotateAccessKey", "RotateMasterKey"),
    "RotateReceiptKey",
}
_ACTIONS = sorted(
    {name for name, action in EVERY.items() if action.is_change} | {"SignIn"} | _OF_KEYS
)
_OUTCOMES = ("done", "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch")
_USER = ":user/"


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/", "home", _home)
    pages.add_url_rule("/sign-in", "sign_in", _sign_in, methods=["GET", "POST"])
    pages.add_url_rule("/sign-out", "sign_out", _sign_out, methods=["POST"])
    pages.add_url_rule("/theme", "theme", _theme, methods=["POST"])
    pages.add_url_rule("/scope", "scope", _scope, methods=["POST"])
    pages.add_url_rule("/keys", "access_keys", _keys)
    pages.add_url_rule("/keys/<key_id>", "access_key", _key)
    pages.add_url_rule("/audit", "audit", _audit)


def _home() -> ResponseReturnValue:
    return site.see("overview" if current().may_list() else "queues")


def _sign_in() -> ResponseReturnValue:
    broker = current().broker
    if broker.node.keys is None:
        return site.see("queues")
    target = flask.request.values.get("next", "")
    target = target if _OWN_PATH.fullmatch(target) else flask.url_for("console.home")
    form = flask.request.form
    base = urlsplit(current().request.base_url)
    page = {
        "next": target,
        "key_id": form.get("key_id", ""),
        "region": form.get("region") or broker.node.settings.region,
        "is_insecure": base.scheme != "https" and not _LOOPBACK.fullmatch(base.hostname or ""),
    }
    if flask.request.method != "POST":
        return flask.render_template("sign_in.html", **page)
    try:
        region = _checked_region(form.get("region", ""))
        identity = current().run(
            broker.sign_in(
                current().request,
                form.get("key_id", "").strip(),
                form.get("secret", "").strip(),
                region,
            )
        )
    except errors.SqsError as error:
        if isinstance(error, errors.ThrottlingException):
            error.message = THROTTLED
        return flask.render_template("sign_in.html", error=error, **page), _status(error)
    site.put(site.signed_in(identity, broker.node.keys.now()))
    return flask.redirect(target, 303)


def _sign_out() -> ResponseReturnValue:
    ended, keys = site.session(), current().broker.node.keys
    site.put(Session())
    if keys is not None and ended.key_id:
        # This also invalidates copies of the cookie.
        current().run(keys.end_session(ended.digest, ended.until))
    return site.see("sign_in")


def _theme() -> ResponseReturnValue:
    theme = flask.request.form.get("theme", "")
    back = flask.request.form.get("back", "")
    target = back if _OWN_PATH.fullmatch(back) else flask.url_for("console.home")
    answer = flask.make_response(flask.redirect(target, 303))
    return site.keep_theme(answer, theme if theme in site.THEMES else "auto")


def _scope() -> ResponseReturnValue:
    """Show another region and, without signature checks, another account."""
    form, own = flask.request.form, current().identity
    region = _checked_region(form.get("region", ""))
    account = form.get("account", own.account).strip()
    if own.key_id:
        account = own.account
    elif not limits.ACCOUNT.fullmatch(account):
        raise errors.InvalidParameterValueException("An account has 12 digits.")
    return site.see("queues", account=account, region=region)


def _checked_region(text: str) -> str:
    region = text.strip().lower() or current().broker.node.settings.region
    if not limits.REGION.fullmatch(region):
        raise errors.InvalidParameterValueException(
            "A region consists of lower-case letters, digits and hyphens, such as us-east-1."
        )
    return region


def _status(error: errors.SqsError) -> int:
    """Return the status of a refused sign-in: 429 if throttled, although SQS uses 403 for that."""
    return 429 if isinstance(error, errors.ThrottlingException) else error.status


def _keys() -> ResponseReturnValue:
    result, error = current().read("ListAccessKeys", errors.UnsupportedOperation)
    return flask.render_template(
        "access_keys.html",
        error=error,
        keys=result.get("Keys", []),
        revoked=result.get("RevokedKeys", []),
    )


def _key(key_id: str) -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = requested_page(PAGE)
    rights = current().act(
        "GetAccessKeyRights",
        AccessKeyId=key_id,
        Search=search,
        Offset=page.offset,
        MaxResults=PAGE,
    )
    return flask.render_template(
        "access_key.html",
        rights=rights,
        key=rights["Key"],
        search=search,
        **page.shown(rights["Matches"]),
        permissions=PERMISSIONS,
        account_permissions=ACCOUNT_PERMISSIONS,
    )


def _audit() -> ResponseReturnValue:
    names = ("queue", "key", "action", "outcome", "by", "since", "until", "changes")
    given = {name: flask.request.args.get(name, "").strip() or None for name in names}
    token = flask.request.args.get("token") or None
    result, error = current().read(
        "ListAuditRecords",
        Queue=given["queue"],
        AccessKeyId=given["key"],
        Action=given["action"],
        Outcome=given["outcome"],
        By=given["by"],
        ChangesOnly=given["changes"] is not None or None,
        SinceTimestamp=_milliseconds(given["since"]),
        UntilTimestamp=_milliseconds(given["until"]),
        MaxResults=PAGE,
        NextToken=token,
    )
    return flask.render_template(
        "audit.html",
        error=error,
        records=[shown_record(each) for each in result.get("Records", [])],
        next_token=result.get("NextToken"),
        token=token,
        given=given,
        actions=_ACTIONS,
        outcomes=_OUTCOMES,
    )


def _milliseconds(moment: str | None) -> int | None:
    """Return the time of a field in milliseconds since 1970; raise if it is none, in UTC."""
    if moment is None:
        return None
    try:
        return int(audit.moment(moment) * 1000)
    except (ValueError, OverflowError) as error:
        raise errors.InvalidParameterValueException(
            "A time is written as 2026-11-28T16:20, in UTC."
        ) from error


def shown_record(record: dict[str, Any]) -> dict[str, Any]:
    """Add short names of the caller, the queue and the outcome to a record."""
    user, key = record.get("User") or "", record.get("AccessKeyId")
    if key and record.get("KeyName") not in {None, key}:
        key = f"{record['KeyName']} ({key})"
    arn = record.get("QueueArn") or ""
    return record | {
        "caller": user.rpartition(_USER)[2] or key or record.get("Account") or "anonymous",
        "queue": arn.removeprefix(current().arn("")),
        "outcome": record["Outcome"].removeprefix(errors.LEGACY),
    }

"""The pages of access keys, and of what one of them may do."""

import flask
from flask.typing import ResponseReturnValue

from skipmq import errors
from skipmq.console.visit import current, requested_page
from skipmq.extensions.access_keys import ACCOUNT_PERMISSIONS, PERMISSIONS

_PAGE = 50


def add(pages: flask.Blueprint) -> None:
    """Add the views."""
    pages.add_url_rule("/keys", "access_keys", _keys)
    pages.add_url_rule("/keys/<key_id>", "access_key", _key)


def _keys() -> ResponseReturnValue:
    result, error = current().read("ListAccessKeys", errors.UnsupportedOperation)
    return flask.render_template("access_keys.html", error=error, keys=result.get("Keys", []))


def _key(key_id: str) -> ResponseReturnValue:
    search = flask.request.args.get("q", "").strip()
    page = requested_page(_PAGE)
    rights = current().act(
        "GetAccessKeyRights",
        AccessKeyId=key_id,
        Search=search,
        Offset=page.offset,
        MaxResults=_PAGE,
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

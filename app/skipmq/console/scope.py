"""The account and region of a page, which are the first parts of its address.

`/console/REGION/ACCOUNT/queues/NAME` leads everyone to the same queue. Views do not take them as
arguments, and `flask.url_for` fills them in.
"""

from typing import Any, NamedTuple

import flask
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter

from skipmq.console.visit import current
from skipmq.protocol import limits

# Views that belong to no account and region.
_UNSCOPED = frozenset({"home", "sign_in", "sign_out", "theme", "scope", "runbook", "unscoped"})


class Scope(NamedTuple):
    """An account in a region."""

    account: str
    region: str


class _Account(BaseConverter):
    regex = limits.ACCOUNT.pattern


class _Region(BaseConverter):
    regex = limits.REGION.pattern


class Pages(flask.Blueprint):
    """A blueprint whose views have the account and region in their addresses."""

    def __init__(self, name: str, import_name: str, **options: Any) -> None:
        super().__init__(name, import_name, **options)
        self.record_once(_add_converters)
        self.url_value_preprocessor(_take)
        self.url_defaults(_fill_in)

    def add_url_rule(
        self, rule: str, endpoint: str | None = None, *given: Any, **options: Any
    ) -> None:
        """Add a view, as `flask.Blueprint` does, below the account and region."""
        prefix = "" if endpoint in _UNSCOPED else "/<region:region>/<account:account>"
        super().add_url_rule(prefix + rule, endpoint, *given, **options)


def requested() -> Scope | None:
    """Return the account and region in the address of the request, or None without them."""
    scope: Scope | None = flask.g.get("scope")
    return scope


def scoped_address(path: str) -> str | None:
    """Return the address of a page in the visitor's account and region; None if there is none.

    `path` is that below /console, as addresses were without account and region.
    """
    own = current().identity
    address = flask.url_for("console.home") + f"{own.region}/{own.account}/{path}"
    adapter = flask.current_app.create_url_adapter(flask.request)
    assert adapter is not None
    try:
        endpoint, _ = adapter.match(address, method="GET")
    except HTTPException:
        return None
    query = flask.request.query_string.decode("latin-1")
    return None if endpoint == "console.not_found" else address + (f"?{query}" if query else "")


def _add_converters(state: BlueprintSetupState) -> None:
    state.app.url_map.converters |= {"account": _Account, "region": _Region}


def _take(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """Remove account and region from the arguments of the view."""
    if values and "region" in values and "account" in values:
        flask.g.scope = Scope(account=values.pop("account"), region=values.pop("region"))


def _fill_in(endpoint: str, values: dict[str, Any]) -> None:
    """Add the visitor's account and region to the values of an address that has them."""
    if flask.current_app.url_map.is_endpoint_expecting(endpoint, "region"):
        values.setdefault("region", current().identity.region)
        values.setdefault("account", current().identity.account)

"""The lists of access keys: of those that are, and of those that were revoked."""

import json
from typing import Any

import click

from skipmq.broker import access_keys
from skipmq.cli.local import run_as_owner
from skipmq.cli.output import Column, listed, printing_json, shown_time

# The JSON output has other columns, too.
_COLUMNS = (
    Column("access key id"),
    Column("account", 4),
    Column("name"),
    Column("rights", 1, shrinks=True),
    Column("enabled", 2),
    Column("expires", 3),
    Column("last used", 5),
)


@click.command("list")
@click.option("--revoked", is_flag=True, help="Those that were revoked, and by whom.")
@printing_json
def keys_list(*, revoked: bool) -> tuple[Any, Any]:
    """List access keys, without their secrets."""
    if revoked:
        return _revoked()
    stored_keys = run_as_owner("keys", access_keys.stored)
    rows = [
        {
            "access_key_id": key.id,
            "account": key.account,
            "name": key.name,
            "session_of": key.parent,
            "rights": _summary(key.rights),
            "enabled": key.usable,
            "created": shown_time(key.created_at),
            "expires": shown_time(key.expires_at),
            "last_used": shown_time(key.last_used_at),
            "master_key": key.master_key_id,
        }
        for key in stored_keys
    ]
    if not rows:
        return {"keys": rows}, "no access keys yet: `skipmq keys create`"
    return {"keys": rows}, listed(_COLUMNS, rows)


def _revoked() -> tuple[Any, Any]:
    found = run_as_owner("keys", lambda database: access_keys.revoked(database, None))
    rows = [
        {
            "access_key_id": key.id,
            "account": key.account,
            "name": key.name,
            "revoked": shown_time(key.revoked_at),
            "revoked_by": key.revoked_by,
        }
        for key in found
    ]
    columns = [Column(name.replace("_", " ")) for name in rows[0]] if rows else []
    return {"keys": rows}, listed(columns, rows) if rows else "no access key was revoked"


def _summary(rights: str) -> str:
    """Summarize rights: a role and its queues, or `policy`."""
    content = json.loads(rights)
    if "role" not in content:
        return "policy"
    return " ".join([content["role"], *(content.get("queues") or ())])

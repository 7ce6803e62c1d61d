"""The commands `sql grant`, `sql revoke` and `sql list`, on queues for database roles."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click
from rich.markup import escape

from skipmq.broker import grants as queue_grants
from skipmq.cli import place
from skipmq.cli.environment import configuration
from skipmq.cli.local import run_as_owner
from skipmq.cli.output import Column, listed, printing_json, shown_time
from skipmq.database.partitions import Database

_send = click.option(
    "--send", multiple=True, metavar="QUEUE", help="Queue to send to; * matches any characters."
)
_receive = click.option(
    "--receive",
    multiple=True,
    metavar="QUEUE",
    help="Queue to receive and delete messages from; * matches any characters.",
)
_COLUMNS = (
    Column("role"),
    Column("account", 4),
    Column("region", 3),
    Column("queue"),
    Column("send", 1),
    Column("receive", 1),
    Column("granted", 2),
    Column("by", 5),
)
_QUEUE_REQUIRED = "specify a queue: --send QUEUE or --receive QUEUE"


@click.command("grant")
@click.argument("role")
@_send
@_receive
@place.in_place
@printing_json
def sql_grant(role: str, send: tuple[str, ...], receive: tuple[str, ...]) -> tuple[Any, Any]:
    """Grant the database role ROLE access to queues by SQL.

    Run it as the owner of the schema. A queue is its name, URL or ARN. Quote patterns: 'mail-*'.
    """
    if not (send or receive):
        raise click.UsageError(_QUEUE_REQUIRED)
    result, rights = _change("sql grant", queue_grants.grant, role, send, receive)
    return result, f"role {escape(role)} may {' and '.join(rights)}"


@click.command("revoke")
@click.argument("role")
@_send
@_receive
@place.in_place
@printing_json
def sql_revoke(role: str, send: tuple[str, ...], receive: tuple[str, ...]) -> tuple[Any, Any]:
    """Revoke grants from the database role ROLE; without queues, all of them.

    Run it as the owner of the schema. It takes effect at the next statement of each session.
    """
    if not (send or receive):
        if place.given(click.get_current_context()):
            raise click.UsageError(_QUEUE_REQUIRED)
        run_as_owner("sql revoke", lambda database: queue_grants.revoke_all(database, role))
        return {"role": role, "revoked": "all"}, f"revoked all grants of role {escape(role)}"
    result, rights = _change("sql revoke", queue_grants.revoke, role, send, receive)
    return result, f"role {escape(role)} may no longer {' or '.join(rights)}"


@click.command("list")
@printing_json
def sql_list() -> tuple[Any, Any]:
    """List the grants on queues of database roles."""
    stored = run_as_owner("sql list", queue_grants.stored)
    rows = [
        {
            "role": row.role,
            "account": row.account,
            "region": row.region,
            "queue": row.queue,
            "send": row.may_send,
            "receive": row.may_receive,
            "granted": shown_time(row.granted_at),
            "by": row.granted_by,
        }
        for row in stored
    ]
    if not rows:
        return {"grants": rows}, "no grants yet: `skipmq sql grant ROLE --send QUEUE`"
    return {"grants": rows}, listed(_COLUMNS, rows)


def _change(
    command: str,
    change: Callable[..., Awaitable[None]],
    role: str,
    send: Sequence[str],
    receive: Sequence[str],
) -> tuple[dict[str, Any], list[str]]:
    """Grant or revoke, place by place; return the result, and what it is about in words."""
    settings = configuration().settings
    # The names of queues to send to and to receive from, by account and region.
    queues: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for which, texts in enumerate((send, receive)):
        for text in texts:
            name = place.full_name(text, settings)
            queues.setdefault((name.account, name.region), ([], []))[which].append(name.name)

    async def run(database: Database) -> None:
        for (account, region), (to, of) in queues.items():
            await change(database, role, send=to, receive=of, account=account, region=region)

    run_as_owner(command, run)
    where = {"account": settings.account, "region": settings.region}
    rights = [("send to", send), ("receive from", receive)]
    words = [f"{verb} {escape(', '.join(names))}" for verb, names in rights if names]
    return {"role": role, "send": list(send), "receive": list(receive), **where}, words

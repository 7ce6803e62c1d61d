"""The commands `grant`, `revoke` and `grants` on queues for database roles."""

from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq import limits
from skipmq.cli.environment import configuration
from skipmq.cli.node import run_as_owner
from skipmq.cli.output import cell, printing_json, shown_time
from skipmq.store.grants import QueueGrants

_send = click.option(
    "--send", multiple=True, metavar="QUEUE", help="Queue to send to; * matches any characters."
)
_receive = click.option(
    "--receive",
    multiple=True,
    metavar="QUEUE",
    help="Queue to receive and delete messages from; * matches any characters.",
)
_QUEUE_REQUIRED = "specify a queue: --send QUEUE or --receive QUEUE"


@click.command()
@click.argument("role")
@_send
@_receive
@click.option("--account", default=limits.DEFAULT_ACCOUNT, help="Account of the queues.")
@click.option("--region", help="Region of the queues (default: SKIPMQ_REGION).")
@printing_json
def grant(
    role: str, send: tuple[str, ...], receive: tuple[str, ...], account: str, region: str | None
) -> tuple[Any, Any]:
    """Grant the database role ROLE access to queues by SQL.

    Run it as the owner of the schema. Quote patterns: 'mail-*'.
    """
    if not (send or receive):
        raise click.UsageError(_QUEUE_REQUIRED)
    where = {"account": account, "region": region or configuration().settings.region}
    run_as_owner(
        "grant",
        lambda database: QueueGrants(database).grant(role, send=send, receive=receive, **where),
    )
    result = {"role": role, "send": list(send), "receive": list(receive), **where}
    return result, f"role {escape(role)} may {_rights(send, receive, ' and ')}"


@click.command()
@click.argument("role")
@_send
@_receive
@click.option("--account", help=f"Account of the queues (default: {limits.DEFAULT_ACCOUNT}).")
@click.option("--region", help="Region of the queues (default: SKIPMQ_REGION).")
@printing_json
def revoke(
    role: str,
    send: tuple[str, ...],
    receive: tuple[str, ...],
    account: str | None,
    region: str | None,
) -> tuple[Any, Any]:
    """Revoke grants from the database role ROLE; without queues, all of them.

    Run it as the owner of the schema. It takes effect at the next statement of each session.
    """
    if not (send or receive):
        if account or region:
            raise click.UsageError(_QUEUE_REQUIRED)
        run_as_owner("revoke", lambda database: QueueGrants(database).revoke_all(role))
        return {"role": role, "revoked": "all"}, f"revoked all grants of role {escape(role)}"
    where = {
        "account": account or limits.DEFAULT_ACCOUNT,
        "region": region or configuration().settings.region,
    }
    run_as_owner(
        "revoke",
        lambda database: QueueGrants(database).revoke(role, send=send, receive=receive, **where),
    )
    result = {"role": role, "send": list(send), "receive": list(receive), **where}
    return result, f"role {escape(role)} may no longer {_rights(send, receive, ' or ')}"


@click.command()
@printing_json
def grants() -> tuple[Any, Any]:
    """List the grants on queues of database roles."""
    stored = run_as_owner("grants", lambda database: QueueGrants(database).all())
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
        return rows, "no grants yet: `skipmq grant ROLE --send QUEUE`"
    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row.values()))
    return rows, table


def _rights(send: tuple[str, ...], receive: tuple[str, ...], conjunction: str) -> str:
    rights = [("send to", send), ("receive from", receive)]
    return conjunction.join(f"{verb} {escape(', '.join(names))}" for verb, names in rights if names)

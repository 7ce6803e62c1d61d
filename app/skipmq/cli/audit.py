"""The `audit` command."""

from collections.abc import Sequence
from typing import Any

import click
from rich.table import Table

from skipmq.actions.skipmq import audit as actions
from skipmq.broker import audit_log
from skipmq.broker.audit_log import AuditRecord
from skipmq.cli import place
from skipmq.cli.environment import configuration
from skipmq.cli.local import open_node
from skipmq.cli.output import cell, printing_json, shown_time
from skipmq.cli.tables import Column, table

_USER = ":user/"
_COLUMNS = (
    Column("time (UTC)"),
    Column("action"),
    Column("queue", 1, shrinks=True),
    Column("account", 5),
    Column("by", 3, shrinks=True),
    Column("from", 4),
    Column("door", 6),
    Column("outcome", 2, shrinks=True),
)


@click.command()
@click.option("--queue", metavar="QUEUE", help="Only records of this queue, by name or ARN.")
@click.option("--key", metavar="KEY_ID", help="Only records of this access key.")
@click.option("--action", metavar="ACTION", help="Only this action, such as DeleteQueue.")
@click.option("--outcome", metavar="OUTCOME", help="Only this outcome: done, or an error code.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Maximum number of records.",
)
@printing_json
def audit(
    queue: str | None, key: str | None, action: str | None, outcome: str | None, limit: int
) -> tuple[Any, Any]:
    """Show changes to queues, refused requests and console sign-ins, newest first.

    All accounts and regions are shown; a queue name is in the default account and region.
    """
    settings = configuration().settings
    own = place.full_name("", settings)
    with open_node(settings) as node:
        records = node.run(
            audit_log.records(
                node.node.database,
                None,
                limit,
                queue=actions.arn(queue, settings.identity),
                access_key=key,
                action=action,
                outcome=outcome,
                deadline=node.node.deadline(),
            )
        )
    result = [
        record._asdict() | {"id": str(record.id), "recorded_at": shown_time(record.recorded_at)}
        for record in records
    ]
    return {"records": result}, _table(records, own.arn) if records else "no matching records"


def _table(records: Sequence[AuditRecord], own: str) -> Table:
    rows = (
        (
            cell(shown_time(each.recorded_at)),
            cell(each.action),
            cell(each.queue and each.queue.removeprefix(own)),
            cell(each.account),
            cell(_caller(each)),
            cell(each.client),
            cell(each.door),
            cell(each.outcome),
        )
        for each in records
    )
    return table(_COLUMNS, rows)


def _caller(record: AuditRecord) -> str | None:
    if record.user:
        return record.user.rpartition(_USER)[2]
    return f"claims {record.access_key}" if record.claimed else record.access_key

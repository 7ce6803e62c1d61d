"""The `audit` command."""

from typing import Any

import click
import msgspec
from msgspec import structs

from skipmq.actions.skipmq import audit as actions
from skipmq.broker import audit_log
from skipmq.broker.audit_log import AuditRecord
from skipmq.cli import place
from skipmq.cli.environment import configuration
from skipmq.cli.local import open_node
from skipmq.cli.output import Column, ago, limit_option, listed, printing_json, shown_milliseconds

_USER = ":user/"
# The fewest records of a read.
_STEP = 500


def _outcome(record: AuditRecord) -> str:
    """Return the outcome, with how many messages went, that receives go on, or how often it was."""
    if record.count > 1:
        since = shown_milliseconds(record.first_at)
        return f"{record.outcome}, {record.count:,} times since {since}"
    parameters = msgspec.json.decode(record.parameters or "{}")
    if record.action in {"DeleteQueue", "PurgeQueue"} and "Messages" in parameters:
        return f"{record.outcome}: {parameters['Messages']:,} messages"
    if record.action == "PauseQueue" and parameters.get("Paused") is False:
        return f"{record.outcome}: resumed"
    return record.outcome


def _caller(record: AuditRecord) -> str | None:
    if record.user:
        return record.user.rpartition(_USER)[2]
    key = record.access_key
    if key is not None and record.key_name not in {None, key}:
        key = f"{record.key_name} ({key})"
    return f"claims {key}" if record.claimed else key


_COLUMNS = (
    Column("time (UTC)", of="recorded_at", form=shown_milliseconds),
    Column("action"),
    Column("queue", 1, shrinks=True),
    Column("account", 5),
    Column("by", 3, shrinks=True, of=_caller),
    Column("from", 4, of="client"),
    Column("door", 6),
    Column("outcome", 2, shrinks=True, of=_outcome),
)


@click.command()
@click.option("--queue", metavar="QUEUE", help="Only records of this queue, by name or ARN.")
@click.option("--key", metavar="KEY_ID", help="Only records of this access key.")
@click.option("--action", metavar="ACTION", help="Only this action, such as DeleteQueue.")
@click.option("--by", metavar="NAME", help="Only what this user, or access key, did.")
@click.option("--changes", is_flag=True, help="No refusals and sign-ins.")
@click.option("--since", metavar="TIME", help="Since a time in UTC, or so long ago: 30m, 1h, 2d.")
@click.option("--until", metavar="TIME", help="Until a time in UTC, or so long ago.")
@click.option("--outcome", metavar="OUTCOME", help="Only this outcome: done, or an error code.")
@limit_option(50, 10_000, "Maximum number of records.")
@printing_json
def audit_command(
    *,
    queue: str | None,
    key: str | None,
    action: str | None,
    outcome: str | None,
    by: str | None,
    changes: bool,
    since: str | None,
    until: str | None,
    limit: int,
) -> tuple[Any, Any]:
    """Show changes to queues, refused requests and console sign-ins, newest first.

    All accounts and regions are shown; a queue name is in the default account and region. Equal
    refusals are one line with their number.
    """
    settings = configuration().settings
    own = place.full_name("", settings)
    with open_node(settings) as node:
        clock = node.run(node.node.database.clock(node.node.deadline()))
        records: list[AuditRecord] = []
        before, step = None, max(limit, _STEP)
        for _ in range(actions.READS):
            found = node.run(
                audit_log.records(
                    node.node.database,
                    None,
                    step,
                    before=before,
                    queue=actions.arn(queue, settings.identity),
                    access_key=key,
                    action=action,
                    outcome=outcome,
                    by=by,
                    changes=changes,
                    since=_moment(since, clock, "--since"),
                    until=_moment(until, clock, "--until"),
                    deadline=node.node.deadline(),
                )
            )
            actions.fold(records, found, limit)
            if len(records) == limit or len(found) < step:
                break
            before = int(found[-1].id)
    result = [
        structs.asdict(record)
        | {
            "recorded_at": shown_milliseconds(record.recorded_at),
            "parameters": msgspec.json.decode(record.parameters or "null"),
            "first_at": shown_milliseconds(record.first_at),
        }
        for record in records
    ]
    if not records:
        return {"records": result}, "no matching records"
    for record in records:
        record.queue = record.queue and record.queue.removeprefix(own.arn)
    return {"records": result}, listed(_COLUMNS, records)


def _moment(text: str | None, clock: float, option: str) -> int | None:
    """Return a time in microseconds since 1970.

    It is in UTC unless it has an offset, or a duration before the clock's.
    """
    if text is None:
        return None
    if (length := ago(text)) is not None:
        return int((clock - length.total_seconds()) * 1_000_000)
    try:
        return int(actions.moment(text) * 1_000_000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            "write a time as 2026-11-28T16:20, or how long ago, as 1h", param_hint=option
        ) from error

"""The command groups, with the import path and short help of each command."""

from pathlib import Path

import click

from skipmq import release
from skipmq.cli.deferred import Deferred, Group

_QUEUE = (
    Deferred(
        "list",
        "queue.queues:queue_list",
        "List queues, or those whose names begin with PREFIX, with their counts of messages.",
    ),
    Deferred(
        "create",
        "queue.queues:queue_create",
        "Create the queue NAME; one that ends in .fifo is a FIFO queue.",
    ),
    Deferred(
        "show", "queue.queues:queue_show", "Show the attributes and the counts of the queue NAME."
    ),
    Deferred("set", "queue.queues:queue_set", "Change attributes of the queue NAME."),
    Deferred(
        "tag",
        "queue.queues:queue_tag",
        "Add tags to the queue NAME, remove tags, and list the resulting tags.",
    ),
    Deferred("purge", "queue.queues:queue_purge", "Delete all messages of the queue NAME."),
    Deferred("delete", "queue.queues:queue_delete", "Delete the queue NAME and all its messages."),
    Deferred(
        "send",
        "queue.send:queue_send",
        "Send a message to the queue NAME; without BODY, or with -, read it from standard input.",
    ),
    Deferred("receive", "queue.messages:queue_receive", "Receive messages from the queue NAME."),
    Deferred(
        "peek",
        "queue.messages:queue_peek",
        "Show messages of the queue NAME without receiving them.",
    ),
    Deferred(
        "search",
        "queue.search:queue_search",
        "Search the queue NAME, in flight or not, and count the matching messages.",
    ),
    Deferred(
        "consumers",
        "queue.search:queue_consumers",
        "Show who received from the queue NAME in the last ten minutes, or waits for messages.",
    ),
    Deferred(
        "groups",
        "queue.groups:queue_groups",
        "Show the groups of the FIFO queue NAME, those that stay in flight longest first.",
    ),
    Deferred(
        "release",
        "queue.groups:queue_release",
        "Make messages in flight of the queue NAME visible now: those with the IDs, or of groups.",
    ),
    Deferred(
        "timeline",
        "queue.messages:queue_timeline",
        "Show the events of the message MESSAGE_ID of the queue NAME, and its present state.",
    ),
    Deferred(
        "stats",
        "queue.stats:queue_stats",
        "Show statistics of the busiest queues, or of the queue NAME.",
    ),
    Deferred(
        "redrive",
        "queue.tasks:queue_redrive",
        "Redrive the messages of the dead-letter queue NAME, and wait until the task ends.",
    ),
    Deferred(
        "move",
        "queue.tasks:queue_move",
        "Move matching messages of the queue NAME to the queue TARGET.",
    ),
    Deferred(
        "copy",
        "queue.tasks:queue_copy",
        "Copy matching messages of the queue NAME to the queue TARGET.",
    ),
    Deferred(
        "delete-matching",
        "queue.tasks:queue_delete_matching",
        "Delete matching messages of the queue NAME; `queue purge` deletes all.",
    ),
    Deferred(
        "tasks",
        "queue.tasks:queue_tasks",
        "Show the newest tasks of the queue NAME, including redrives, and their progress.",
    ),
    Deferred(
        "tail",
        "queue.tail:queue_tail",
        "Print messages as they arrive in the queue NAME until Ctrl-C, without receiving them.",
    ),
)
_ANALYTICS = (
    Deferred(
        "export",
        "analytics.exports:export_command",
        "Export the messages settled since the last export to the lake, each row once.",
        extra="analytics",
    ),
    Deferred(
        "stream",
        "analytics.exports:stream_command",
        "Write settled messages to Parquet continuously, each row once.",
        extra="analytics",
    ),
    Deferred(
        "pipeline",
        "analytics.pipeline:pipeline_command",
        "Bring the tables bronze, silver and gold of settled messages up to date.",
        extra="analytics",
    ),
    Deferred(
        "verify",
        "analytics.lake:verify_command",
        "Check a lake against its files and the database.",
        extra="analytics",
    ),
    Deferred(
        "report",
        "analytics.reports:report_command",
        "Report latency, traffic, redelivery, dead letters, groups, backlog and consumers.",
        extra="analytics",
    ),
    Deferred(
        "bodies",
        "analytics.bodies:bodies_command",
        "Write the settled messages of QUEUE as Parquet, with their bodies as columns.",
        extra="analytics",
    ),
    Deferred(
        "replay",
        "analytics.reports:replay_command",
        "Send settled messages again, selected by an SQL condition over the history.",
        extra="analytics",
    ),
    Deferred(
        "forget",
        "analytics.reports:forget_command",
        "Erase the messages that match an SQL condition, in queues, the history and the lake.",
        extra="analytics",
    ),
    Deferred(
        "reconcile",
        "analytics.reconcile:reconcile_command",
        "Reconcile sent messages with those stored, delivered and deleted.",
        extra="analytics",
    ),
    Deferred(
        "advise",
        "analytics.advise:advise_command",
        "Recommend visibility timeouts, and set them with --apply.",
        extra="analytics",
    ),
)
_SQL = (
    Deferred("grant", "grants:grant", "Grant the database role ROLE access to queues by SQL."),
    Deferred(
        "revoke",
        "grants:revoke",
        "Revoke grants from the database role ROLE; without queues, all of them.",
    ),
    Deferred("list", "grants:grants", "List the grants on queues of database roles."),
)
_PARTITIONS = (
    Deferred("init", "partitions:init", "Make databases partitions, and a database their router."),
    Deferred("add", "partitions:add", "Add partitions, empty databases, to those of a router."),
    Deferred(
        "rebalance-plan",
        "partitions:rebalance_plan",
        "List the queues that `rebalance` would move, with their numbers of messages.",
    ),
    Deferred(
        "rebalance",
        "partitions:rebalance",
        "Move queues with their messages to the partitions that their names choose.",
    ),
    Deferred("list", "partitions:list_", "List the partitions of a router."),
    Deferred(
        "doctor",
        "partitions:doctor",
        "Check a router and its partitions; exit with 1 where something is wrong.",
    ),
)


@click.group(cls=Group, commands=_QUEUE)
def queue() -> None:
    """Manage queues and their messages.

    NAME is a queue by its name, URL or ARN; shell completion is available for names.
    """


@click.group(cls=Group, commands=_ANALYTICS)
def analytics() -> None:
    """Export, stream and analyze the history with Spark or DuckDB."""


@click.group(cls=Group, commands=_SQL)
def sql() -> None:
    """Grant database roles access to queues by SQL."""


@click.group(cls=Group, commands=_PARTITIONS)
def partitions() -> None:
    """Spread queues over several databases behind routers of PL/Proxy."""


_ALL = (
    queue,
    sql,
    analytics,
    partitions,
    Deferred("serve", "serve:serve_command", "Run a node."),
    Deferred(
        "work", "work:work", "Run the consumers of the app APP in the module MODULE.", extra=None
    ),
    Deferred(
        "import",
        "imports:import_command",
        "Create the queues that FILE declares, or those of an SQS endpoint; move no messages.",
    ),
    Deferred("config", "config:config_command", "Show the effective settings and their sources."),
    Deferred(
        "doctor",
        "doctor:doctor",
        "Check settings, database, schema, port and certificate, and suggest remedies.",
    ),
    Deferred("migrate", "migrate:migrate", "Migrate the database's schema to this release."),
    Deferred(
        "psql",
        "psql:psql",
        "Open psql on the broker's database, also the embedded one, as the owner of the schema.",
    ),
    Deferred("top", "top:top", "Show the busiest queues live until q or Ctrl-C."),
    Deferred(
        "trouble",
        "trouble:trouble",
        "Show what needs attention in the queues of an account and region, the worst first.",
    ),
    Deferred(
        "nodes",
        "sessions:nodes",
        "Show the worker processes of all nodes with their figures of the last minute.",
    ),
    Deferred(
        "sessions",
        "sessions:sessions",
        "Show the sessions of the database server, and who blocks whom.",
    ),
    Deferred(
        "tasks",
        "queue.tasks:tasks",
        "Show the tasks of all queues of an account and region, those that run first.",
    ),
    Deferred(
        "audit",
        "audit:audit",
        "Show changes to queues, refused requests and console sign-ins, newest first.",
    ),
    Deferred(
        "keys",
        "keys:keys",
        "Create, list, permit, disable, enable, revoke and rotate access keys.",
    ),
)


@click.group(
    cls=Group,
    commands=_ALL,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(release.VERSION, prog_name="skipmq")
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of settings (default: SKIPMQ_CONFIG).",
)
@click.pass_context
def cli(context: click.Context, file: Path | None) -> None:
    """SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table.

    Settings are SKIPMQ_* variables or keys of a TOML file; `skipmq config` shows them all.
    """
    context.obj = file

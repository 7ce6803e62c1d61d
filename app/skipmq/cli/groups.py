"""The groups of commands: what each is called, and where it is."""

from pathlib import Path

import click

import skipmq
from skipmq.cli.deferred import Deferred, Group

_QUEUE = (
    Deferred("list", "queues:queue_list", "List the names of queues that begin with PREFIX."),
    Deferred(
        "create",
        "queues:queue_create",
        "Create the queue NAME; one that ends in .fifo is a FIFO queue.",
    ),
    Deferred("show", "queues:queue_show", "Show the attributes and the counts of the queue NAME."),
    Deferred("set", "queues:queue_set", "Change attributes of the queue NAME."),
    Deferred(
        "tag",
        "queues:queue_tag",
        "Tag the queue NAME, take tags away, and list the tags that it has then.",
    ),
    Deferred("purge", "queues:queue_purge", "Delete all messages of the queue NAME."),
    Deferred("delete", "queues:queue_delete", "Delete the queue NAME and all its messages."),
    Deferred(
        "send",
        "queue_send:queue_send",
        "Send a message to the queue NAME; without BODY, or with -, standard input is the body.",
    ),
    Deferred("receive", "queue_messages:queue_receive", "Receive messages of the queue NAME."),
    Deferred(
        "peek",
        "queue_messages:queue_peek",
        "Show messages of the queue NAME without receiving them.",
    ),
    Deferred(
        "timeline",
        "queue_messages:queue_timeline",
        "Show what happened to the message MESSAGE_ID of the queue NAME, and where it is now.",
    ),
    Deferred(
        "stats",
        "queue_stats:queue_stats",
        "Show what the busiest queues hold and what happens in them, or all about the queue NAME.",
    ),
    Deferred(
        "redrive",
        "queue_tasks:queue_redrive",
        "Move the messages of the dead-letter queue NAME back, and wait until all are moved.",
    ),
    Deferred(
        "move",
        "queue_tasks:queue_move",
        "Move the messages of the queue NAME that match to the queue TARGET.",
    ),
    Deferred(
        "copy",
        "queue_tasks:queue_copy",
        "Send copies of the messages of the queue NAME that match to the queue TARGET.",
    ),
    Deferred(
        "delete-matching",
        "queue_tasks:queue_delete_matching",
        "Delete the messages of the queue NAME that match; `queue purge` deletes all.",
    ),
    Deferred(
        "tasks",
        "queue_tasks:queue_tasks",
        "Show the newest tasks of the queue NAME, redrives too, and how far each is.",
    ),
    Deferred(
        "tail",
        "queue_tail:queue_tail",
        "Follow the messages that arrive in the queue NAME until Ctrl-C, without receiving them.",
    ),
)
_ANALYTICS = (
    Deferred(
        "export",
        "analytics:export_command",
        "Add to the lake what was settled since the last export: each row once.",
    ),
    Deferred(
        "stream",
        "analytics:stream_command",
        "Write what is settled to Parquet, as it is settled: each row once.",
    ),
    Deferred(
        "verify",
        "analytics_lake:verify_command",
        "Check a lake against its files and the database.",
    ),
    Deferred(
        "report",
        "analytics_reports:report_command",
        "Report on a time: latencies, traffic, redelivery, dead letters, groups, backlog,"
        " consumers.",
    ),
    Deferred(
        "replay",
        "analytics_reports:replay_command",
        "Send settled messages again, selected by an SQL condition over the history.",
    ),
    Deferred(
        "forget",
        "analytics_reports:forget_command",
        "Erase messages by an SQL condition: live ones, the history, the lake.",
    ),
    Deferred(
        "audit",
        "analytics_reports:audit_command",
        "Reconcile sends with what is stored, delivered and deleted.",
    ),
    Deferred(
        "advise",
        "analytics_advise:advise_command",
        "Advise on visibility timeouts, and set them with --apply.",
    ),
)


@click.group(cls=Group, commands=_QUEUE)
def queue() -> None:
    """Work with queues and their messages.

    NAME is a queue of the default account and region; shells can complete it.
    """


@click.group(cls=Group, commands=_ANALYTICS)
def analytics() -> None:
    """Keep the history as Parquet, stream it, and work on it with Spark."""


_ALL = (
    queue,
    analytics,
    Deferred("serve", "serve:serve_command", "Run a node."),
    Deferred("work", "work:work", "Run the consumers of the app APP in the module MODULE."),
    Deferred(
        "config", "config:config_command", "Show the effective settings and where each came from."
    ),
    Deferred(
        "doctor",
        "doctor:doctor",
        "Check settings, database, schema, port and certificate; say what to do about each"
        " problem.",
    ),
    Deferred("migrate", "migrate:migrate", "Bring the database's schema to this release."),
    Deferred(
        "psql",
        "psql:psql",
        "Open psql on the broker's database, the embedded one too, as the owner of the schema.",
    ),
    Deferred("top", "top:top", "Show the busiest queues live until q or Ctrl-C."),
    Deferred(
        "audit",
        "audit:audit",
        "Show who changed queues, was refused, or signed in to the console, newest first.",
    ),
    Deferred(
        "keys",
        "keys:keys",
        "Create, list, permit, disable, enable, revoke and rotate access keys.",
    ),
    Deferred("grant", "grants:grant", "Let ROLE of the database use queues by SQL, and no others."),
    Deferred(
        "revoke",
        "grants:revoke",
        "Take back from ROLE what it was granted, or, without queues, everything.",
    ),
    Deferred(
        "grants", "grants:grants", "List what roles of the database may do with queues by SQL."
    ),
)


@click.group(
    cls=Group,
    commands=_ALL,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(skipmq.__version__, prog_name="skipmq")
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of settings; SKIPMQ_CONFIG names one too.",
)
@click.pass_context
def cli(context: click.Context, file: Path | None) -> None:
    """SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table.

    Settings are SKIPMQ_* variables or keys of a TOML file; `skipmq config` shows them all.
    """
    context.obj = file

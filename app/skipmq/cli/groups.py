"""The command groups; commands are imported only when they run, which keeps start-up fast."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path

import click

from skipmq import extras, release

# The function of each command, which has its help. The extra that a command needs of SkipMQ is
# `server` but for those of _EXTRAS, where None is the client alone.
_COMMANDS = {
    "queue": {
        "list": "queue.queues:queue_list",
        "create": "queue.queues:queue_create",
        "show": "queue.queues:queue_show",
        "set": "queue.queues:queue_set",
        "pause": "queue.queues:queue_pause",
        "resume": "queue.queues:queue_resume",
        "tag": "queue.queues:queue_tag",
        "purge": "queue.queues:queue_purge",
        "delete": "queue.queues:queue_delete",
        "send": "queue.send:queue_send",
        "receive": "queue.messages:queue_receive",
        "peek": "queue.messages:queue_peek",
        "search": "queue.search:queue_search",
        "consumers": "queue.search:queue_consumers",
        "groups": "queue.groups:queue_groups",
        "release": "queue.groups:queue_release",
        "reschedule": "queue.groups:queue_reschedule",
        "cancel": "queue.groups:queue_cancel",
        "timeline": "queue.messages:queue_timeline",
        "stats": "queue.stats:queue_stats",
        "redrive": "queue.tasks:queue_redrive",
        "move": "queue.tasks:queue_move",
        "copy": "queue.tasks:queue_copy",
        "delete-matching": "queue.tasks:queue_delete_matching",
        "tasks": "queue.tasks:queue_tasks",
        "tail": "queue.tail:queue_tail",
    },
    "topic": {
        "list": "topics:topic_list",
        "create": "topics:topic_create",
        "show": "topics:topic_show",
        "subscribe": "topics:topic_subscribe",
        "unsubscribe": "topics:topic_unsubscribe",
        "publish": "topics:topic_publish",
        "delete": "topics:topic_delete",
    },
    "schedule": {
        "create": "schedules:schedule_create",
        "list": "schedules:schedule_list",
        "show": "schedules:schedule_show",
        "pause": "schedules:schedule_pause",
        "resume": "schedules:schedule_resume",
        "run": "schedules:schedule_run",
        "delete": "schedules:schedule_delete",
    },
    "analytics": {
        "export": "analytics.exports:export_command",
        "pipeline": "analytics.exports:pipeline_command",
        "verify": "analytics.lake:verify_command",
        "report": "analytics.reports:report_command",
        "bodies": "analytics.bodies:bodies_command",
        "replay": "analytics.reports:replay_command",
        "forget": "analytics.reports:forget_command",
        "reconcile": "analytics.reconcile:reconcile_command",
        "advise": "analytics.advise:advise_command",
    },
    "sql": {
        "grant": "grants:grant",
        "revoke": "grants:revoke",
        "list": "grants:grants",
    },
    "partitions": {
        "init": "partitions:init",
        "add": "partitions:add",
        "rebalance-plan": "partitions:rebalance_plan",
        "rebalance": "partitions:rebalance",
        "list": "partitions:list_",
        "doctor": "partitions:doctor",
    },
    "": {
        "serve": "serve:serve_command",
        "work": "work:work",
        "import": "imports:import_command",
        "config": "config:config_command",
        "doctor": "doctor:doctor",
        "migrate": "migrate:migrate",
        "psql": "migrate:psql",
        "top": "top:top",
        "trouble": "trouble:trouble",
        "runbook": "runbook:runbook",
        "nodes": "sessions:nodes",
        "sessions": "sessions:sessions",
        "tasks": "queue.tasks:tasks",
        "audit": "audit:audit",
        "keys": "keys:keys",
    },
}
_EXTRAS = {"analytics": "analytics", "work": None}


class Deferred(click.Command):
    """A command that is imported from a path (`module:function`) when it runs.

    `extra` is what it needs of SkipMQ, None for the client alone.
    """

    def __init__(self, name: str, path: str, extra: str | None) -> None:
        super().__init__(name)
        self._module, _, self._function = f"skipmq.cli.{path}".partition(":")
        self._extra = extra

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the function's documentation, without importing it."""
        self.help = _documented(self._module)[self._function]
        return super().get_short_help_str(limit)

    def check(self, words: str) -> None:
        """Raise MissingExtraError, which names the command by `words`, if its extra is missing."""
        if self._extra is not None:
            extras.require_server(f"`{words}`", self._extra)

    def load(self) -> click.Command:
        """Import the command."""
        command = getattr(import_module(self._module), self._function)
        assert isinstance(command, click.Command)
        return command


@cache
def _documented(module: str) -> Mapping[str, str | None]:
    """Return the documentation of a module's functions, read from its source."""
    # Imported late: only lists of commands need it.
    import ast  # noqa: PLC0415

    spec = find_spec(module)
    assert spec is not None
    assert isinstance(spec.loader, InspectLoader)
    tree = ast.parse(spec.loader.get_source(module) or "")
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef))
    return {each.name: ast.get_docstring(each) for each in functions}


class Group(click.Group):
    """A group that lists deferred commands without importing them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click.Group does, and import it.

        Raises MissingExtraError.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, Deferred):
            return name, command, rest
        try:
            command.check(f"{ctx.command_path} {name}")
        except extras.MissingExtraError:
            # The shell completes a line: the command has no options to offer.
            if ctx.resilient_parsing:
                return name, command, rest
            raise
        return name, command.load(), rest


def _commands(group: str) -> list[click.Command]:
    return [
        Deferred(name, path, _EXTRAS.get(group or name, "server"))
        for name, path in _COMMANDS[group].items()
    ]


@click.group(cls=Group, commands=_commands("queue"))
def queue() -> None:
    """Manage queues and their messages.

    NAME is a queue by its name, URL or ARN; shell completion is available for names.
    """


@click.group(cls=Group, commands=_commands("topic"))
def topic() -> None:
    """Manage topics, which hand a message to all queues that are subscribed."""


@click.group(cls=Group, commands=_commands("schedule"))
def schedule() -> None:
    """Send messages at the times of a cron expression, every so often, or once."""


@click.group(cls=Group, commands=_commands("analytics"))
def analytics() -> None:
    """Export and analyze the history with Spark or DuckDB."""


@click.group(cls=Group, commands=_commands("sql"))
def sql() -> None:
    """Grant database roles access to queues by SQL."""


@click.group(cls=Group, commands=_commands("partitions"))
def partitions() -> None:
    """Spread queues over several databases behind routers of PL/Proxy."""


def _keep_file(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    context.obj = file


@click.group(
    cls=Group,
    commands=[queue, topic, schedule, sql, analytics, partitions, *_commands("")],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(release.VERSION, prog_name="skipmq")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_keep_file,
    expose_value=False,
    help="TOML file of settings (default: SKIPMQ_CONFIG).",
)
def cli() -> None:
    """SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table.

    Settings are SKIPMQ_* variables or keys of a TOML file; `skipmq config` shows them all.
    """

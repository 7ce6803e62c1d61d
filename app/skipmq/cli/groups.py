"""The command groups; commands are imported only when they run, which keeps start-up fast."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from importlib.util import find_spec
from pathlib import Path

import click

from skipmq import extras, release

# The modules of each group, and the commands in each. The function of `queue list` is `queue_list`,
# that of a command of no group, as `serve`, is `serve_command`; it has the help. The extra that a
# command needs of SkipMQ is `server` but for those of _EXTRAS, where None is the client alone.
_COMMANDS: dict[str, dict[str, str]] = {
    "queue": {
        "queue.queues": "list create show set pause resume tag purge delete",
        "queue.send": "send",
        "queue.messages": "receive peek timeline",
        "queue.search": "search consumers tail",
        "queue.groups": "groups release reschedule cancel",
        "queue.stats": "stats",
        "queue.tasks": "redrive move copy delete-matching tasks",
    },
    "topic": {"topics": "list create show subscribe unsubscribe publish delete"},
    "schedule": {"schedules": "create list show pause resume run delete"},
    "analytics": {
        "analytics.exports": "export pipeline bodies",
        "analytics.lake": "verify reconcile",
        "analytics.reports": "report replay forget",
        "analytics.advise": "advise",
    },
    "sql": {"grants": "grant revoke list"},
    "partitions": {"partitions": "init add rebalance-plan rebalance list doctor"},
    "": {
        "serve": "serve",
        "work": "work",
        "imports": "import",
        "config": "config runbook",
        "doctor": "doctor",
        "migrate": "migrate psql",
        "top": "top",
        "trouble": "trouble",
        "sessions": "nodes sessions",
        "queue.tasks": "tasks",
        "audit": "audit",
        "keys": "keys",
    },
}
_EXTRAS = {"analytics": "analytics", "work": None}
_GROUPS = {
    "queue": "Manage queues and their messages.\n\nNAME is a queue by its name, URL or ARN; shell"
    " completion is available for names.",
    "topic": "Manage topics, which hand a message to all queues that are subscribed.",
    "schedule": "Send messages at the times of a cron expression, every so often, or once.",
    "sql": "Grant database roles access to queues by SQL.",
    "analytics": "Export and analyze the history with Spark or DuckDB.",
    "partitions": "Spread queues over several databases behind routers of PL/Proxy.",
}


class Deferred(click.Command):
    """A command that is imported from a module of this package when it runs.

    `extra` is what it needs of SkipMQ, None for the client alone.
    """

    def __init__(self, name: str, module: str, function: str, extra: str | None) -> None:
        super().__init__(name)
        self._module, self._function, self._extra = f"{__package__}.{module}", function, extra

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
        Deferred(
            name,
            module,
            f"{group}_{name.replace('-', '_')}" if group else f"{name}_command",
            _EXTRAS.get(group or name, "server"),
        )
        for module, names in _COMMANDS[group].items()
        for name in names.split()
    ]


def _keep_file(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    context.obj = file


@click.group(
    cls=Group,
    commands=[
        *(Group(name, _commands(name), help=about) for name, about in _GROUPS.items()),
        *_commands(""),
    ],
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

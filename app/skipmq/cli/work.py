"""The command that runs the consumers of an app."""

import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

from skipmq.client import App, ClientError
from skipmq.client.health import LOOPBACK
from skipmq.client.outcomes import has_failed
from skipmq.client.worker import UnfinishedError
from skipmq.telemetry.terminal import visible


class _Formatter(logging.Formatter):
    """Formats lines that have texts of messages, as an exception's of a handler."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, perhaps with a traceback, that controls no terminal."""
        return visible(super().format(record))


@click.command("work")
@click.argument("app", metavar="MODULE:APP")
@click.option("--concurrency", type=click.IntRange(1), help="Concurrent handlers of each consumer.")
@click.option("--once", is_flag=True, help="Stop when no message is visible; 1 if any failed.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=30.0,
    help="Seconds that handlers have to end after SIGTERM (default 30).",
)
@click.option(
    "--health-port",
    type=click.IntRange(1, 65_535),
    help="Port of /health/live, /health/ready and /metrics.",
)
@click.option(
    "--health-host",
    default=LOOPBACK,
    metavar="HOST",
    help="Address or name that it listens on (default 127.0.0.1); 0.0.0.0: all of IPv4.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    help="What is logged; info, the default, has a line for each message.",
)
@click.option(
    "--dsn",
    metavar="URL",
    help="Database of the broker, or its https:// URL, instead of the app's.",
)
def work_command(
    app: str,
    *,
    concurrency: int | None,
    once: bool,
    grace: float,
    health_port: int | None,
    health_host: str,
    log_level: str,
    dsn: str | None,
) -> None:
    """Run the consumers of the app APP in the module MODULE.

    SIGTERM or Ctrl-C claims no more, ends what runs and returns the rest; the second one ends at
    once.
    """
    found = _load(app)
    found.dsn = dsn or found.dsn
    to_terminal = logging.StreamHandler()
    to_terminal.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=log_level.upper(), handlers=[to_terminal])
    names = ", ".join(consumer.queue.name for consumer in found.consumers)
    if names:
        click.echo(visible(f"skipmq: consuming {names}. Ctrl-C stops it."), err=True)
    try:
        outcomes = found.run(
            once=once,
            concurrency=concurrency,
            grace=grace,
            health_port=health_port,
            health_host=health_host,
        )
    except ClientError as error:
        raise click.ClickException(str(error)) from error
    except UnfinishedError as error:
        click.echo(visible(f"skipmq: {error}"), err=True)
        sys.stdout.flush()
        # The threads of those handlers would keep the process.
        os._exit(1)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    click.echo(visible(f"skipmq: stopped ({counts or 'no message'})"), err=True)
    if once and has_failed(outcomes):
        sys.exit(1)


def _load(name: str) -> App:
    """Return an app by module and variable; what its module raises is raised as it is."""
    module_name, colon, variable = name.partition(":")
    if not (module_name and colon and variable):
        raise click.UsageError(f"{name!r} is not of the form MODULE:APP, as in shop.consumers:shop")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    if not _exists(module_name):
        raise click.UsageError(f"there is no module {module_name!r} in {here} or on PYTHONPATH")
    module = import_module(module_name)
    found = getattr(module, variable, None)
    if not isinstance(found, App):
        apps = [f"{module_name}:{key}" for key, v in vars(module).items() if isinstance(v, App)]
        raise click.UsageError(
            f"{name} is {'missing' if found is None else 'no App'}: the module has"
            f" {', '.join(apps) or 'none, make one with skipmq.App(dsn)'}"
        )
    return found


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError as error:
        # One of its packages is missing, or imports what is.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return False
        raise

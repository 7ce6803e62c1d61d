"""The command line."""

import json
import sys
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import click
from rich.markup import escape
from rich.table import Table

import skipmq
from skipmq import config, console, embedded, errors, logs
from skipmq.cli import (
    analytics,
    analytics_advise,
    analytics_lake,
    analytics_reports,
    audit,
    doctor,
    grants,
    keys,
    migrate,
    queue_messages,
    queue_send,
    queue_stats,
    queue_tail,
    queue_tasks,
    queues,
    top,
)
from skipmq.cli.environment import configuration, open_database, out
from skipmq.config import ConfigError
from skipmq.database import address, schema, session
from skipmq.database.schema import SchemaError
from skipmq.embedded import EmbeddedError
from skipmq.server import certificate, local, serve
from skipmq.server.certificate import CertificateError
from skipmq.server.serve import ServeError
from skipmq.settings import SECRETS, Settings


def main() -> None:
    """Run the command line; what the user can mend is one line, never a traceback."""
    logs.to_standard_error()
    try:
        cli(standalone_mode=False, prog_name="skipmq")
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped", code=130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ConfigError as error:
        _fail(*error.problems, code=2)
    except (EmbeddedError, SchemaError, ServeError, CertificateError) as error:
        _fail(str(error))
    except session.Error as error:
        _fail(session.explain(error))
    except (errors.DatabaseReadOnly, errors.Hindered) as error:
        _fail(f"{error.message} `skipmq doctor` says more")
    except errors.ServiceUnavailable:
        _fail("the database cannot be reached. Check SKIPMQ_DATABASE_URL: `skipmq doctor`")
    except errors.SqsError as error:
        _fail(f"{error.code}: {error.message}")


def _fail(*problems: str, code: int = 1) -> NoReturn:
    for problem in problems:
        click.echo(f"skipmq: {problem}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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


@cli.command("serve")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default 9324).")
@click.option("--workers", type=int, help="Worker processes (default: by the cores, at most 4).")
@click.option("--data-dir", help="Folder of the embedded PostgreSQL.")
@click.option("--ephemeral", is_flag=True, help="Use a throw-away database, gone with the server.")
@click.option("--insecure", is_flag=True, help="Allow every caller, from other machines too.")
def serve_command(
    *,
    host: str | None,
    port: int | None,
    workers: int | None,
    data_dir: str | None,
    ephemeral: bool,
    insecure: bool,
) -> None:
    """Run a node.

    Without SKIPMQ_DATABASE_URL it keeps its messages in an embedded PostgreSQL, which starts and
    stops with it.
    """
    settings = configuration(
        host=host, port=port, workers=workers, data_dir=data_dir, auth="off" if insecure else None
    ).settings
    logs.configure(settings)
    if ephemeral and settings.database_url:
        raise click.UsageError(
            "--ephemeral is for the embedded database; unset SKIPMQ_DATABASE_URL"
        )
    own = certificate.read(settings)
    with (
        serve.address(settings) as address,
        open_database(settings, ephemeral=ephemeral, create=True) as (_, url),
    ):
        schema.check(url)
        local.declare_queues(settings, url)
        greet = partial(_greet, settings, ephemeral=ephemeral)
        serve.run(settings, address, url, own, greet, mount=console.mount)
    click.echo("skipmq: stopped", err=True)


def _greet(settings: Settings, *, ephemeral: bool) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = (
        settings.public_url
        or f"{settings.scheme}://{'localhost' if host == '127.0.0.1' else host}:{settings.port}"
    )
    if settings.database_url:
        place = "PostgreSQL of SKIPMQ_DATABASE_URL"
    elif ephemeral:
        place = "temporary embedded PostgreSQL"
    else:
        place = f"embedded PostgreSQL in {settings.data_dir or embedded.default_data_dir()}"
    workers = "1 worker" if settings.worker_count == 1 else f"{settings.worker_count} workers"
    click.echo(
        f"SkipMQ {skipmq.__version__} serves SQS at {url} ({place};"
        f" {workers}; ready in {monotonic() - skipmq.STARTED:.1f} s)."
        " Ctrl-C stops it.",
        err=True,
    )


@cli.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config_command(*, as_json: bool) -> None:
    """Show the effective settings and where each came from."""
    found = configuration()
    rows = [
        (name, _masked(name, getattr(found.settings, name)), source, config.about(name))
        for name, source in found.sources.items()
    ]
    if as_json:
        click.echo(json.dumps({n: {"value": v, "source": s} for n, v, s, _ in rows}, indent=2))
        return
    table = Table("setting", "value", "from", "meaning", box=None, pad_edge=False)
    for name, value, source, meaning in rows:
        table.add_row(f"SKIPMQ_{name.upper()}", escape(str(value)), source, escape(meaning))
    out.print(table)


def _masked(name: str, value: Any) -> Any:
    if name == "queues":
        return [queue.name for queue in value]
    if name == "master_key":
        return value and "***"
    if name in SECRETS and value:
        return address.shown(value)
    return value


cli.add_command(doctor.doctor)
cli.add_command(migrate.migrate)
for command in (
    *queue_send.COMMANDS,
    *queue_messages.COMMANDS,
    *queue_stats.COMMANDS,
    *queue_tasks.COMMANDS,
    *queue_tail.COMMANDS,
):
    queues.queue.add_command(command)
cli.add_command(queues.queue)
cli.add_command(top.top)
cli.add_command(audit.audit)
cli.add_command(keys.keys)
for command in grants.COMMANDS:
    cli.add_command(command)
for command in (
    *analytics_lake.COMMANDS,
    *analytics_reports.COMMANDS,
    *analytics_advise.COMMANDS,
):
    analytics.analytics.add_command(command)
cli.add_command(analytics.analytics)

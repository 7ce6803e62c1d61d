"""The command line."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import click
import psycopg
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import skipmq
from skipmq import config, embedded, errors, logs, serve
from skipmq.actions import ACTIONS
from skipmq.config import ConfigError, Configuration, Settings
from skipmq.embedded import EmbeddedError
from skipmq.node import Node
from skipmq.serve import ServeError, local_call
from skipmq.store import schema
from skipmq.store.schema import SchemaError

_SECRET = "database_url"  # noqa: S105 - the name of the setting that may hold a password.

out = Console(highlight=False)


def main() -> None:
    """Run the command line; what the user can mend is one line, never a traceback."""
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
    except (EmbeddedError, SchemaError, ServeError) as error:
        _fail(str(error))
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
        _fail(
            f"the database cannot be reached: {reason}. Check SKIPMQ_DATABASE_URL: `skipmq doctor`"
        )
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        _fail(f"the database refuses: {reason}. Check its role and schema: `skipmq doctor`")
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


def _settings(**overrides: Any) -> Configuration:
    context = click.get_current_context()
    return config.load(file=context.obj, overrides=overrides)


@contextmanager
def _database(settings: Settings, *, ephemeral: bool = False) -> Iterator[tuple[str, str]]:
    """Give the owner's URL and the nodes'; run the embedded server if none is named."""
    if settings.database_url:
        yield settings.database_url, settings.database_url
        return
    with ExitStack() as stack:
        if ephemeral:
            server = stack.enter_context(embedded.start_ephemeral())
        else:
            folder = Path(settings.data_dir) if settings.data_dir else embedded.default_data_dir()
            server = stack.enter_context(embedded.start(folder))
        schema.migrate(server.url)
        yield server.url, server.url.replace("postgresql://postgres@", "postgresql://skipmq_node@")


@contextmanager
def _node(settings: Settings) -> Iterator[Node]:
    with _database(settings) as (_, url):
        schema.check(url)
        node = Node(settings, url)
        try:
            yield node
        finally:
            node.close()


@cli.command("serve")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default 9324).")
@click.option("--workers", type=int, help="Worker processes (default: one a core, at most 4).")
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
    settings = _settings(
        host=host, port=port, workers=workers, data_dir=data_dir, auth="off" if insecure else None
    ).settings
    logs.configure(settings)
    if ephemeral and settings.database_url:
        raise click.UsageError(
            "--ephemeral is for the embedded database; unset SKIPMQ_DATABASE_URL"
        )
    with (
        serve.address(settings) as address,
        _database(settings, ephemeral=ephemeral) as (_, url),
    ):
        schema.check(url)
        serve.declare_queues(settings, url)
        serve.run(settings, address, url, lambda: _greet(settings, ephemeral=ephemeral))
    click.echo("skipmq: stopped", err=True)


def _greet(settings: Settings, *, ephemeral: bool) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = (
        settings.public_url
        or f"http://{'localhost' if host == '127.0.0.1' else host}:{settings.port}"
    )
    if settings.database_url:
        place = "PostgreSQL of SKIPMQ_DATABASE_URL"
    elif ephemeral:
        place = "embedded PostgreSQL, thrown away at the end"
    else:
        place = f"embedded PostgreSQL in {settings.data_dir or embedded.default_data_dir()}"
    click.echo(
        f"SkipMQ {skipmq.__version__} serves SQS at {url} ({place};"
        f" {settings.worker_count} workers; ready in {monotonic() - skipmq.STARTED:.1f} s)."
        " Ctrl-C stops it.",
        err=True,
    )


@cli.command()
def migrate() -> None:
    """Bring the database's schema to this release. Run it as the owner of the schema."""
    settings = _settings().settings
    with _database(settings) as (url, _):
        before = schema.inspect(url)
        with out.status("migrating"):
            state = schema.migrate(url, lambda revision: out.print(f"migrated to {revision}"))
        if before.is_current:
            out.print(f"the schema is at {state.found}: nothing to do")


@cli.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config_command(*, as_json: bool) -> None:
    """Show the effective settings and where each came from."""
    found = _settings()
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
    if name == _SECRET and value:
        parts = psycopg.conninfo.conninfo_to_dict(value)
        if "password" in parts:
            parts["password"] = "***"  # noqa: S105 - instead of it.
        return psycopg.conninfo.make_conninfo("", **parts)
    return value


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(*, as_json: bool) -> None:
    """Check settings, database, schema and port, and say what to do about each problem."""
    settings = _settings().settings
    findings: list[tuple[str, bool, str]] = [("settings", True, "valid")]

    def examine(name: str, look: Callable[[], str]) -> None:
        try:
            findings.append((name, True, look()))
        except (SchemaError, ServeError, EmbeddedError, psycopg.Error, errors.SqsError) as error:
            findings.append((name, False, " ".join(str(error).split())))

    def database() -> str:
        with _database(settings) as (_, url):
            version = schema.inspect(url).server_version
            examine("schema", lambda: f"at {schema.check(url).found}")
            examine("broker", lambda: _broker(settings, url))
            place = "SKIPMQ_DATABASE_URL" if settings.database_url else "embedded"
            return f"PostgreSQL {version // 10000}.{version % 10000} ({place})"

    examine("database", database)
    examine("port", lambda: _port(settings))
    if as_json:
        click.echo(
            json.dumps([{"check": n, "ok": ok, "detail": d} for n, ok, d in findings], indent=2)
        )
    else:
        table = Table("check", "", "detail", box=None, pad_edge=False)
        for name, ok, detail in findings:
            table.add_row(name, "[green]ok[/]" if ok else "[red]problem[/]", escape(detail))
        out.print(table)
    if not all(ok for _, ok, _ in findings):
        sys.exit(1)


def _broker(settings: Settings, url: str) -> str:
    node = Node(settings, url)
    try:
        count = len(ACTIONS["ListQueues"](node, local_call("ListQueues")) or {})
        return "the node's functions can be called" if count >= 0 else ""
    finally:
        node.close()


def _port(settings: Settings) -> str:
    with serve.address(settings):
        return f"{settings.host} port {settings.port} is free"


@cli.group()
def queue() -> None:
    """List, create, show, purge and delete queues."""


def _printing_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--json`, and print what it returns as JSON when it is used."""

    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> None:
        result, told = command(*args, **options)
        if as_json:
            click.echo(json.dumps(result, indent=2))
        else:
            out.print(told)

    return wrapped


def _act(action: str, **parameters: Any) -> dict[str, Any]:
    with _node(_settings().settings) as node:
        return dict(ACTIONS[action](node, local_call(action, **parameters)) or {})


def _queue_url(name: str) -> str:
    return f"http://localhost/{local_call('GetQueueUrl').identity.account}/{name}"


@queue.command("list")
@click.argument("prefix", default="")
@_printing_json
def queue_list(prefix: str) -> tuple[Any, Any]:
    """List the names of queues that begin with PREFIX."""
    urls = _act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
    names = [url.rsplit("/", 1)[1] for url in urls]
    return names, "\n".join(names) or "no queues yet: `skipmq queue create NAME`"


@queue.command("create")
@click.argument("name")
@click.option(
    "-a",
    "--attribute",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Such as DelaySeconds=5.",
)
@_printing_json
def queue_create(name: str, pairs: tuple[str, ...]) -> tuple[Any, Any]:
    """Create the queue NAME."""
    attributes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE", param_hint="-a")
        attributes[key] = value
    _act("CreateQueue", QueueName=name, Attributes=attributes)
    return {"queue": name}, f"queue {name} is there"


@queue.command("show")
@click.argument("name")
@_printing_json
def queue_show(name: str) -> tuple[Any, Any]:
    """Show the attributes and the counts of the queue NAME."""
    attributes = _act(
        "GetQueueAttributes", QueueUrl=_queue_url(name), AttributeNames=["All", "HistoryMode"]
    )["Attributes"]
    table = Table("attribute", "value", box=None, pad_edge=False)
    for key, value in attributes.items():
        table.add_row(key, escape(value))
    return attributes, table


@queue.command("purge")
@click.argument("name")
@click.confirmation_option("--yes", prompt="Delete all messages of the queue?")
@_printing_json
def queue_purge(name: str) -> tuple[Any, Any]:
    """Delete all messages of the queue NAME."""
    _act("PurgeQueue", QueueUrl=_queue_url(name))
    return {"purged": name}, f"queue {name} is empty"


@queue.command("delete")
@click.argument("name")
@click.confirmation_option("--yes", prompt="Delete the queue and all its messages?")
@_printing_json
def queue_delete(name: str) -> tuple[Any, Any]:
    """Delete the queue NAME and all its messages."""
    _act("DeleteQueue", QueueUrl=_queue_url(name))
    return {"deleted": name}, f"queue {name} is gone"

"""The `serve` command, and what it prints when the node is ready: for people, and for programs."""

import json
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from skipmq import release
from skipmq.cli.environment import configuration, node_url, open_server
from skipmq.config import Configuration
from skipmq.config.settings import Settings
from skipmq.database import embedded
from skipmq.server.processes import listening
from skipmq.telemetry.terminal import visible

if TYPE_CHECKING:
    from skipmq.server.processes.certificate import Certificate

# What tests want of a throw-away broker, unless a variable or the file says otherwise: no pauses,
# and a container's name for it as Host. No public name has one label, nor ends in .internal.
_EPHEMERAL: dict[str, Any] = {
    "purge_cooldown": 0.0,
    "name_cooldown": 0.0,
    "allowed_hosts": "* *.internal",
}
# Its log is mixed with the output of the tests.
_QUIET: dict[str, Any] = {"log_level": "warning", "log_format": "text"}
_STDIN = 0
# Where a program on this machine reaches a node that listens on all addresses.
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound.
_MAIN = "__main__.py"


@click.command("serve")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default 9324); 0: a free one.")
@click.option(
    "--workers",
    type=int,
    help="Worker processes (default: 1; with SKIPMQ_DATABASE_URL, one for each core).",
)
@click.option("--data-dir", help="Folder of the embedded PostgreSQL.")
@click.option("--ephemeral", is_flag=True, help="Use a temporary database, deleted at the end.")
@click.option(
    "--queues",
    metavar="FILE",
    help="Create the queues that FILE declares: TOML, or an elasticmq.conf.",
)
@click.option("--insecure", is_flag=True, help="Allow every caller, also from other machines.")
@click.option(
    "--json", "as_json", is_flag=True, help="When ready print a line of JSON on standard output."
)
@click.option(
    "--stop-on-eof",
    is_flag=True,
    help="Stop when standard input ends: when the program at the other end of the pipe exits.",
)
def serve_command(
    *,
    host: str | None,
    port: int | None,
    workers: int | None,
    data_dir: str | None,
    ephemeral: bool,
    queues: str | None,
    insecure: bool,
    as_json: bool,
    stop_on_eof: bool,
) -> None:
    """Run a node.

    Without SKIPMQ_DATABASE_URL it stores its messages in an embedded PostgreSQL, which starts and
    stops with it.
    """
    given = configuration(
        host=host,
        port=port,
        workers=workers,
        data_dir=data_dir,
        queues=queues,
        auth="off" if insecure else None,
    )
    settings = _for_tests(given, is_started_by_program=as_json) if ephemeral else given.settings
    if ephemeral and settings.database_url:
        raise click.UsageError(
            "--ephemeral is for the embedded database; unset SKIPMQ_DATABASE_URL"
        )
    parent = _held_by_parent() if stop_on_eof else None
    with ExitStack() as stack:
        address, port = stack.enter_context(listening.address(settings))
        settings = replace(settings, port=port)
        own = _certificate(settings)
        # Import in parallel with the start of PostgreSQL. The thread must end before signals are
        # blocked, because it would still receive them.
        with ThreadPoolExecutor(1) as background:
            importing = background.submit(_import_node, settings)
            owner = stack.enter_context(open_server(settings, ephemeral=ephemeral, create=True))
            importing.result()
        if given.differences:
            import_module("skipmq.cli.declared").report(given.differences)
        is_ready: Callable[[], None] = (
            partial(announce, settings, owner, ephemeral=ephemeral)
            if as_json
            else partial(greet, settings, owner, ephemeral=ephemeral, sources=given.sources)
        )
        # Faults are counted by one process, and what tests ask for is not signed.
        is_controlled = ephemeral and settings.worker_count == 1 and not settings.checks_signatures
        controls = owner if is_controlled else ""
        url = node_url(settings, owner, ephemeral=ephemeral)
        _serve(settings, address, own, url, is_ready, parent=parent, controls=controls)
    click.echo(visible("skipmq: stopped"), err=True)


def _for_tests(given: Configuration, *, is_started_by_program: bool) -> Settings:
    """Return the settings of a throw-away broker."""
    own = _EPHEMERAL | (_QUIET if is_started_by_program else {})
    free = {name: value for name, value in own.items() if given.sources[name] == "default"}
    return replace(given.settings, **free)


def _held_by_parent() -> int:
    """Return standard input where it ends with the program at its other end."""
    mode = os.fstat(_STDIN).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return _STDIN
    raise click.UsageError("--stop-on-eof needs a pipe as standard input")


def _import_node(settings: Settings) -> None:
    """Import the node's modules, which are slow to import, and configure logging."""
    logs = import_module("skipmq.telemetry.logs")
    logs.configure(settings.log_level, settings.log_format)
    for module in ("cli.declared", "server.processes.serve"):
        import_module(f"skipmq.{module}")


def _certificate(settings: Settings) -> "Certificate | None":
    # Do not import cryptography without need.
    if not (settings.tls_certificate or settings.tls_key or settings.tls_client_ca):
        return None
    from skipmq.server.processes import certificate  # noqa: PLC0415

    return certificate.read(settings)


def _serve(
    settings: Settings,
    address: str,
    own: "Certificate | None",
    url: str,
    is_ready: Callable[[], None],
    *,
    parent: int | None,
    controls: str,
) -> None:
    # _import_node has imported these.
    from skipmq import console  # noqa: PLC0415
    from skipmq.cli import declared  # noqa: PLC0415
    from skipmq.database import schema  # noqa: PLC0415
    from skipmq.server.processes import serve  # noqa: PLC0415

    schema.check_for_node(url, warns=True)
    declared.declare_queues(settings, url)
    serve.run(
        *(settings, address, url, own, is_ready),
        mount=console.mount,
        parent=parent,
        controls=controls,
    )


def announce(settings: Settings, owner: str, *, ephemeral: bool) -> None:
    """Print what a program that has started the node wants to know."""
    url = _url(settings, _LOCAL)
    found = {"url": url, "console": f"{url}/console/", "database_url": owner}
    if not (ephemeral or settings.database_url):
        found["data_dir"] = settings.data_dir or str(embedded.default_data_dir())
    found |= {"region": settings.region, "account": settings.account}
    sys.stdout.write(json.dumps({**found, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def greet(settings: Settings, owner: str, *, ephemeral: bool, sources: Mapping[str, str]) -> None:
    """Print where the node serves, and the commands that reach it.

    `owner` is the URL of the database's owner, `sources` where each setting is from.
    """
    url = _url(settings, {"127.0.0.1": "localhost"})
    if settings.database_url:
        place = "PostgreSQL of SKIPMQ_DATABASE_URL"
    elif ephemeral:
        place = "temporary embedded PostgreSQL"
    else:
        place = f"embedded PostgreSQL in {settings.data_dir or embedded.default_data_dir()}"
    workers = "1 worker" if settings.worker_count == 1 else f"{settings.worker_count} workers"
    variable = _variable(settings, owner, ephemeral=ephemeral, sources=sources)
    command = _command()
    click.echo(
        visible(
            f"SkipMQ {release.VERSION} serves SQS at {url} ({place};"
            f" {workers}; ready in {monotonic() - release.STARTED:.1f} s)."
            f" Ctrl-C stops it.\nConsole: {url}/console/  SQL: {variable}{command} psql"
            f"{'' if ephemeral or settings.database_url else f'  Database: {owner}'}"
            f"  Other commands: {command} --help"
        ),
        err=True,
    )


def _url(settings: Settings, named: dict[str, str]) -> str:
    """Return the node's URL, in which some addresses have another name."""
    host = named.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    return settings.public_url or f"{settings.scheme}://{host}:{settings.port}"


def _variable(
    settings: Settings, owner: str, *, ephemeral: bool, sources: Mapping[str, str]
) -> str:
    """Return what a shell sets for a command that would not find the node's database itself."""
    if ephemeral:
        return f"SKIPMQ_DATABASE_URL={shlex.quote(owner)} "
    if sources["data_dir"] == "command line" and not settings.database_url:
        return f"SKIPMQ_DATA_DIR={shlex.quote(settings.data_dir)} "
    return ""


def _command() -> str:
    """Return how a shell in this folder calls the program that runs, with its file of settings."""
    file = click.get_current_context().obj
    return _program() if file is None else f"{_program()} --config {shlex.quote(str(file))}"


def _program() -> str:
    """Return how a shell in this folder calls the program that runs."""
    script = Path(sys.argv[0])
    if script.name == _MAIN:
        script = Path(sys.executable).parent / "skipmq"
        if not script.exists():
            return f"{shlex.quote(sys.executable)} -m skipmq"
    found = shutil.which("skipmq")
    if found is not None and script.exists() and Path(found).samefile(script):
        return "skipmq"
    script, here = script.absolute(), Path.cwd()
    if script.is_relative_to(here):
        inside = str(script.relative_to(here))
        return shlex.quote(inside if "/" in inside else f"./{inside}")
    return shlex.quote(str(script))

"""What `serve` prints when the node is ready: for people, and for programs."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic

import click

from skipmq import release
from skipmq.config.settings import Settings
from skipmq.database import embedded
from skipmq.telemetry.terminal import visible

# Where a program on this machine reaches a node that listens on all addresses.
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound.
_MAIN = "__main__.py"


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

"""The `serve` command."""

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from skipmq.cli import ready
from skipmq.cli.environment import configuration, node_url, open_server
from skipmq.config import Configuration
from skipmq.config.settings import Settings
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
            partial(ready.announce, settings, owner, ephemeral=ephemeral)
            if as_json
            else partial(ready.greet, settings, owner, ephemeral=ephemeral, sources=given.sources)
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

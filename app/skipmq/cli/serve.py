"""The `serve` command."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING

import click

import skipmq
from skipmq import embedded
from skipmq.cli.environment import configuration, node_url, open_server
from skipmq.config.settings import Settings
from skipmq.processes import listening

if TYPE_CHECKING:
    from skipmq.processes.certificate import Certificate


@click.command("serve")
@click.option("--host", help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (default 9324).")
@click.option(
    "--workers",
    type=int,
    help="Worker processes (default: 1; with SKIPMQ_DATABASE_URL, one for each core).",
)
@click.option("--data-dir", help="Folder of the embedded PostgreSQL.")
@click.option("--ephemeral", is_flag=True, help="Use a temporary database, deleted at the end.")
@click.option("--insecure", is_flag=True, help="Allow every caller, also from other machines.")
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

    Without SKIPMQ_DATABASE_URL it stores its messages in an embedded PostgreSQL, which starts and
    stops with it.
    """
    settings = configuration(
        host=host, port=port, workers=workers, data_dir=data_dir, auth="off" if insecure else None
    ).settings
    if ephemeral and settings.database_url:
        raise click.UsageError(
            "--ephemeral is for the embedded database; unset SKIPMQ_DATABASE_URL"
        )
    with ExitStack() as stack:
        address = stack.enter_context(listening.address(settings))
        own = _certificate(settings)
        # Import in parallel with the start of PostgreSQL. The thread must end before signals are
        # blocked, because it would still receive them.
        with ThreadPoolExecutor(1) as background:
            importing = background.submit(_import_node, settings)
            owner = stack.enter_context(open_server(settings, ephemeral=ephemeral, create=True))
            importing.result()
        _serve(settings, address, own, owner, ephemeral=ephemeral)
    click.echo("skipmq: stopped", err=True)


def _import_node(settings: Settings) -> None:
    """Import the node's modules, which are slow to import, and configure logging."""
    import_module("skipmq.telemetry.logs").configure(settings)
    for module in ("cli.local", "processes.serve"):
        import_module(f"skipmq.{module}")


def _certificate(settings: Settings) -> "Certificate | None":
    # Do not import cryptography without need.
    if not (settings.tls_certificate or settings.tls_key or settings.tls_client_ca):
        return None
    from skipmq.processes import certificate  # noqa: PLC0415

    return certificate.read(settings)


def _serve(
    settings: Settings, address: str, own: "Certificate | None", owner: str, *, ephemeral: bool
) -> None:
    # _import_node has imported these.
    from skipmq import console  # noqa: PLC0415
    from skipmq.cli import local  # noqa: PLC0415
    from skipmq.database import schema  # noqa: PLC0415
    from skipmq.processes import serve  # noqa: PLC0415

    url = node_url(settings, owner)
    schema.check(url)
    local.declare_queues(settings, url)
    greet = partial(_greet, settings, ephemeral=ephemeral)
    serve.run(settings, address, url, own, greet, mount=console.mount)


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

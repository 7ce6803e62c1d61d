"""`make cluster`: a whole cluster on this machine until Ctrl-C."""

import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from rich.console import Console
from rich.live import Live

from local_cluster import ClusterError, LocalCluster, table
from local_cluster.layout import SECOND_SCOPE
from local_cluster.programs import ROOT

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_SECONDS = 1.0


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--nodes", type=click.IntRange(1, 5), default=3, show_default=True, help="Number of nodes."
)
@click.option(
    "--partitions",
    type=click.Choice(["1", "2", "4"]),
    default="1",
    show_default=True,
    help="Number of PostgreSQL clusters that queues are spread over; each node has a router then.",
)
@click.option(
    "--servers",
    type=click.IntRange(1, 5),
    help="Number of PostgreSQL servers, of each partition (default: 3, of a partition 2).",
)
@click.option(
    "--connect",
    type=click.Choice(["multi-host", "haproxy"]),
    default="multi-host",
    show_default=True,
    help="How nodes reach the primary: a URL that names all servers, or HAProxy.",
)
@click.option("--replica", is_flag=True, help="Add an asynchronous read replica, `reader`.")
@click.option("--second-site", is_flag=True, help="Add a site that follows this one, `site2`.")
@click.option("--tls", is_flag=True, help="Use TLS everywhere, with certificates made for it.")
@click.option("--free-ports", is_flag=True, help="Listen on free ports instead of 9324 and others.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / ".cluster",
    help="Where logs and addresses.json go (default: .cluster of the project).",
)
def main(
    *,
    nodes: int,
    partitions: str,
    servers: int | None,
    connect: Literal["multi-host", "haproxy"],
    replica: bool,
    second_site: bool,
    tls: bool,
    free_ports: bool,
    folder: Path,
) -> None:
    """Run PostgreSQL servers under Patroni and etcd, nodes in front, and HAProxy.

    Everything listens on 127.0.0.1, the balancer in front of the nodes on port 9324. While it runs,
    .cluster/addresses.json has the address of each part. Ctrl-C stops it and deletes its data.
    """
    for number in _INTERRUPTIONS:
        signal.signal(number, _interrupt)
    console = Console(highlight=False)
    begun = time.monotonic()

    def progress(text: str) -> None:
        status.update(text)
        console.print(f"{time.monotonic() - begun:5.1f} s  {text}")

    try:
        with ExitStack() as stack:
            with console.status("looking for the programs") as status:
                cluster = LocalCluster(
                    folder,
                    nodes=nodes,
                    partitions=int(partitions),
                    servers=servers or (3 if partitions == "1" else 2),
                    connect=connect,
                    fixed_ports=not free_ports,
                    reader=replica,
                    second_site=second_site,
                    tls=tls,
                    progress=progress,
                )
                stack.enter_context(cluster)
                stack.callback(click.echo, "cluster: stopping", err=True)
                progress("healthy")
            _greet(console, cluster, second_site=second_site)
            _watch(console, cluster)
    except ClusterError as error:
        click.echo(f"cluster: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        pass
    click.echo(f"cluster: stopped; the logs are in {folder / 'logs'}", err=True)


def _interrupt(*_: object) -> NoReturn:
    """Start the shutdown and ignore further signals: a closed terminal sends two at once."""
    for number in _INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _greet(console: Console, cluster: LocalCluster, *, second_site: bool) -> None:
    addresses = cluster.addresses()
    haproxy = addresses["haproxy"]
    command = shlex.join(cluster.patronictl_words())
    console.print(f"\nSQS           {addresses['endpoint']}")
    if cluster.layout.ca:
        console.print(f"CA            {cluster.layout.ca}", soft_wrap=True)
    if partitions := addresses["partitions"]:
        console.print(f"SQL, routers  {addresses['database_url']}", soft_wrap=True)
        for number, each in enumerate(partitions):
            console.print(f"partition {number}   {each['owner_url']}", soft_wrap=True)
            console.print(f"  to read it  {each['analytics_url']}", soft_wrap=True)
    else:
        console.print(f"SQL, owner    {addresses['owner_url']}", soft_wrap=True)
        console.print(f"SQL, reader   {addresses['analytics_url']}", soft_wrap=True)
        console.print(f"HAProxy       primary {haproxy['primary']}, standbys {haproxy['replica']}")
    console.print(f"addresses     {cluster.folder / 'addresses.json'}", soft_wrap=True)
    console.print(f"logs          {cluster.folder / 'logs'}", soft_wrap=True)
    scopes = " ".join(scope for scope in cluster.layout.scopes() if scope != SECOND_SCOPE)
    console.print(f"Patroni       {command} list {scopes}", soft_wrap=True)
    if second_site:
        command = shlex.join(cluster.patronictl_words("second"))
        words = f"edit-config {SECOND_SCOPE} --force --set standby_cluster=null"
        console.print(f"promote site2 {command} {words}", soft_wrap=True)
    console.print("Ctrl-C stops everything.\n")


def _watch(console: Console, cluster: LocalCluster) -> NoReturn:
    """Show the state, and update the file of addresses, until interrupted."""
    shown: table.Rows = []
    written: dict[str, Any] = {}
    with (
        _removed_at_the_end(cluster.folder / "addresses.json") as file,
        Live(console=console, auto_refresh=False) as live,
    ):
        while True:
            addresses = cluster.addresses()
            if addresses != written:
                _write(file, addresses)
                written = addresses
            found = table.rows(addresses, cluster.members(), cluster.ready())
            if found != shown:
                shown = found
                if console.is_terminal:
                    live.update(table.render(found), refresh=True)
                else:
                    console.print(table.render(found))
            time.sleep(_POLL_SECONDS)


@contextmanager
def _removed_at_the_end(file: Path) -> Iterator[Path]:
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


def _write(file: Path, addresses: dict[str, Any]) -> None:
    """Replace the file atomically, readable only by this account: it has passwords."""
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(addresses, indent=2) + "\n")
    fresh.replace(file)


if __name__ == "__main__":
    main()

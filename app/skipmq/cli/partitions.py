"""The commands `partitions …`: queues spread over several databases."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq.cli.output import err, json_option, out, print_json, printing_json
from skipmq.config import ConfigError
from skipmq.database import address, schema
from skipmq.database.router import check, partition_map, relocation, routers
from skipmq.database.router.rebalance import plan, record_places

_router = click.option(
    "--router",
    envvar="SKIPMQ_ROUTER_URL",
    required=True,
    metavar="URL",
    help="Database of the router, as a superuser; each router is made alike.",
)
_partition = click.option(
    "--partition",
    "urls",
    multiple=True,
    metavar="URL",
    help="Database of a partition, as the schema's owner; in order, once for each.",
)


@click.command("init")
@_router
@_partition
@click.option(
    "--node-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the password with which the router connects to partitions as skipmq_node.",
)
@printing_json
def partitions_init(
    router: str, urls: tuple[str, ...], node_password_file: Path | None
) -> tuple[Any, Any]:
    """Make databases partitions, and a database their router.

    Migrates each partition, gives it its number, and generates the router's functions. Run it again
    after an upgrade of SkipMQ, for each router, and to make a lost router again: what nodes have
    stored stays. Nodes then connect to a router: SKIPMQ_DATABASE_URL.
    """
    password = node_password_file.read_text(encoding="utf-8").strip() if node_password_file else ""
    try:
        for url in (router, *urls):
            address.parameters(url)
        for url in urls:
            routers.check_secrets(url)
    except address.AddressError as error:
        raise ConfigError([str(error)]) from error
    with err.status("making partitions"):
        whole = _map(urls)
        for number, url in enumerate(urls):
            schema.migrate(url)
            routers.assign(url, number, whole, urls[0])
        routers.install(router, urls, whole, password)
    made = {"router": address.shown(router), "partitions": [address.shown(url) for url in urls]}
    return made, f"{escape(address.shown(router))} routes to {len(urls)} partitions"


def _map(urls: tuple[str, ...]) -> partition_map.PartitionMap:
    """Return the map that the first partition has already, or a new one."""
    partition_map.new_map(len(urls))
    schema.migrate(urls[0])
    found = partition_map.find_map(urls[0])
    if found.map_id is None:
        return partition_map.new_map(len(urls), has_queues=partition_map.has_queues(urls[0]))
    if found.partitions != len(urls):
        raise partition_map.MapError(
            f"{address.shown(urls[0])} is one of {found.partitions} partitions and {len(urls)} are"
            " given: give all of them, in order"
        )
    return replace(found, partition=None)


@click.command("add")
@_router
@_partition
@printing_json
def partitions_add(router: str, urls: tuple[str, ...]) -> tuple[Any, Any]:
    """Add partitions, empty databases, to those of a router.

    New queues go there too; `rebalance` moves queues that exist. Run it for one router after the
    other, with the same partitions: nodes may use both meanwhile. A password of the owner comes
    from PGPASSWORD or PGPASSFILE.
    """
    if not urls:
        raise click.UsageError("give the new partitions: --partition URL")
    for url in urls:
        routers.check_secrets(url)
    present = _router_map(router)
    whole = partition_map.grown(present, len(urls))
    known, password = partition_map.owner_urls(router)
    every = [*known, *urls]
    with err.status("adding partitions"):
        for url in urls:
            schema.migrate(url)
        for number, url in enumerate(every):
            routers.assign(url, number, whole, every[0])
        routers.install(router, every, whole, password)
    added = {"router": address.shown(router), "partitions": len(every)}
    return added, f"{escape(address.shown(router))} routes to {len(every)} partitions"


@click.command("rebalance-plan")
@_router
@printing_json
def partitions_rebalance_plan(router: str) -> tuple[Any, Any]:
    """List the queues that `rebalance` would move, with their numbers of messages.

    A password of the partitions' owner comes from PGPASSWORD or PGPASSFILE.
    """
    whole = _router_map(router)
    moves = plan(partition_map.owner_urls(router)[0], whole)
    table = Table("Queues", "From", "To", "Messages", box=None, pad_edge=False)
    for move in moves:
        row = (move.source, move.target, move.messages)
        table.add_row(escape(_names(move)), *(str(number) for number in row))
    listed = [
        {
            "queues": [":".join(queue) for queue in move.queues],
            "from": move.source,
            "to": move.target,
            "messages": move.messages,
        }
        for move in moves
    ]
    return {"moves": listed}, table if moves else "each queue is where its name belongs"


@click.command("rebalance")
@_router
@click.option("--limit", type=click.IntRange(1), help="Groups of queues to move at most.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 600),
    default=10.0,
    show_default=True,
    help="Seconds to wait for transactions that were open when a queue's move began.",
)
@printing_json
def partitions_rebalance(router: str, limit: int | None, wait: float) -> tuple[Any, Any]:
    """Move queues with their messages to the partitions that their names choose.

    Requests for a queue wait while it is moved; messages, receipt handles and the order of groups
    are kept. An interrupted move is continued. Queues that cannot be moved stay, and are listed. A
    password of the partitions' owner comes from PGPASSWORD or PGPASSFILE.
    """
    whole = _router_map(router)
    urls = partition_map.owner_urls(router)[0]
    mover = relocation.Mover(urls, whole, wait)
    kept, moved = [], 0
    with mover.alone():
        mover.resume()
        record_places(urls, whole)
        with Progress(console=err, transient=True) as progress:
            for move in progress.track(plan(urls, whole)[:limit], description="moving"):
                try:
                    mover.move(move)
                    moved += len(move.queues)
                except relocation.BusyError as error:
                    kept.append({"queues": _names(move), "reason": str(error)})
    text = "\n".join(
        [f"moved {moved} queues", *(f"kept {each['queues']}: {each['reason']}" for each in kept)]
    )
    return {"moved": moved, "kept": kept}, escape(text)


def _router_map(router: str) -> partition_map.PartitionMap:
    whole = partition_map.find_map(router)
    if whole.partition is not None:
        raise partition_map.MapError(
            f"{address.shown(router)} is a partition: give a router's address"
        )
    return whole


def _names(move: relocation.Move) -> str:
    return ", ".join(name for _, _, name in move.queues)


@click.command("list")
@_router
@printing_json
def partitions_list(router: str) -> tuple[Any, Any]:
    """List the partitions of a router."""
    whole = partition_map.find_map(router)
    urls = partition_map.partition_urls(router)
    table = Table("Partition", "Database", box=None, pad_edge=False)
    for number, url in enumerate(urls):
        table.add_row(str(number), escape(_place(url)))
    listed = [{"partition": number, "database": _place(url)} for number, url in enumerate(urls)]
    return {"map": str(whole.map_id), "partitions": listed}, table


@click.command("doctor")
@_router
@_partition
@json_option
def partitions_doctor(router: str, urls: tuple[str, ...], *, as_json: bool) -> None:
    """Check a router and its partitions; exit with 1 where something is wrong.

    Partitions are checked as the schema's owner: at the addresses given, or at the router's own,
    with a password from PGPASSWORD or PGPASSFILE.
    """
    found = check.problems(router, list(urls) or None)
    if as_json:
        problems = [{"what": p.what, "remedy": p.remedy, "fatal": p.is_fatal} for p in found]
        print_json({"problems": problems})
    for problem in () if as_json else found:
        mark = "[red]error[/]" if problem.is_fatal else "[yellow]warning[/]"
        out.print(f"{mark}: {escape(problem.what)}: {escape(problem.remedy)}")
    if not found and not as_json:
        out.print("the router and its partitions fit")
    if found:
        sys.exit(1)


def _place(url: str) -> str:
    """Return hosts, each with its port, and database of a connection string."""
    given = address.parameters(url)
    hosts, ports = given.get("host", "localhost").split(","), given.get("port", "5432").split(",")
    # One port is that of all hosts.
    pairs = zip(hosts, ports if len(ports) > 1 else ports * len(hosts), strict=False)
    return ",".join(":".join(pair) for pair in pairs) + f"/{given.get('dbname', '')}"

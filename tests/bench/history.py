"""What exports and reports take, how it grows, what it costs a queue. `make bench-history`."""

import json
import time
from pathlib import Path
from typing import Any

import click
import psycopg
from rich.console import Console
from rich.table import Table

from bench import beside, chart, commands, databases, report
from bench.__main__ import RESULTS, about
from support.postgres import as_node

SIZES = (500_000, 1_600_000, 5_000_000)
_QUEUES, _DAYS, _BODY = 20, 3, 256
_SINCE = f"select current_date - {_DAYS + 1}"
# One in a thousand of a queue's rows of one day, for a report of what an erasure costs.
_FORGOTTEN = f"queue = 'queue-3' and id % {_QUEUES * 1000} = 3 and settled_at < current_date - 1"
# Rows that one transaction settles.
_SETTLED = 5_000
_GENERATE = f"""
insert into skipmq.history (settled_at, sent_at, first_received_at, xid, id, queue_id,
  receive_count, body_bytes, attribute_bytes, message_id, outcome, node, body)
select s.at, s.at - interval '9 s' * random(), s.at - interval '1 s' * random(),
  pg_current_xact_id()::text::bigint, n, q.ids[1 + n %% {_QUEUES}],
  1 + (random() < 0.02)::int, {_BODY}, 0, gen_random_uuid(), 'deleted', 'skipmq 1-' || n %% 4,
  case when n %% 2 = 0 then repeat(md5(n::text), {_BODY // 32}) end
from generate_series(%(first)s::bigint, %(last)s::bigint) n
cross join (select array(select queue_id from skipmq.queue order by length(name), name) as ids) q
cross join lateral (select clock_timestamp() - make_interval(secs => %(ago)s::float8) as at) s"""


def generate(url: str, rows: int) -> None:
    """Write a history of so many rows over three days, as many transactions would leave it."""
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(_QUEUES):
            connection.execute("select skipmq.create_queue(%s)", (f"queue-{number}",))
        for first in range(0, rows, _SETTLED):
            ago = _DAYS * 86_400 * (1 - first / rows)
            last = min(first + _SETTLED, rows) - 1
            connection.execute(_GENERATE, {"first": first, "last": last, "ago": ago})
        connection.execute("vacuum analyze skipmq.history")
        connection.execute("checkpoint")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", type=int, multiple=True, default=SIZES, help="Sizes, the biggest last.")
@click.option("--step", "chosen", multiple=True, help="Only these steps, as the table names them.")
@click.option("--next-to", "kinds", multiple=True, help="Only these next to the loaded queue.")
@click.option("--rounds", type=int, default=3, help="Rounds of the loaded queue; 0 for none.")
@click.option("--seconds", type=int, default=20, help="Seconds of each.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of files.")
def history(
    *,
    rows: tuple[int, ...],
    chosen: tuple[str, ...],
    kinds: tuple[str, ...],
    rounds: int,
    seconds: int,
    output: Path,
) -> None:
    """Measure exports and reports of histories of several sizes, and a queue beside them."""
    console = report.console()
    found: dict[str, Any] = about(quick=False)
    found["sizes"] = []
    with databases.workplace() as folder, databases.server(folder) as server:
        for size in rows:
            with databases.migrated(server) as url:
                found["sizes"].append(_size(url, folder / f"{size}", size, chosen, console))
                if size == rows[-1] and rounds:
                    since = databases.ask(url, _SINCE)
                    found["loaded"] = beside.loaded(
                        url, folder, since, kinds, rounds, seconds, console
                    )
    output.mkdir(parents=True, exist_ok=True)
    file = output / f"{found['date']}-{found['commit']}-history.json"
    file.write_text(json.dumps(found, indent=2) + "\n")
    chart.growth(found, file.with_suffix(".png"))
    _show(found, console)
    console.print(str(file))


def _size(
    url: str, folder: Path, rows: int, chosen: tuple[str, ...], console: Console
) -> dict[str, Any]:
    folder.mkdir()
    log, lake = folder / "log", str(folder / "lake")
    since, postmaster = databases.ask(url, _SINCE), databases.postmaster(url)
    out = str(folder / "report")
    began = time.monotonic()
    with console.status(f"{rows:,} rows: generate"):
        generate(url, rows)
    steps = {"generate": {"seconds": time.monotonic() - began}}
    size = "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
    of_table = int(databases.ask(url, f"{size} where inhparent = 'skipmq.history'::regclass"))
    steps_in_order = {
        "export": ("export", "--lake", lake),
        "export, nothing new": ("export", "--lake", lake),
        "report, lake": ("report", "--output", out, "--since", since, "--lake", lake),
        "report, lake, Spark": (
            *("report", "--output", out, "--since", since, "--lake", lake),
            *("--engine", "spark"),
        ),
        "report, database": ("report", "--output", out, "--since", since),
        "verify": ("verify", "--lake", lake),
        "verify, each row": ("verify", "--lake", lake, "--deep"),
        "forget": ("forget", "--lake", lake, "--yes", "--where", _FORGOTTEN),
    }
    files: list[Path] = []
    sizes: list[int] = []
    for name, command in steps_in_order.items():
        if chosen and name not in chosen:
            continue
        with console.status(f"{rows:,} rows: {name}"):
            # Only the owner erases.
            address = url if name == "forget" else as_node(url)
            steps[name] = commands.measured(address, log, postmaster, *command)
        console.print(f"{rows:,} rows: {name}", *(f"{n:,.1f} {k}" for k, n in steps[name].items()))
        if name == "export":
            files = list(Path(lake, "history").rglob("*.parquet"))
            sizes = [file.stat().st_size for file in files]
    return {
        "rows": rows,
        "table_mib": of_table / 2**20,
        "lake_mib": sum(sizes) / 2**20,
        "files": len(files),
        "steps": steps,
    }


def _show(found: dict[str, Any], console: Console) -> None:
    columns = ("seconds", "rows/s", "MiB", "processor s", "rows/processor s", "PostgreSQL s")
    table = Table("rows", "step", *columns, box=None)
    for size in found["sizes"]:
        for name, step in size["steps"].items():
            row = [f"{step['seconds']:.1f}", f"{size['rows'] / step['seconds']:,.0f}"]
            if "mib" in step:
                row += [f"{step['mib']:.0f}", f"{step['processor']:.1f}"]
                row += [f"{size['rows'] / step['processor']:,.0f}", f"{step['database']:.1f}"]
            table.add_row(f"{size['rows']:,}", name, *row)
    console.print(table)
    for size in found["sizes"]:
        console.print(
            f"{size['rows']:,} rows: {size['table_mib']:.0f} MiB in the database,"
            f" {size['lake_mib']:.0f} MiB in {size['files']} files of the lake,"
            f" {size['lake_mib'] * 2**20 / size['rows']:.1f} bytes a row"
        )
    for name, rate, ratio, later in beside.medians(found.get("loaded", {})):
        console.print(
            f"queue, {name}: {rate:,.0f} messages/s, {ratio:.2f} of alone, p99 {later:.2f} times"
        )


if __name__ == "__main__":
    history(prog_name="bench.history")

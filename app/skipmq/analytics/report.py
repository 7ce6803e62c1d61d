"""All reports on a time range: as Parquet, as CSV and as a page."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import csv, parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from skipmq.analytics import page
from skipmq.analytics.period import Period
from skipmq.analytics.reports.backlog import backlog, forecast
from skipmq.analytics.reports.comparison import comparison
from skipmq.analytics.reports.consumers import consumers
from skipmq.analytics.reports.dead_letters import dead_letter_causes
from skipmq.analytics.reports.groups import groups
from skipmq.analytics.reports.latency import latency, summary
from skipmq.analytics.reports.measures import is_outcome, moves, with_arrival, within
from skipmq.analytics.reports.redelivery import receive_counts, redelivery, visibility
from skipmq.analytics.reports.traffic import traffic

Compute: TypeAlias = Callable[[], DataFrame]

# What the reports measure, and what with_arrival wants: all that is kept in memory.
_MEASURED = [
    *("settled_at", "sent_at", "first_received_at", "id", "queue_id", "account", "region", "queue"),
    *("fifo", "receive_count", "body_bytes", "attribute_bytes", "outcome", "group_id", "node"),
]
# Dead letters that every task may have in memory.
_FEW = 1_000_000


@contextmanager
def reports(
    history: DataFrame, queues: DataFrame, period: Period
) -> Iterator[Mapping[str, Compute]]:
    """Give what computes each report, by its name, for as long as the block runs.

    `history` has what was settled since the beginning of the period before, with which this one is
    compared, and, where the source has them, messages that wait still (`settled_at` is null).
    `queues` has the key and the `visibility_timeout` of each queue. The source is read here, once
    and without bodies; those of the queues that have dead letters are read when their report is
    computed.
    """
    moved = moves(history).persist()
    few = moved.count() <= _FEW
    kept = (
        with_arrival(history.select(*_MEASURED), fn.broadcast(moved) if few else moved)
        .drop("id", "queue_id")
        .persist()
    )
    kept.count()
    waits = fn.col("settled_at").isNull()
    settled = kept.where(within("settled_at", period))
    present = kept.where(
        (fn.col("sent_at") < fn.lit(period.until))
        & (waits | (fn.col("settled_at") >= fn.lit(period.since)))
    )
    hours = kept.where(waits | within("settled_at", period))
    # Small, and the forecast wants it too.
    backlogs = backlog(present, period, arrived=True).persist()
    try:
        yield {
            "comparison": partial(comparison, kept, period, arrived=True),
            "summary": partial(summary, settled, arrived=True),
            "latency": partial(latency, settled, step=period.bar, arrived=True),
            "traffic": partial(traffic, hours, step=period.bar, arrived=True),
            "redelivery": partial(redelivery, settled, arrived=True),
            "receive_counts": partial(receive_counts, settled, arrived=True),
            "visibility": partial(visibility, settled, queues, arrived=True),
            "dead_letters": lambda: dead_letter_causes(_suspect(history, settled, period)),
            "groups": partial(groups, settled),
            "backlog": lambda: backlogs,
            "forecast": partial(forecast, backlogs),
            "consumers": partial(consumers, settled, step=period.bar),
        }
    finally:
        for frame in (backlogs, kept, moved):
            frame.unpersist()


def _suspect(history: DataFrame, settled: DataFrame, period: Period) -> DataFrame:
    """Return what was settled in queues that have dead letters, with its bodies."""
    found = settled.where(is_outcome("dead-lettered")).select("queue").distinct().collect()
    names = [row["queue"] for row in found]
    return history.where(fn.col("queue").isin(names) & within("settled_at", period))


def write(computed: Mapping[str, Compute], output: Path) -> Iterator[tuple[str, list[Any]]]:
    """Compute each report and write it to the folder; give its name and rows when that is done."""
    output.mkdir(parents=True, exist_ok=True)
    for name, compute in computed.items():
        table: pa.Table = compute().toArrow()
        parquet.write_table(table, output / f"{name}.parquet")
        csv.write_csv(table, output / f"{name}.csv")
        yield name, table.to_pylist()


def write_page(facts: page.Facts, output: Path) -> Path:
    """Write the page to the folder; return where it is."""
    file = output / "report.html"
    file.write_text(page.render(facts), encoding="utf-8")
    return file

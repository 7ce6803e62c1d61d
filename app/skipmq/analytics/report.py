"""All reports on a period, as Parquet, CSV and an HTML page."""

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

# The columns that the reports and with_arrival use; only these are cached.
_CACHED_COLUMNS = [
    *("settled_at", "sent_at", "first_received_at", "id", "queue_id", "account", "region", "queue"),
    *("fifo", "receive_count", "body_bytes", "attribute_bytes", "outcome", "group_id", "node"),
]
# The limit on dead letters for a broadcast join.
_BROADCAST_ROWS = 1_000_000


@contextmanager
def reports(
    history: DataFrame, queues: DataFrame, period: Period
) -> Iterator[Mapping[str, Compute]]:
    """Yield the functions that compute the reports, by name, callable during the block.

    `history` has the messages settled since the beginning of the previous period, for comparison,
    and those not yet settled (`settled_at` is null) if the source has them. `queues` has the key
    and the `visibility_timeout` of each queue. The source is read once here, without bodies; the
    bodies of queues with dead letters are read when that report is computed.
    """
    moved = moves(history).persist()
    is_small = moved.count() <= _BROADCAST_ROWS
    cached = (
        with_arrival(history.select(*_CACHED_COLUMNS), fn.broadcast(moved) if is_small else moved)
        .drop("id", "queue_id")
        .persist()
    )
    cached.count()
    is_live = fn.col("settled_at").isNull()
    settled = cached.where(within("settled_at", period))
    present = cached.where(
        (fn.col("sent_at") < fn.lit(period.until))
        & (is_live | (fn.col("settled_at") >= fn.lit(period.since)))
    )
    active = cached.where(is_live | within("settled_at", period))
    # Also the input of the forecast.
    backlogs = backlog(present, period, arrived=True).persist()
    try:
        yield {
            "comparison": partial(comparison, cached, period, arrived=True),
            "summary": partial(summary, settled, arrived=True),
            "latency": partial(latency, settled, step=period.bar, arrived=True),
            "traffic": partial(traffic, active, step=period.bar, arrived=True),
            "redelivery": partial(redelivery, settled, arrived=True),
            "receive_counts": partial(receive_counts, settled, arrived=True),
            "visibility": partial(visibility, settled, queues, arrived=True),
            "dead_letters": lambda: dead_letter_causes(
                _with_dead_letters(history, settled, period)
            ),
            "groups": partial(groups, settled),
            "backlog": lambda: backlogs,
            "forecast": partial(forecast, backlogs),
            "consumers": partial(consumers, settled, step=period.bar),
        }
    finally:
        for frame in (backlogs, cached, moved):
            frame.unpersist()


def _with_dead_letters(history: DataFrame, settled: DataFrame, period: Period) -> DataFrame:
    """Return the messages, with bodies, settled in queues that have dead letters."""
    rows = settled.where(is_outcome("dead-lettered")).select("queue").distinct().collect()
    names = [row["queue"] for row in rows]
    return history.where(fn.col("queue").isin(names) & within("settled_at", period))


def write(computed: Mapping[str, Compute], output: Path) -> Iterator[tuple[str, list[Any]]]:
    """Compute each report and write it to the folder; yield its name and rows."""
    output.mkdir(parents=True, exist_ok=True)
    for name, compute in computed.items():
        table: pa.Table = compute().toArrow()
        parquet.write_table(table, output / f"{name}.parquet")
        csv.write_csv(table, output / f"{name}.csv")
        yield name, table.to_pylist()


def write_page(data: page.ReportData, output: Path) -> Path:
    """Write the page to the folder; return its path."""
    file = output / "report.html"
    file.write_text(page.render(data), encoding="utf-8")
    return file

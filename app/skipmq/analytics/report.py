"""All reports on a time range: as Parquet, as CSV and as a page."""

from collections.abc import Callable, Iterator, Mapping
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
from skipmq.analytics.reports.consumers import consumers
from skipmq.analytics.reports.dead_letters import dead_letter_causes
from skipmq.analytics.reports.groups import groups
from skipmq.analytics.reports.latency import latency, summary
from skipmq.analytics.reports.redelivery import receive_counts, redelivery, visibility
from skipmq.analytics.reports.traffic import traffic

Compute: TypeAlias = Callable[[], DataFrame]


def reports(history: DataFrame, queues: DataFrame, period: Period) -> Mapping[str, Compute]:
    """Return what computes each report, by its name.

    `history` has what was settled since the beginning of the period, and with it, where the
    source has them, messages that wait still (`settled_at` is null). `queues` has the key and the
    `visibility_timeout` of each queue.
    """
    settled = history.where(
        (fn.col("settled_at") >= fn.lit(period.since))
        & (fn.col("settled_at") < fn.lit(period.until))
    )
    present = history.where(fn.col("sent_at") < fn.lit(period.until))
    hours = history.where(
        (fn.col("settled_at") < fn.lit(period.until)) | fn.col("settled_at").isNull()
    )
    # Small, and the forecast wants it too.
    backlogs = backlog(present, period).persist()
    return {
        "summary": partial(summary, settled),
        "latency": partial(latency, settled),
        "traffic": partial(traffic, hours),
        "redelivery": partial(redelivery, settled),
        "receive_counts": partial(receive_counts, settled),
        "visibility": partial(visibility, settled, queues),
        "dead_letters": partial(dead_letter_causes, settled),
        "groups": partial(groups, settled),
        "backlog": lambda: backlogs,
        "forecast": partial(forecast, backlogs),
        "consumers": partial(consumers, settled),
    }


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

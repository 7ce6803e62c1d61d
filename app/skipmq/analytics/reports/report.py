"""All reports on a period, as Parquet, CSV and an HTML page."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import compute as columns
from pyarrow import csv, parquet

from skipmq.analytics.reports import backlog_parameters, comparison_parameters, micros, page
from skipmq.analytics.reports.engines import Engine, Parameter, Relation
from skipmq.analytics.reports.period import Period

Compute: TypeAlias = Callable[[], pa.Table]
_FORMULA = r"^[=+@\t\r-]"


@contextmanager
def reports(
    engine: Engine[Relation], history: Relation, queues: Relation, period: Period
) -> Iterator[Mapping[str, Compute]]:
    """Yield the functions that compute the reports, by name, callable during the block.

    `history` has the messages settled since the beginning of the previous period, for comparison,
    and those not yet settled (`settled_at` is null) if the source has them. `queues` has the key
    and the `visibility_timeout` of each queue. The source is read once here, without bodies; the
    bodies of queues with dead letters are read when that report is computed.
    """
    within: Mapping[str, Parameter] = {"since": period.since, "until": period.until}
    bar: Mapping[str, Parameter] = {"step": micros(period.bar)}
    with ExitStack() as stack:

        def query(name: str, parameters: Mapping[str, Parameter], **tables: Relation) -> Relation:
            return engine.query(name, tables, parameters)

        def kept(relation: Relation) -> Relation:
            return stack.enter_context(engine.kept(relation))

        moves = kept(query("moves", {}, history=history))
        message = kept(query("message", {}, history=history, moves=moves))
        settled = query("settled", within, message=message)
        active = query("active", within, message=message)

        @cache
        def summary() -> Relation:
            return kept(query("summary", {}, settled=settled))

        @cache
        def backlog() -> Relation:
            return kept(query("backlog", backlog_parameters(period), message=message))

        def dead_letters() -> Relation:
            rows = engine.rows(summary()).to_pylist()
            names = sorted({row["queue"] for row in rows if row["dead_lettered"]})
            bodies = engine.filtered(history, names)
            return query("dead_letters", {}, history=query("settled", within, message=bodies))

        queries: Mapping[str, Callable[[], Relation]] = {
            "comparison": lambda: query(
                "comparison", comparison_parameters(period), message=message
            ),
            "summary": summary,
            "latency": lambda: query("latency", bar, settled=settled),
            "traffic": lambda: query("traffic", bar, active=active),
            "redelivery": lambda: query("redelivery", {}, settled=settled),
            "receive_counts": lambda: query("receive_counts", {}, settled=settled),
            "visibility": lambda: query("visibility", {}, settled=settled, queues=queues),
            "dead_letters": dead_letters,
            "groups": lambda: query("groups", {}, settled=settled),
            "backlog": backlog,
            "forecast": lambda: query("forecast", {}, backlog=backlog()),
            "consumers": lambda: query("consumers", bar, settled=settled),
        }
        yield {name: _computed(engine, make) for name, make in queries.items()}


def _computed(engine: Engine[Relation], make: Callable[[], Relation]) -> Compute:
    return lambda: engine.rows(make())


def write(computed: Mapping[str, Compute], output: Path) -> Iterator[tuple[str, list[Any]]]:
    """Compute each report and write it to the folder; yield its name and rows."""
    output.mkdir(parents=True, exist_ok=True)
    for name, compute in computed.items():
        table = compute()
        parquet.write_table(table, output / f"{name}.parquet")
        csv.write_csv(_without_formulas(table), output / f"{name}.csv")
        yield name, table.to_pylist()


def _without_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before texts that a spreadsheet would compute: names come from senders."""
    for index, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = table[column.name]
            quoted = columns.binary_join_element_wise("'", texts, "")
            is_formula = columns.match_substring_regex(texts, _FORMULA)
            table = table.set_column(index, column, columns.if_else(is_formula, quoted, texts))
    return table


def write_page(data: page.ReportData, output: Path) -> Path:
    """Write the page to the folder; return its path."""
    file = output / "report.html"
    file.write_text(page.render(data), encoding="utf-8")
    return file

"""The reports together: files, findings and the page."""

import csv
import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import duckdb
import pyarrow as pa
from pyarrow import parquet

from skipmq.analytics.reports import page, report
from skipmq.analytics.reports.engines.duckdb import DuckEngine
from skipmq.analytics.reports.page.findings import Finding, findings, folded
from skipmq.analytics.reports.page.numbers import count, duration
from skipmq.analytics.reports.period import Period
from support import busy_day
from support.settled import NOON

DAY = Period(NOON - timedelta(hours=12), NOON + timedelta(hours=12))


@contextmanager
def reports(history: pa.Table) -> Iterator[Mapping[str, report.Compute]]:
    """Give the reports on the day by DuckDB, which needs no JVM, also on messages that wait."""
    with duckdb.connect() as connection:
        engine = DuckEngine(connection)
        connection.register("history", history)
        with report.reports(engine, "history", engine.queues(busy_day.queues()), DAY) as computed:
            yield computed


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, page.ReportData]:
    """Give the folder of a report on the busy day, and what it was made of."""
    folder = tmp_path_factory.mktemp("report")
    with reports(busy_day.history()) as computed:
        tables = dict(report.write(computed, folder))
    facts = page.ReportData("a busy day", DAY, tables, live=True)
    report.write_page(facts, folder)
    return folder, facts


def said(facts: page.ReportData, queue: str) -> list[tuple[str, str]]:
    return [(f.weight, f.text) for f in page.report_findings(facts) if f.queue == queue]


def test_report_says_in_words_what_is_wrong(written: tuple[Path, page.ReportData]) -> None:
    _, facts = written

    orders = said(facts, "orders")

    assert orders[0][0] == "bad"
    assert re.fullmatch(
        r"\d\.\d % redelivered, p99 processing \d\d s exceeds its visibility timeout of 30 s:"
        r" raise it to (45|60) s",
        orders[0][1],
    )
    assert "“object<order: number, price: null>” is always dead-lettered" in orders[1][1]
    assert any("tenant “tenant-0” has" in text for _, text in said(facts, "mails"))
    assert any("with a visibility timeout of 15 min" in text for _, text in said(facts, "mails"))
    assert any("hot group “account-7” has" in text for _, text in said(facts, "payments.fifo"))
    assert any("waiting, the oldest for" in text for _, text in said(facts, "thumbnails"))
    weights = [f.weight for f in page.report_findings(facts)]
    assert weights == sorted(weights, key=["bad", "watch", "good"].index)


def found_in(*, live: bool = True, **tables: list[dict[str, Any]]) -> list[Finding]:
    """Return the findings of a report that has only these rows."""
    names = ("backlog", "dead_letters", "forecast", "groups", "latency", "redelivery", "summary")
    return findings(
        {**dict.fromkeys((*names, "traffic", "visibility"), ()), **tables}, DAY, live=live
    )


def forecast(name: str, waiting: int, came: float, went: float) -> dict[str, Any]:
    gained = went - came
    return {
        "name": name, "waiting": waiting, "oldest_age_seconds": 600.0, "recent_seconds": 600.0,
        "in_per_second": came, "out_per_second": went,
        "drains_in_seconds": waiting / gained if gained > 0 else None,
    }  # fmt: skip


def test_queue_grows_only_when_more_comes_than_goes() -> None:
    rows = [
        forecast("idle", 500, 0, 0),
        forecast("steady", 5_000, 2, 2 - 1 / 600),
        forecast("growing", 5_000, 2, 1),
        forecast("draining", 5_000, 1, 2),
    ]

    found = {f.queue: (f.weight, f.text) for f in found_in(forecast=rows)}

    waits = "waiting, the oldest for 10 min"
    assert found == {
        "idle": ("watch", f"500 {waits}; no activity"),
        "steady": ("watch", f"5,000 {waits}; the backlog is steady"),
        "growing": ("bad", f"5,000 {waits}; it grows by 1 a second, with 1 a second received"),
        "draining": ("watch", f"5,000 {waits}; empty in 83 min at the present rates"),
    }


def deleted(count: int) -> dict[str, Any]:
    return {
        "name": "orders", "settled": count, "deleted": count, "expired": 0, "dead_lettered": 0,
        "send_to_delete_p50": 1.0, "send_to_delete_p99": 2.0,
    }  # fmt: skip


def step(minute: int, waiting: int, oldest: float) -> dict[str, Any]:
    return {
        "name": "orders", "at": NOON + timedelta(minutes=minute), "seconds": 60.0, "came": 60,
        "went": 60, "waiting": waiting, "oldest_age_seconds": oldest, "late": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("live", "weight"), [(True, "good"), (False, "unknown")])
def test_queue_is_good_only_where_that_can_be_known(live: bool, weight: str) -> None:
    rows = [step(n, 1, 59.9) for n in range(1, 11)]

    (found,) = found_in(summary=[deleted(600)], backlog=rows, live=live)

    assert found.weight == weight
    assert (found.since, found.until) == (DAY.since, DAY.until)
    assert ("hardly one waited longer than 1 min" in found.text) is live
    assert found.values["deleted"] == 600


def test_many_findings_are_in_the_order_of_what_they_cost_and_the_last_is_for_the_rest() -> None:
    rows = [forecast(f"q{n}", 1_000 + n, 2, 1) for n in range(300)]

    found = folded(found_in(forecast=rows))

    assert [f.queue for f in found[:3]] == ["q299", "q298", "q297"]
    assert len(found) == 21
    assert (found[-1].queue, found[-1].weight) == ("280 more", "bad")
    assert found[-1].text.startswith("319,060 messages affected, see the tables: q279, q278,")


def test_texts_that_a_spreadsheet_would_compute_are_quoted_in_csv(tmp_path: Path) -> None:
    texts = ["=1+1", "-2", "@sum", "plain", None]
    table = pa.table({"group_id": texts, "messages": [-1, 2, 3, 4, 5]})

    list(report.write({"groups": lambda: table}, tmp_path))

    with (tmp_path / "groups.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["group_id"] for row in rows] == ["'=1+1", "'-2", "'@sum", "plain", ""]
    assert rows[0]["messages"] == "-1"
    assert parquet.read_table(tmp_path / "groups.parquet") == table


def test_report_writes_each_table_as_parquet_and_csv(written: tuple[Path, page.ReportData]) -> None:
    folder, facts = written

    for name, rows in facts.tables.items():
        assert parquet.read_table(folder / f"{name}.parquet").num_rows == len(rows) > 0
        with (folder / f"{name}.csv").open(newline="") as file:
            assert next(csv.DictReader(file))["queue"] == rows[0]["queue"]


def embedded(text: str, name: str) -> Any:
    """Return the content of one of the page's scripts of data."""
    (found,) = re.findall(f'<script type="application/json" id="{name}">(.*?)</script>', text)
    return json.loads(found)


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(b64decode(text)))


def test_page_stands_alone(written: tuple[Path, page.ReportData]) -> None:
    text = (written[0] / "report.html").read_text(encoding="utf-8")
    charts = unpacked(embedded(text, "charts"))

    assert len(charts) == 7
    # Colours are the page's, which differ in the light and in the dark.
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb", json.dumps(charts))
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//[^\"]+\"|@import|url\(http", text)
    assert "prefers-color-scheme: dark" in text
    sections = ("latency", "traffic", "redelivery", "dead-letters", "groups", "backlog")
    for section in ("comparison", *sections, "consumers"):
        assert f'<section id="{section}">' in text
        assert f'href="#{section}"' in text


def test_page_allows_no_script_but_its_own(written: tuple[Path, page.ReportData]) -> None:
    text = (written[0] / "report.html").read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    library = unpacked(embedded(text, "library"))
    allowed = re.findall(r"script-src ([^;]+)", text)[0].split()

    digests = [b64encode(sha256(each.encode()).digest()).decode() for each in (script, library)]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]


def test_charts_have_the_numbers_of_the_reports(written: tuple[Path, page.ReportData]) -> None:
    folder, facts = written
    text = (folder / "report.html").read_text(encoding="utf-8")
    parts = {name: unpacked(packed) for name, packed in embedded(text, "packed")}

    def texts(queue: str, chart: str) -> set[str]:
        return {row.get("text", "") for panel in parts[queue][chart] for row in panel["rows"]}

    # Queues with bad findings are first, though mails are more.
    assert list(parts)[:3] == ["orders", "thumbnails", "mails"]
    for row in (row for row in facts.tables["latency"] if row["queue"] == "orders"):
        values = [f"{q} {duration(row[f'send_to_delete_{q}'])}" for q in ("p50", "p95", "p99")]
        assert any(text.split("\n")[1:] == values for text in texts("orders", "latency-plots"))
    for row in (row for row in facts.tables["backlog"] if row["queue"] == "thumbnails"):
        figures = f"{count(row['waiting'])} waiting, {count(row['unsettled'])} not settled"
        said = f"{row['at']:%H:%M}\n{figures}\n"
        assert any(said in text for text in texts("thumbnails", "waiting-plots"))


def test_page_of_nothing_says_so() -> None:
    with reports(busy_day.history().slice(0, 0)) as computed:
        tables: dict[str, list[Any]] = {name: [] for name in computed}

    text = page.render(page.ReportData("an empty database", DAY, tables, live=True))

    assert "No message was settled in this period" in text
    assert "No message was dead-lettered." in text
    assert 'data-chart="' not in text


def test_page_shows_names_as_they_are_and_never_as_markup(
    written: tuple[Path, page.ReportData],
) -> None:
    _, facts = written
    evil = "<script>alert(1)</script>"
    tables = {
        name: [{**row, "queue": evil, "cause": evil} if "cause" in row else {**row, "queue": evil}
               for row in rows]
        for name, rows in facts.tables.items()
    }  # fmt: skip

    text = page.render(page.ReportData(evil, DAY, tables, live=False))

    assert evil not in text
    assert "&lt;script&gt;" in text


def compared(written: tuple[Path, page.ReportData], **changes: Any) -> str:
    """Return what the page says of the comparison."""
    text = page.render(replace(written[1], **changes))
    section = text.partition('<section id="comparison">')[2].partition("</section>")[0]
    return unescape(re.sub(r"<[^>]+>", " ", section))


@pytest.mark.parametrize(
    ("history_since", "uncompared", "words"),
    [
        (
            None,
            "",
            "no message arrived or was settled from 2026-11-19 00:00 to 2026-11-20 00:00 UTC",
        ),
        (DAY.since, "", "the history begins at 2026-11-20 00:00 UTC"),
        (DAY.since, "It was not read.", "It was not read."),
    ],
)
def test_page_says_why_there_is_nothing_to_compare_with(
    written: tuple[Path, page.ReportData],
    history_since: datetime | None,
    uncompared: str,
    words: str,
) -> None:
    said = compared(written, history_since=history_since, uncompared=uncompared)

    assert words in said
    assert not re.search(r"\u25b2|\u25bc|before \u2013|before \d+ ", said)


def test_page_compares_with_the_day_before(written: tuple[Path, page.ReportData]) -> None:
    before = {
        "arrived": 500, "deleted": 4_000, "dead_lettered": 0, "send_to_delete_p95": 1e4,
        "redelivery_rate": None,
    }  # fmt: skip
    rows = [
        row | {f"{name}_before": value for name, value in before.items()}
        for row in written[1].tables["comparison"]
        if row["queue"] == "orders"
    ]

    said = " ".join(compared(written, tables=written[1].tables | {"comparison": rows}).split())

    assert re.search(r"2,000 before 500 \u25b2 4 times", said)
    assert re.search(r"1,\d{3} before 4,000 \u25bc 5\d % fewer", said)
    assert re.search(r"before 2.8 h \u25bc more than 99 % shorter", said)
    assert re.search(r"before 0 \u25b2 from none", said)
    assert re.search(r"\d % before \u2013 comparison.csv", said)

"""Each report by both engines: DuckDB computes what Spark does."""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import pyarrow as pa
from sqlglot.errors import UnsupportedError

from skipmq.analytics import delta, frames, queue_settings
from skipmq.analytics.reports import definition, latency, message, report
from skipmq.analytics.reports.engines import SparkEngine, duckdb
from skipmq.analytics.reports.period import LONGEST_LIFE, Period
from support import lakes
from support.settled import NOON, at_noon, frame, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUES = ("orders", "mails", "payments.fifo")
BODIES = (
    None, "no JSON", "", "null", "3", '"text"', "[]", "{}", "[{}]", '{"a": {}}', "[1, 2.5]",
    '[1, "x"]', '[1, {"a": 2}]', '[[1], ["x"]]', '[{"a": 1}, {"b": "x"}]', "[null, 1]",
    '[{"a": 1}, {"a": "x", "c": null}]', '{"b": 1, "a": [true, false]}',
    '{"a b": 1, "ü": "é", "1a": 0}', '{"_1": 0, "a`b": null, "": ""}',
    '{"a": 1, "b": [], "a": "x"}', ' {"a": {"b": [[]]}} ',
    '{"n": 123456789012345678901234567890, "d": -0.5e3}', "[1,]", "NaN",
)  # fmt: skip
ATTRIBUTES = (
    None, "{}", "nonsense", '{"source": {"DataType": "String", "StringValue": "web"}}',
    '{"key": {"DataType": "Binary", "BinaryValue": "AAEC"}, "n": {"DataType": "Number",'
    ' "StringValue": "7"}}',
)  # fmt: skip
PERIOD = Period(NOON, NOON + timedelta(hours=3))


def rows(count: int) -> Iterator[dict[str, Any]]:
    """Give rows of all outcomes; every third dead letter was settled in its queue, too."""
    known = random.Random(7)  # noqa: S311 - no secret: the same in each run.
    for number in range(count):
        sent = known.uniform(-10_000, 10_000)
        received = sent + known.choice((0.25, known.expovariate(1)))
        outcome = known.choices(
            ("deleted", "expired", "purged", "dead-lettered", "redriven"), (80, 4, 2, 12, 2)
        )[0]
        settled = received + known.expovariate(0.1)
        made = row(
            number, sent=sent, settled=settled, outcome=outcome, queue=known.choice(QUEUES),
            received=None if outcome in {"expired", "purged"} else received,
            body=known.choice(BODIES), attributes=known.choice(ATTRIBUTES),
            group_id=known.choice((None, *(f"group {n}" for n in range(30)))),
            sender=known.choice((None, "a", "b")), node=known.choice((None, "one", "it's two")),
        )  # fmt: skip
        if outcome != "expired":
            made["receive_count"] = known.choice((1, 1, 1, 2, 3, 14))
        yield made
        if outcome == "dead-lettered" and number % 3 == 0:
            later = at_noon(settled + known.uniform(0, 3_000))
            there = {"queue": "dead", "queue_id": 2, "fifo": False, "outcome": "deleted"}
            yield made | there | {"settled_at": later}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the path of a lake, the files of which are as an export leaves them."""
    place = tmp_path_factory.mktemp("lake of ü")
    return lakes.write(place, rows(1_500), dict.fromkeys(QUEUES, 10))


def by_duckdb(lake: str) -> Mapping[str, pa.Table]:
    url = delta.url_of(lake)
    with duckdb.opened() as engine:
        history = engine.history(delta.open_(url), PERIOD.before.since, as_of=PERIOD.until)
        queues = engine.queues(queue_settings.from_lake(url))
        with report.reports(engine, history, queues, PERIOD) as computed:
            return {name: compute() for name, compute in computed.items()}


def by_spark(spark: "SparkSession", lake: str) -> Mapping[str, pa.Table]:
    history = frames.lake(spark, lake, since=PERIOD.before.since, as_of=PERIOD.until)
    found = queue_settings.from_lake(delta.url_of(lake)).select(queue_settings.TIMEOUTS)
    queues = spark.createDataFrame(found)
    with report.reports(SparkEngine(), history, queues, PERIOD) as computed:
        return {name: compute() for name, compute in computed.items()}


def alike(one: Any, other: Any) -> bool:
    """Compare values; sums of fractions may have been added in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    return bool(one == other)


def test_every_report_has_the_rows_that_spark_gives(spark: "SparkSession", lake: str) -> None:
    ducks = by_duckdb(lake)
    sparks = by_spark(spark, lake)

    assert list(ducks) == list(sparks)
    for name, expected in sparks.items():
        assert ducks[name].schema.types == expected.schema.types, name
        assert ducks[name].num_rows == expected.num_rows > 0, name
        for ours, theirs in zip(ducks[name].to_pylist(), expected.to_pylist(), strict=True):
            assert {k: v for k, v in ours.items() if not alike(v, theirs[k])} == {}, (name, theirs)
    shapes = {r["cause"] for r in ducks["dead_letters"].to_pylist() if r["kind"] == "body shape"}
    assert {"object<a: array<boolean>, b: number>", "array<mixed>", "not JSON"} <= shapes


def test_report_on_a_past_time_reads_no_file_of_what_came_later(tmp_path: Path) -> None:
    end, day = (PERIOD.until - NOON).total_seconds(), 86_400
    moments = (
        (0, 10),
        (0, end + 2 * day),  # There at the end of the period.
        (end + 10, end + day),
        (end + LONGEST_LIFE.total_seconds(), end + LONGEST_LIFE.total_seconds() + day),
    )
    made = [row(n, sent=sent, settled=at) for n, (sent, at) in enumerate(moments)]
    table = delta.open_(delta.url_of(lakes.write(tmp_path / "lake", made, {})))
    _, later, _, latest = table.files
    for file in (later, latest):
        Path(table.url.removeprefix("file://"), file.path).unlink()

    with duckdb.opened() as engine:
        history = engine.history(table, NOON, as_of=PERIOD.until)

        assert sorted(engine.rows(history)["id"].to_pylist()) == [0, 1]


def test_queries_run_as_they_are_on_views_of_their_names(spark: "SparkSession") -> None:
    session = spark.newSession()
    history = frame(session, *(row(n, settled=n + 2) for n in range(9)))
    message(history).createOrReplaceTempView("settled")

    found = session.sql(definition("latency"), args={"step": 3_600_000_000}).collect()

    assert found == latency(history).collect()
    assert [(each.queue, each.settled, each.send_to_delete_p50) for each in found] == [
        ("orders", 9, 6.0)
    ]


def test_what_duckdb_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="SOUNDEX is not supported in DuckDB"):
        duckdb.translated("select soundex(queue) from history", {}, {})

"""The declarative pipeline: its tables, what they are compared with, kills, late rows, erasures."""

import runpy
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyspark

import skipmq
from skipmq.analytics import reports
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.lake import export
from skipmq.analytics.spark.pipeline_erasure import Tables
from skipmq.analytics.spark.pipeline_run import exclusive, table
from skipmq.database import embedded
from support import pages, standby
from support.analytics import FACTS, Writers, rows_of, settle
from support.clock import connect
from support.drivers import PATIENCE, kill_when, launch
from support.http import environment, eventually
from support.postgres import Connection, Databases, as_reader
from support.programs import need
from support.sql import Queue, redrive_policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.jdbc import Source

PROJECT = Path(skipmq.__file__).parent / "analytics" / "pipeline"


def pipeline(database: str, output: Path, *words: str, code: int = 0) -> str:
    """Run the pipeline; return what it printed."""
    need("java")
    log = output.with_name("log")
    with launch(database, log, "pipeline", "--output", str(output), *words) as run:
        assert run.wait(PATIENCE) == code, log.read_text()
    return log.read_text()


def read(spark: "SparkSession", output: Path, name: str) -> "DataFrame":
    return spark.read.parquet(str(table(output, name)))


def facts(rows: "DataFrame") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows.select(*FACTS.split(", ")).orderBy("id", "xid").collect()]


def lives(spark: "SparkSession", output: Path) -> list[int]:
    return sorted(row.id for row in read(spark, output, "silver").select("id").collect())


def appended(spark: "SparkSession", database: str, output: Path) -> None:
    """Append to bronze and silver what the pipeline appends to them."""
    bronze = table(output, "bronze")
    settled = spark.readStream.format("skipmq").option("url", as_reader(database)).load()
    append(settled, bronze, output)
    moves = reports.query("moves", {"history": spark.read.parquet(str(bronze))}, None)
    stream = spark.readStream.schema(settled.schema).parquet(str(bronze))
    append(reports.lives(stream, moves), table(output, "silver"), output)


def append(frame: "DataFrame", folder: Path, output: Path) -> None:
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(output / "checkpoints" / folder.name))
        .trigger(availableNow=True)
        .start(str(folder))
    )
    assert query.awaitTermination(PATIENCE)


def dead_letter(owner: Connection) -> Queue:
    """Move a message to a dead-letter queue, and return that."""
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("poison")
    while source.receive(timeout=0):
        pass
    return dead


def test_silver_has_the_life_of_each_message_in_each_queue(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)
    dead = dead_letter(owner)
    appended(spark, database, tmp_path)
    dead.delete(*dead.receive())
    appended(spark, database, tmp_path)

    silver = read(spark, tmp_path, "silver")

    (moved,) = read(spark, tmp_path, "bronze").where("outcome = 'dead-lettered'").collect()
    (last,) = silver.where("queue = 'dead'").collect()
    assert (last.message_id, last.arrived_at, last.dead_letter) == (
        moved.message_id, moved.settled_at, True,
    )  # fmt: skip
    assert silver.count() == 22
    assert silver.where("not dead_letter and arrived_at = sent_at").count() == 21


def test_erased_messages_are_in_no_file_and_streams_go_on(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 30, HistoryMode="full")
    appended(spark, database, tmp_path)
    left = max(table(tmp_path, "bronze").glob("*.parquet"), key=lambda file: file.stat().st_size)
    left.with_name("part-of-a-killed-batch.parquet").write_bytes(left.read_bytes())
    tables = Tables(spark, tmp_path)

    found = tables.count("body like 'body 1%'")
    erased = tables.erase("body like 'body 1%'")
    settle(owner, 10, HistoryMode="full")
    appended(spark, database, tmp_path)

    assert [(queue, number) for queue, _, number in found] == [("orders", 11)]
    assert erased == 11
    assert tables.count("body like 'body 1%'") == [("orders", found[0][1], 1)]
    files = [str(file) for file in table(tmp_path, "bronze").glob("*.parquet")]
    assert spark.read.parquet(*files).where("body like 'body 1%'").count() == 1
    kept = [(row.id, row.queue_id) for row in read(spark, tmp_path, "bronze").collect()]
    found_lives = [(row.id, row.queue_id) for row in read(spark, tmp_path, "silver").collect()]
    assert len(kept) == 29
    assert sorted(found_lives) == sorted(kept)


def test_erasure_that_was_interrupted_is_completed(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20, HistoryMode="full")
    appended(spark, database, tmp_path)
    logs = sorted((table(tmp_path, "bronze") / "_spark_metadata").glob("[0-9]*"))
    before = [log.read_text() for log in logs]
    tables = Tables(spark, tmp_path)
    tables.erase("body = 'body 7'")
    for log, text in zip(logs, before, strict=True):
        log.write_text(text)

    assert tables.erase("body = 'body 8'") == 1

    assert read(spark, tmp_path, "bronze").count() == 18


def test_tables_are_locked_while_the_pipeline_runs(spark: "SparkSession", tmp_path: Path) -> None:
    tables = Tables(spark, tmp_path)

    with exclusive(tmp_path), pytest.raises(AnalyticsError, match="another run of the pipeline"):
        tables.erase("true")

    assert tables.erase("true") == 0


@pytest.mark.slow
def test_tables_have_each_row_once_after_a_standby_is_promoted(
    spark: "SparkSession", public_folder: Path, tmp_path: Path
) -> None:
    place, output = public_folder / tmp_path.name, tmp_path / "tables"
    with ExitStack() as stack:
        with embedded.start(place / "first") as server:
            url = Databases(server).migrated()
            standby.copy(server.url, place / "second")
            second = Databases(stack.enter_context(embedded.start(place / "second")))
            with connect(url) as primary:
                settle(primary, 20)
                pipeline(url, output)
                settle(primary, 10)
                url = second.url(primary.info.dbname)
                promoted = stack.enter_context(connect(url))
                eventually(lambda: rows_of(promoted) == rows_of(primary))
        promoted.execute("select pg_promote()")
        settle(promoted, 10)

        said = pipeline(url, output)

        expected = rows_of(promoted)
        assert "as the database has counted" in said
        assert facts(read(spark, output, "bronze")) == expected
        assert lives(spark, output) == [row[0] for row in expected]
        assert len(expected) == 40


@pytest.mark.slow
def test_tables_with_rows_that_a_failover_undid_are_named_and_made_again(
    spark: "SparkSession", public_folder: Path, tmp_path: Path
) -> None:
    place, output = public_folder / tmp_path.name, tmp_path / "tables"
    with embedded.start(place / "first") as server:
        url = Databases(server).migrated()
        with connect(url) as primary:
            settle(primary, 20)
            standby.copy(server.url, place / "second")
            settle(primary, 10)
            pipeline(url, output)
            name = primary.info.dbname
    with (place / "second" / "postgresql" / "postgresql.auto.conf").open("a") as settings:
        settings.write("primary_conninfo = ''\n")
    with embedded.start(place / "second") as server:
        url = Databases(server).url(name)
        with connect(url) as promoted:
            promoted.execute("select pg_promote()")
            settle(promoted, 10)

            said = pipeline(url, output, code=1)
            pipeline(url, output, "--refresh")

            expected = rows_of(promoted)
    assert "orders has" in said
    assert "make them again with --refresh" in " ".join(said.split())
    assert facts(read(spark, output, "bronze")) == expected
    assert lives(spark, output) == [row[0] for row in expected]
    assert len(expected) == 30


@pytest.mark.slow
def test_pipeline_has_late_rows_and_lives_once_when_it_is_run_again(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output = tmp_path / "tables"
    settle(owner, 20)
    dead, late = dead_letter(owner), Queue(owner, "late")
    pipeline(database, output)
    first = facts(read(spark, output, "bronze"))
    late.send("late")
    with owner.transaction():
        late.delete(*late.receive())
        owner.execute(
            "update skipmq.history set sent_at = sent_at - interval '3 h',"
            " first_received_at = first_received_at - interval '3 h',"
            " settled_at = greatest("
            "settled_at - interval '2 h', date_trunc('day', settled_at, 'UTC'))"
            " where queue_id = %s",
            (late.id,),
        )
    dead.delete(*dead.receive())
    pipeline(database, output)

    said = pipeline(database, output)

    assert "as the database has counted" in said
    assert len(first) == 21
    assert facts(read(spark, output, "bronze")) == rows_of(owner)
    silver = read(spark, output, "silver")
    assert (silver.count(), silver.where("dead_letter").count()) == (23, 1)
    traffic = read(spark, output, "hourly_traffic").groupBy("queue").sum("arrived", "deleted")
    assert sorted(map(tuple, traffic.collect())) == [
        ("dead", 1, 1), ("late", 1, 1), ("orders", 20, 20), ("source", 1, 0),
    ]  # fmt: skip
    counts = read(spark, output, "counts")
    assert {row.kept for row in counts.collect()} == {True}
    assert table(output, "slow_hours").exists()


@pytest.mark.slow
def test_pipeline_killed_while_four_write_misses_and_doubles_nothing(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output, log = tmp_path / "tables", tmp_path / "log"
    with Writers(database):
        for name in ("bronze", "silver"):
            process = launch(database, log, "pipeline", "--output", str(output))
            kill_when(process, lambda n=name: any(table(output, n).glob("*.parquet")), log)

    pipeline(database, output)

    assert facts(read(spark, output, "bronze")) == rows_of(owner)
    assert lives(spark, output) == [row[0] for row in rows_of(owner)]


@pytest.mark.slow
def test_forgotten_message_leaves_all_tables(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output, log = tmp_path / "tables", tmp_path / "log"
    settle(owner, 20, HistoryMode="full")
    pipeline(database, output)
    words = ("forget", "--where", "body = 'body 7'", "--tables", str(output), "--yes")
    with launch(database, log, *words, owner=True) as forget:
        assert forget.wait(PATIENCE) == 0, log.read_text()

    pipeline(database, output)

    assert "1 from tables" in log.read_text()
    assert read(spark, output, "bronze").count() == 19
    assert read(spark, output, "silver").count() == 19
    (hour,) = read(spark, output, "hourly_latency").groupBy().sum("settled").collect()
    assert hour[0] == 19
    files = [str(file) for file in output.rglob("*.parquet") if file.parent.name == "bronze"]
    assert spark.read.parquet(*files).where("body = 'body 7'").count() == 0


@pytest.mark.slow
def test_violated_expectation_is_named_and_the_exit_code_is_one(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    output = tmp_path / "tables"
    orders = settle(owner, 20)
    owner.execute(
        "insert into skipmq.queue_delta (at, queue_id, change, event)"
        " values (clock_timestamp(), %s, -1, 'deleted')",
        (orders.id,),
    )

    said = pipeline(database, output, code=1)

    assert "orders has 20 deleted messages in bronze, and the database counted 21" in said


@pytest.mark.slow
def test_project_is_valid_for_spark_pipelines(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    need("java")
    settle(owner, 10)
    project = shutil.copytree(PROJECT, tmp_path / "project")
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/skipmq/pipeline", str(tmp_path / "storage")))
    home = Path(pyspark.__file__).parent
    variables = environment({"database_url": as_reader(database)}) | {
        "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        variables.pop(name, None)
    done = subprocess.run(
        [home / "bin" / "spark-pipelines", "dry-run", "--driver-memory", "1g"],
        cwd=project, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr


def test_example_runs_from_top_to_bottom(
    spark: "SparkSession", source: "Source", owner: Connection, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    orders = Queue(owner, HistoryMode="full")
    orders.send('{"price": 2.5}', "x")
    orders.delete(*orders.receive())
    export.export(spark, source, str(tmp_path / "lake"))
    monkeypatch.setenv("SKIPMQ_ARCHIVE", str(tmp_path / "lake"))

    script = tmp_path / "explore.py"
    script.write_text(pages.example("analyse/reports.md", script.name))
    runpy.run_path(str(script))

    output = capsys.readouterr().out
    assert "|orders|deleted|       2|" in output
    assert "OBJECT<price: DECIMAL(2,1)>" in output

"""The declarative pipeline on the lake: its tables, what they are compared with, kills."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

import pyspark

import skipmq
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.lake import export
from skipmq.analytics.spark.pipeline_run import replacing, table
from skipmq.analytics.spark.spark_errors import first_reason
from skipmq.database import embedded
from support import pages, standby
from support.analytics import Writers, settle
from support.clock import connect
from support.drivers import PATIENCE, kill_when, launch
from support.http import environment
from support.postgres import Connection, Databases, as_reader
from support.programs import need
from support.sql import Queue, redrive_policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skipmq.analytics.jdbc import Source

PROJECT = Path(skipmq.__file__).parent / "analytics" / "pipeline"


def run(database: str, output: Path, *words: str, code: int = 0) -> str:
    """Run a command; return what it printed."""
    need("java")
    log = output.with_name(f"log-{words[0]}")
    log.unlink(missing_ok=True)
    with launch(database, log, *words, owner=words[0] == "forget") as command:
        assert command.wait(PATIENCE) == code, log.read_text()
    return " ".join(log.read_text().split())


def pipeline(database: str, output: Path, *, exports: bool = True, code: int = 0) -> str:
    """Export to the lake next to the tables, and run the pipeline on it."""
    lake = str(output.with_name("lake"))
    if exports:
        run(database, output, "export", "--lake", lake)
    return run(database, output, "pipeline", "--lake", lake, "--output", str(output), code=code)


def read(spark: "SparkSession", output: Path, name: str) -> "DataFrame":
    return spark.read.parquet(str(table(output, name)))


def deleted(spark: "SparkSession", output: Path) -> dict[str, int]:
    """Return how many messages of each queue gold has deleted."""
    found = read(spark, output, "hourly_traffic").groupBy("queue").sum("deleted").collect()
    return {name: number for name, number in found if number}


def dead_letter(owner: Connection) -> Queue:
    """Move a message to a dead-letter queue, and return that."""
    dead = Queue(owner, "dead")
    source = Queue(owner, "source", RedrivePolicy=redrive_policy())
    source.send("poison")
    while source.receive(timeout=0):
        pass
    return dead


def test_tables_are_replaced_when_a_run_succeeds_and_stay_when_it_fails(tmp_path: Path) -> None:
    output = tmp_path / "tables"

    def write(text: str, *, fails: bool = False) -> None:
        with replacing(output) as folder:
            (folder / "tables").mkdir()
            (folder / "tables" / "gold").write_text(text)
            if fails:
                raise AnalyticsError

    write("one")
    one = table(output, "gold").resolve()
    write("two")

    assert one.read_text() == "one"
    with pytest.raises(AnalyticsError):
        write("three", fails=True)
    assert table(output, "gold").read_text() == "two"
    with replacing(output), pytest.raises(AnalyticsError, match="another run of the pipeline"):
        write("four")


def test_reason_of_a_failed_run_is_its_first_error() -> None:
    said = """Flow 'spark_catalog.default.hourly_latency' has FAILED.
Error: [DIVIDE_BY_ZERO] Division by zero.
Traceback (most recent call last):
pyspark.errors.exceptions.connect.SparkException: Stream is closed
   Thread State: RUNNABLE
"""

    assert first_reason(said) == "Spark failed: [DIVIDE_BY_ZERO] Division by zero."


@pytest.mark.slow
def test_gold_has_late_rows_in_their_hour_and_stays_when_a_run_fails(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output = tmp_path / "tables"
    orders = settle(owner, 20)
    dead, late = dead_letter(owner), Queue(owner, "late")
    pipeline(database, output)
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

    before = pipeline(database, output, exports=False)
    assert deleted(spark, output) == {"orders": 20}
    said = pipeline(database, output)

    assert "as the database has counted" in before
    assert "Flow spark_catalog.default.hourly_traffic has COMPLETED" in said
    traffic = read(spark, output, "hourly_traffic").groupBy("queue").sum("arrived", "deleted")
    whole = [("dead", 1, 1), ("late", 1, 1), ("orders", 20, 20), ("source", 1, 0)]
    assert sorted(map(tuple, traffic.collect())) == whole
    assert {row.kept for row in read(spark, output, "counts").collect()} == {True}
    assert table(output, "slow_hours").exists()

    owner.execute(
        "insert into skipmq.queue_delta (at, queue_id, change, event)"
        " values (clock_timestamp(), %s, -1, 'deleted')",
        (orders.id,),
    )
    violated = pipeline(database, output, code=1)
    (file,) = tmp_path.glob("lake/history/export-*/*/queue=late/*.parquet")
    file.unlink()
    failed = pipeline(database, output, exports=False, code=1)

    assert "orders has 20 deleted messages in bronze, and the database counted 21" in violated
    assert f"{file.name} of the lake is missing: check the lake with" in failed
    assert "the tables of the last run are as they were" in failed
    assert sorted(map(tuple, traffic.collect())) == whole
    assert not any(tmp_path.rglob("derby.log"))


@pytest.mark.slow
def test_rows_that_a_failover_undid_leave_the_tables_by_an_export(
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
            settle(promoted, 3)

            said = pipeline(url, output, exports=False, code=1)
            kept = deleted(spark, output)
            pipeline(url, output)

    assert "orders has" in said
    assert "run `skipmq analytics export`" in said
    assert kept == {"orders": 30}
    assert deleted(spark, output) == {"orders": 23}


@pytest.mark.slow
def test_pipeline_killed_while_four_write_leaves_tables_that_are_whole(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output, lake, log = tmp_path / "tables", tmp_path / "lake", tmp_path / "log"
    with Writers(database):
        pipeline(database, output)
        before = deleted(spark, output)
        words = ("pipeline", "--lake", str(lake), "--output", str(output))
        for name in ("hourly_latency", "hourly_traffic"):
            process = launch(database, log, *words)
            made = f"run-*/tables/{name}/_SUCCESS"
            # The next run removes what a killed one has left.
            done = set(output.glob(made))
            kill_when(process, lambda m=made, d=done: set(output.glob(m)) - d, log)
        assert deleted(spark, output) == before

    pipeline(database, output)

    rows = owner.execute(
        "select queue, count(*) from skipmq_views.history where outcome = 'deleted' group by 1"
    ).fetchall()
    assert deleted(spark, output) == dict(rows)
    assert len([*output.glob("run-*")]) == 2


@pytest.mark.slow
def test_forgotten_message_is_in_no_table_and_loosens_the_expectation_of_its_queue_alone(
    spark: "SparkSession", database: str, owner: Connection, tmp_path: Path
) -> None:
    output, lake = tmp_path / "tables", str(tmp_path / "lake")
    settle(owner, 20, HistoryMode="full")
    settle(owner, 10, "mails")
    pipeline(database, output)
    run(database, output, "forget", "--where", "body = 'body 7'", "--lake", lake, "--yes")

    pipeline(database, output)

    assert deleted(spark, output) == {"orders": 19, "mails": 10}
    erased = {row.queue: row.erased for row in read(spark, output, "counts").collect()}
    assert erased == {"orders": 1, "mails": 0}
    files = [str(file) for file in tmp_path.rglob("*.parquet") if "history" in str(file)]
    assert not [file for file in files if b"body 7" in Path(file).read_bytes()]


@pytest.mark.slow
def test_project_is_valid_for_spark_pipelines(
    spark: "SparkSession",
    source: "Source",
    database: str,
    owner: Connection,
    place: str,
    tmp_path: Path,
) -> None:
    need("java")
    settle(owner, 10)
    export.export(spark, source, place)
    project = shutil.copytree(PROJECT, tmp_path / "project")
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/var/lib/skipmq/pipeline", str(tmp_path / "storage")))
    home = Path(pyspark.__file__).parent
    variables = environment({"database_url": as_reader(database), "archive": place}) | {
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

"""The commands on the history, as a person and as a program use them."""

import csv
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from skipmq.cli.analytics import engine as analytics_engine
from skipmq.cli.analytics.options import Selection
from skipmq.config.settings import Settings
from support import commands, forks, lakes
from support.analytics import SHORT_LIVED
from support.http import SKIPMQ, environment
from support.postgres import Databases
from support.programs import need
from support.settled import NOON, row


@pytest.fixture
def url(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


def run(*words: str, code: int = 0, **settings: object) -> str:
    """Run a command of `skipmq analytics` in a process of its own; return what it printed."""
    variables = environment(settings | {"spark_master": "local[2]"}) | {"COLUMNS": "200"}
    variables["PYSPARK_SUBMIT_ARGS"] = SHORT_LIVED
    done = forks.run([*SKIPMQ, "analytics", *words], variables, seconds=400)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + ("" if code == 0 else done.stderr)


def json_of(*words: str, code: int = 0, **settings: object) -> Any:
    out = run(*words, "--json", code=code, **settings)
    return json.loads(out[: out.rindex("}") + 1])


def fill(url: str, log: Path) -> None:
    """Delete 120 orders, leave 30, and log all as acknowledged."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select skipmq.create_queue('orders', '{\"HistoryMode\": \"full\"}')")
        sent = connection.execute(
            "select skipmq.send_message('orders', 'order ' || n)::text"
            " from generate_series(1, 150) n"
        ).fetchall()
        for _ in range(12):
            connection.execute(
                "select skipmq.delete_messages(skipmq.queue_id('orders'), array_agg(id),"
                " array_agg(receive_count), array_agg(message_id))"
                " from skipmq.receive_messages(skipmq.queue_id('orders'), 10)"
            )
        (now,) = connection.execute("select now()::text").fetchone() or ("",)
    lines = [{"message_id": i, "queue": "orders", "sent_at": now} for (i,) in sent]
    log.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.slow
def test_commands_report_replay_reconcile_and_forget(url: str, tmp_path: Path) -> None:
    need("java")
    log, lake, output = tmp_path / "sent.jsonl", str(tmp_path / "lake"), tmp_path / "report"
    fill(url, log)
    run("export", "--lake", lake, database_url=url)

    reported = run("report", "--output", str(output), database_url=url)
    from_lake = run("report", "--output", str(tmp_path / "two"), "--lake", lake, database_url=url)
    alone = json_of("report", "--output", str(tmp_path / "three"), "--lake", lake)
    dry = run("replay", "--where", "body <= 'order 12'", "--to", "orders", "--dry-run",
              database_url=url)  # fmt: skip
    words = ("replay", "--where", "body <= 'order 12'", "--to", "orders", "--lake", lake, "--yes")
    sent = json_of(*words, database_url=url)
    again = json_of(*words, "--rate", "100", database_url=url)
    sound = json_of("reconcile", "--sent", str(log), database_url=url)
    refused = run("forget", "--where", "body like 'order 1%'", database_url=url, code=130)
    found = json_of("forget", "--where", "body like 'order 1%'", "--dry-run", database_url=url)
    erased = json_of(
        "forget", "--where", "body like 'order 1%'", "--lake", lake, "--yes", database_url=url
    )
    after = json_of("reconcile", "--sent", str(log), database_url=url)
    with log.open("a") as lines:
        unknown = {"message_id": str(uuid4()), "queue": "orders", "sent_at": "2100-01-01"}
        lines.write(f"\n{json.dumps(unknown)}")
    bad = json_of("reconcile", "--sent", str(log), "--limit", "2", database_url=url, code=1)

    assert "orders: 30 waiting, the oldest for" in reported
    assert "orders: 120 messages deleted" in from_lake
    assert 'data-chart="latency-plots"' in (output / "report.html").read_text()
    assert (tmp_path / "two" / "latency.csv").exists()
    assert [finding["queue"] for finding in alone["findings"]] == ["orders"]
    with (tmp_path / "three" / "visibility.csv").open() as file:
        assert [row["visibility_timeout"] for row in csv.DictReader(file)] == ["30"]
    assert "dry run: nothing was sent" in dry
    assert (sent["sent"], again["sent"], again["sent_before"]) == (24, 0, 24)
    (queue,) = sound["queues"]
    assert (queue["acknowledged"], queue["deleted"], queue["waiting"]) == (150, 120, 54)
    assert (queue["lost"], queue["unacknowledged"]) == (0, 24)
    assert "Permanently erase" in refused
    assert {(f["place"], f["queue"]) for f in found["found"]} == {
        ("live", "orders"), ("history", "orders"),
    }  # fmt: skip
    assert erased["remaining"] == []
    assert erased["erased"]["lake"] == erased["erased"]["history"] > 0
    assert after["queues"][0]["erased"] > 0
    assert [w["fate"] for w in bad["wrong"]] == ["lost"]


@pytest.mark.slow
def test_commands_say_in_a_line_what_they_do_not_understand(url: str, tmp_path: Path) -> None:
    need("java")
    out = str(tmp_path / "out")

    assert "no lake at" in run(
        "report", "--output", out, "--lake", str(tmp_path / "none"), database_url=url, code=1
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select skipmq.create_queue('orders')")
    assert "Spark rejected the query" in run(
        "replay", "--where", "no_such = 1", "--to", "orders", database_url=url, code=1
    )
    assert "no queue nobody was ever in the database: `skipmq queue list`" in run(
        "report", "--output", out, "--queue", "nobody", database_url=url, code=2
    )
    assert "is not before the end" in run(
        "report", "--output", out, "--since", "2100-01-01", database_url=url, code=2
    )


def test_report_on_a_lake_needs_no_java_and_names_its_engine(tmp_path: Path) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n, settled=n + 2) for n in range(9)], {"orders": 30})
    words = ("report", "--output", str(tmp_path / "out"), "--since", "2026-11-20")
    there = ("--lake", lake, "--until", "2026-11-21")

    def report(*more: str, code: int) -> str:
        return run_without_java(tmp_path, *words, *more, code=code)

    found = json.loads(report(*there, "--json", code=0))
    spark = report(*there, "--engine", "spark", code=1)
    database = report("--engine", "duckdb", code=2)
    store = report("--lake", "s3a://bucket", "--engine", "duckdb", code=2)
    none = report("--lake", str(tmp_path), code=1)
    nobody = report(*there, "--queue", "nobody", code=2)
    (file,) = (tmp_path / "lake" / "history").rglob("queue=orders/*.parquet")
    lakes.damage_footer(file)
    damaged = report(*there, code=1)
    file.unlink()
    gone = report(*there, code=1)

    assert (found["engine"], len(found["reports"])) == ("duckdb", 12)
    assert "the history begins at 2026-11-20" in (tmp_path / "out" / "report.html").read_text()
    assert "Spark needs Java" in spark
    assert "DuckDB reads a lake in a local folder" in database
    assert "DuckDB reads a lake in a local folder" in store
    assert "no lake at" in none
    assert "no queue nobody was ever in the lake" in nobody
    for shown, problem in ((damaged, "has a damaged footer: "), (gone, "is missing: ")):
        assert f"{file} {problem}" in shown
        assert "check the lake with `skipmq analytics verify --deep`" in shown


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ((), "2026-11-20T12:00", "2026-11-21T00:00"),
        (("--since", "6h"), "2026-11-20T18:00", "2026-11-21T00:00"),
        (("--since", "yesterday", "--until", "2h"), "2026-11-20T00:00", "2026-11-20T22:00"),
        (("--since", "2d", "--until", "2026-11-20"), "2026-11-19T00:00", "2026-11-20T00:00"),
    ],
)
def test_period_of_a_lake_is_relative_to_its_end_also_without_a_commit_of_an_export(
    tmp_path: Path, words: tuple[str, ...], since: str, until: str
) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n, settled=n + 2) for n in range(9)], {"orders": 30})

    out = run_without_java(
        tmp_path, "report", "--output", str(tmp_path / "out"), "--lake", lake, *words, "--json",
        code=0,
    )  # fmt: skip

    found = json.loads(out)
    assert (found["since"][:16], found["until"][:16]) == (since, until)


def test_report_compares_unless_the_time_before_is_too_much_for_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    yesterday = -86_400
    settled = [*(row(n, settled=2) for n in range(4)),
               *(row(n, sent=yesterday, received=yesterday + 1, settled=yesterday + 2)
                 for n in range(4, 7))]  # fmt: skip
    lake = lakes.write(tmp_path / "lake", settled, {"orders": 30})
    wanted = Selection(lake, NOON - timedelta(hours=12), NOON + timedelta(hours=12), ())

    def rows() -> tuple[int, bool]:
        with analytics_engine.computing(Settings(), wanted, "auto") as read:
            return read.engine.rows(read.history).num_rows, read.uncompared == ""

    assert rows() == (7, True)

    monkeypatch.setattr(analytics_engine, "MAXIMUM_ROWS", 6)

    assert rows() == (4, False)


def run_without_java(path: Path, *words: str, code: int, **settings: object) -> str:
    """Run a command on a path of programs on which there is no Java; return what it printed."""
    variables = environment(settings) | {"PATH": str(path), "COLUMNS": "200"}
    variables.pop("JAVA_HOME", None)
    done = commands.invoke(("analytics", *words), variables)
    assert done.code == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_verify_needs_no_java(tmp_path: Path) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n, settled=n + 2) for n in range(9)], {"orders": 30})

    shown = run_without_java(tmp_path, "verify", "--lake", lake, code=0, data_dir=tmp_path / "none")

    assert "1 files with 9 rows: no discrepancies" in shown


@pytest.mark.parametrize("command", ["export", "report", "replay", "forget", "reconcile"])
def test_commands_without_java_say_what_to_install(command: str, tmp_path: Path) -> None:
    words = {
        "export": ["--lake", str(tmp_path / "lake")],
        "report": ["--output", str(tmp_path)],
        "replay": ["--where", "true", "--to", "orders"],
        "forget": ["--where", "true"],
        "reconcile": [],
    }

    said = run_without_java(
        tmp_path, command, *words[command], code=1,
        database_url="postgresql://nobody@127.0.0.1:1/nothing",
    )  # fmt: skip

    assert "Spark needs Java 17 or newer: apt-get install default-jre-headless" in said
    assert os.linesep not in said.strip()

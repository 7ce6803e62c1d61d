"""The project of dbt: its sources are the views, its tables the same in both targets."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import psycopg
import pytest
import yaml
from jinja2 import Template
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

import skipmq
from skipmq.analytics.jdbc import Source
from skipmq.analytics.lake.export import export
from support.analytics import settle
from support.postgres import Connection
from support.programs import INSTALLED

PROJECT = Path(skipmq.__file__).parent / "analytics" / "dbt"
COLUMNS = """
select table_name, array_agg(column_name::text order by ordinal_position)
from information_schema.columns where table_schema = 'skipmq_views' group by 1
"""
ROWS = "select * from {}.queue_hours order by account, region, queue, hour"


def test_sources_have_every_column_of_every_view(owner: Connection) -> None:
    (source,) = yaml.safe_load((PROJECT / "models" / "sources.yml").read_text())["sources"]
    described = {
        table["name"]: [column["name"] for column in table["columns"]] for table in source["tables"]
    }

    assert source["schema"] == "skipmq_views"
    assert described == dict(owner.execute(COLUMNS).fetchall())


def test_model_counts_what_was_settled(owner: Connection) -> None:
    settle(owner, 20)
    model = Template((PROJECT / "models" / "queue_hours.sql").read_text()).render(
        config=lambda **_: "", source=lambda *_: "skipmq_views.history", unread=lambda: "true"
    )
    (described,) = yaml.safe_load((PROJECT / "models" / "queue_hours.yml").read_text())["models"]

    found = owner.execute(model.encode())

    assert found.description is not None
    assert [column.name for column in found.description] == [
        column["name"] for column in described["columns"]
    ]
    rows = [row[3:4] + row[5:10] for row in found.fetchall()]  # Two, at the turn of an hour.
    assert {row[0] for row in rows} == {"orders"}
    assert [sum(column) for column in list(zip(*rows, strict=True))[1:]] == [20, 20, 0, 0, 0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a copy of the project, as its user makes one."""
    return Path(shutil.copytree(PROJECT, tmp_path / "dashboards"))


@pytest.mark.slow
def test_lake_and_database_give_the_same_table(
    spark: SparkSession, source: Source, database: str, owner: Connection, place: str, project: Path
) -> None:
    settle(owner, 30)
    settle(owner, 20, "mails")
    owner.execute("update skipmq.history set settled_at = settled_at - interval '3 h' where id < 9")
    export(spark, source, place)

    dbt(project, "build", SKIPMQ_ARCHIVE=place)
    dbt(project, "build", "--target", "database", **variables(database))

    with duckdb.connect(str(project / "skipmq.duckdb")) as lake:
        lake.execute("set TimeZone = 'UTC'")
        of_lake = lake.execute(ROWS.format("main")).fetchall()
    with psycopg.connect(database) as session:
        of_database = session.execute(ROWS.format("dashboards")).fetchall()
    assert sum(row[5] for row in of_lake) == 50
    assert len(of_lake) == len(of_database) >= 3
    for ours, theirs in zip(of_lake, of_database, strict=True):
        assert ours[:11] + ours[14:] == theirs[:11] + theirs[14:]
        assert ours[11:14] == pytest.approx([float(value) for value in theirs[11:14]], abs=1e-6)


@pytest.mark.slow
def test_a_build_reads_the_hours_with_new_rows_and_no_open_transaction_is_missed(
    owner: Connection, database: str, project: Path
) -> None:
    def build(*options: str) -> tuple[int, int]:
        dbt(project, "build", "--target", "database", *options, **variables(database))
        return owner.execute(
            "select sum(settled)::int, max(expired)::int from dashboards.queue_hours"
        ).fetchone()  # type: ignore[return-value]

    settle(owner, 20)
    settle(owner, 5, "mails")
    owner.execute("update skipmq.history set settled_at = settled_at - interval '3 h'")
    first = build()
    owner.execute("update dashboards.queue_hours set expired = 99")
    with psycopg.connect(database) as late:
        settle(late, 5, "mails")
        settle(owner, 10)
        meanwhile = build()
        late.commit()
    then = build()
    whole = build("--full-refresh")

    assert first == (25, 0)
    # What was settled after the open transaction began waits for it.
    assert meanwhile == (25, 99)
    # The former hour is as it was.
    assert then == (40, 99)
    assert whole == (40, 0)


@pytest.mark.slow
def test_freshness_warns_of_a_history_without_new_rows(
    owner: Connection, database: str, project: Path
) -> None:
    settle(owner, 1)
    fresh = dbt(project, "source", "freshness", "--target", "database", **variables(database))
    owner.execute("update skipmq.history set settled_at = settled_at - interval '3 h'")
    stale = dbt(project, "source", "freshness", "--target", "database", **variables(database))

    assert "PASS freshness of skipmq.history" in fresh
    assert "WARN freshness of skipmq.history" in stale


@pytest.mark.slow
def test_model_of_ones_own_reads_the_table(
    spark: SparkSession, source: Source, owner: Connection, place: str, project: Path
) -> None:
    page = (Path(skipmq.__file__).parents[1] / "docs" / "analyse" / "dbt.md").read_text()
    (model,) = (block for block in page.split("```text\n")[1:] if "slowest" in block)
    (project / "models" / "slow_queues.sql").write_text(model.split("```")[0])
    settle(owner, 10)
    owner.execute("update skipmq.history set sent_at = sent_at - interval '2 min'")
    export(spark, source, place)

    dbt(project, "build", SKIPMQ_ARCHIVE=place)

    with duckdb.connect(str(project / "skipmq.duckdb")) as lake:
        ((queue, slowest, settled),) = lake.execute("select * from slow_queues").fetchall()
    assert (queue, settled) == ("orders", 10)
    assert slowest > 100


@pytest.mark.slow
def test_two_ends_of_a_message_fail_the_build(
    owner: Connection, database: str, project: Path
) -> None:
    settle(owner, 10)
    owner.execute("insert into skipmq.history select * from skipmq.history limit 1")

    output = dbt(project, "build", "--target", "database", fails=True, **variables(database))

    assert "messages_have_one_end" in output
    assert "Got 1 result" in output


@pytest.mark.slow
def test_missing_location_of_the_lake_is_named(project: Path) -> None:
    assert "SKIPMQ_ARCHIVE" in dbt(project, "build", fails=True)


def variables(url: str) -> dict[str, str]:
    """Return libpq's variables for a database."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    parts = conninfo_to_dict(url)
    return {variable: str(parts[name]) for name, variable in names.items() if parts.get(name)}


def dbt(project: Path, *arguments: str, fails: bool = False, **environment: str) -> str:
    """Run dbt in a project, and return what it prints."""
    installed = INSTALLED / "dbt"
    assert (installed / ".installed").exists(), "run `make test-all`, which installs it"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, "-m", "dbt.cli.main", *arguments, "--no-use-colors"],
        cwd=project,
        env=kept
        | {"PYTHONPATH": str(installed), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert bool(done.returncode) is fails, done.stdout + done.stderr
    return done.stdout

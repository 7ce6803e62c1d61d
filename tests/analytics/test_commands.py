"""The commands, as they are typed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import psycopg
import pytest

from skipmq.cli.analytics.errors import one_line_errors
from support import commands, forks, lakes
from support.analytics import SHORT_LIVED, age, settle
from support.postgres import Connection, Databases, as_node
from support.programs import need
from support.settled import row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def variables(database: str, **settings: str) -> dict[str, str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    ours = {"SKIPMQ_DATABASE_URL": as_node(database), "PYSPARK_SUBMIT_ARGS": SHORT_LIVED}
    return others | ours | settings


def run(database: str, *arguments: str, **settings: str) -> commands.Done:
    """Run a command in this process, whose session it may take."""
    return commands.invoke(("analytics", *arguments), variables(database, **settings))


def run_alone(database: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, in which Spark would print what it does."""
    words = [sys.executable, "-m", "skipmq", "analytics", *arguments]
    return forks.run(words, variables(database, **settings), seconds=300)


def test_without_pyspark_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; from skipmq.__main__ import main; main()"
    for command in (["export", "--lake", "x"], ["report", "--output", "x"], ["reconcile"]):
        done = subprocess.run(
            [sys.executable, "-c", program, "analytics", *command],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

        assert done.returncode == 1
        assert done.stderr == "skipmq: this needs PySpark: pip install 'skipmq[analytics]'\n"


def test_java_that_is_too_old_or_not_where_it_is_said_to_be_is_named(
    database: str, tmp_path: Path
) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)

    eight = run(database, "export", "--lake", "x", JAVA_HOME=str(tmp_path))
    nowhere = run(database, "export", "--lake", "x", JAVA_HOME=str(tmp_path / "none"))

    assert (eight.code, nowhere.code) == (1, 1)
    assert eight.stderr.endswith(f"default-jre-headless; {old} is Java 8\n")
    assert f"JAVA_HOME is {tmp_path / 'none'} and has no Java" in nowhere.stderr


def test_what_needs_no_spark_is_told_before_it_is_started(tmp_path: Path) -> None:
    need("java")
    away = "postgresql://nobody@127.0.0.1:1/nothing"

    export = run_alone(away, "export", "--lake", str(tmp_path))
    wrong = run(away, "report", "--output", str(tmp_path), "--since", "2026-02-02",
                "--until", "2026-02-01")  # fmt: skip
    untimely = run(away, "report", "--output", str(tmp_path), "--since", "noon")

    assert (export.returncode, wrong.code) == (1, 2)
    assert export.stderr.startswith("skipmq: the database cannot be reached")
    assert len(export.stderr.splitlines()) == 1
    assert "--since 2026-02-02 00:00:00 is not before --until" in wrong.stderr
    assert untimely.code == 2
    assert "'noon' is not a time in UTC, as 2026-11-29 or" in untimely.stderr


def test_wrong_url_of_the_readers_is_named_before_spark_is_started(
    database: str, second_server: Databases, tmp_path: Path
) -> None:
    need("java")
    away = "postgresql://nobody@127.0.0.1:1/nothing"
    other = psycopg.conninfo.make_conninfo(database, dbname="postgres")

    words = ("report", "--output", str(tmp_path))
    alone = run_alone(database, *words, SKIPMQ_ANALYTICS_URL=away)

    assert (alone.returncode, "Check SKIPMQ_ANALYTICS_URL" in alone.stderr) == (1, True)
    assert len(alone.stderr.splitlines()) == 1
    for url, told in (
        (other, "is not a database of"),
        (second_server.migrated(), "is of another database than that of the nodes"),
    ):
        found = run(database, *words, SKIPMQ_ANALYTICS_URL=url)
        assert (found.code, told in found.stderr) == (1, True)
        assert len(found.stderr.splitlines()) == 1


def test_errors_of_spark_and_the_database_take_one_line(
    spark: "SparkSession", owner: Connection, tmp_path: Path
) -> None:
    from skipmq.analytics import frames, jdbc  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.lake import forget  # noqa: PLC0415 - PySpark is an extra.

    def away() -> None:
        with jdbc.opened("postgresql://nobody@127.0.0.1:1/nothing") as source:
            source.read(spark, "skipmq_views.history").count()

    (tmp_path / "file").touch()
    failures = {
        "Spark rejected the query: [UNRESOLVED_COLUMN": lambda: spark.range(1).where("no"),
        "Spark rejected the query: [PARSE_SYNTAX_ERROR]": lambda: spark.sql("selec"),
        "Spark failed: [CAST_INVALID_INPUT] The value 'x0'": lambda: (
            spark.range(1).selectExpr("cast('x' || id as int)").collect()
        ),
        "the database failed: Couldn't connect to the database": away,
        "PostgreSQL rejected the condition: syntax error at": lambda: forget.find(
            [owner], None, "no such thing"
        ),
        'PostgreSQL rejected the condition: column "no"': lambda: forget.find([owner], None, "no"),
        "PostgreSQL rejected the condition: invalid input syntax for type integer": lambda: (
            forget.find([owner], None, "id = 'x'::int")
        ),
        f"no lake at {tmp_path}": lambda: frames.lake(spark, str(tmp_path)),
        f"File exists: {tmp_path}/file; correct the path or specify another": (
            tmp_path / "file"
        ).mkdir,
    }

    for text, fails in failures.items():
        with pytest.raises(click.ClickException) as raised:
            one_line_errors(fails)()
        assert raised.value.message.startswith(text)
        assert "\n" not in raised.value.message


@pytest.mark.usefixtures("spark")
def test_lake_is_checked_and_repaired_from_the_database(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")

    def here(command: str, *words: str, code: int = 0) -> str:
        """Run a command in this process, with its session."""
        url = as_node(database)
        return commands.run(
            "analytics", command, "--lake", lake, *words, code=code, database_url=url
        )

    settle(owner, 10)
    age(owner, 10)
    settle(owner, 20, "mails")
    (tmp_path / "link").symlink_to(lake)
    exported = commands.run(
        *("analytics", "export", "--lake", lake),
        database_url=as_node(database), archive=f"{tmp_path}/link/",
    )  # fmt: skip
    trial = json.loads(
        commands.run(
            *("analytics", "export", "--lake", f"{lake}-trial", "--json"),
            database_url=as_node(database), archive=lake,
        )
    )  # fmt: skip
    (file,) = (tmp_path / "lake").rglob("queue=orders/*.parquet")
    file.unlink()

    failed = here("export", code=1)
    (other,) = (tmp_path / "lake").rglob("queue=mails/*.parquet")
    lakes.damage_footer(other)
    wrong = here("verify", "--json", code=1)
    shown = here("verify", code=1)
    repaired = here("verify", "--repair", "--json")
    whole = here("verify")

    assert (trial["rows"], trial["days"], trial["archive"]) == (30, [], lake)
    assert "; 1 days may be dropped" in " ".join(exported.split())
    assert "may be dropped" not in failed
    assert failed.splitlines()[-1] == (
        f"skipmq: file://{file} is missing: `skipmq analytics verify --lake {lake} --repair`"
        " exports again the days that the database still has; it keeps the days of damaged files"
    )
    found, damaged = json.loads(wrong)["wrong"]
    assert (found["queue"], found["rows"], found["rows_in_database"]) == ("orders", 10, 10)
    assert found["problems"] == [f"file://{file} is missing"]
    assert damaged["problems"][0].startswith(f"file://{other} has a damaged footer: ")
    assert "export again with --repair" in shown
    assert all(each["repaired"] for each in json.loads(repaired)["wrong"])
    assert "2 files with 30 rows: no discrepancies" in whole


@pytest.mark.usefixtures("spark")
def test_verify_says_what_the_database_has_of_a_damaged_day(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    url = as_node(database)

    def verified(code: int, *words: str, **settings: object) -> str:
        words = ("analytics", "verify", "--lake", lake, *words)
        return " ".join(commands.run(*words, code=code, **settings).split())

    settle(owner, 10)
    age(owner, 10)
    settle(owner, 20, "mails")
    commands.run("analytics", "export", "--lake", lake, database_url=url)
    for file in Path(lake, "history").rglob("queue=orders/*.parquet"):
        lakes.damage_footer(file)
    owner.execute("select skipmq.drop_history_partitions('7 days')")
    some = "(select id from skipmq.history limit 5)"
    owner.execute(f"delete from skipmq.history where id in {some}".encode())

    found = json.loads(verified(1, "--json", database_url=url))
    shown = verified(1, database_url=url)
    alone = verified(1, data_dir=tmp_path / "none")
    unreachable = verified(2, database_url="postgresql://127.0.0.1:1/skipmq")
    rows = [row(n, settled=n + 2) for n in range(9)]
    lake = lakes.write(tmp_path / "other", rows, {"orders": 30})
    foreign = verified(2, database_url=url)
    lake = str(tmp_path / "nowhere")
    missing = verified(2)

    assert [(each["queue"], each["database"]) for each in found["wrong"]] == [
        ("orders", "dropped"), ("mails", "fewer"),
    ]  # fmt: skip
    assert [each["rows_in_database"] for each in found["wrong"]] == [None, 15]
    assert "restore a backup of the lake: the database has dropped the day" in shown
    assert "the database has 5 rows fewer: erase them here too" in shown
    assert "set SKIPMQ_DATABASE_URL: the database may have the rows" in alone
    assert "1 queue days have discrepancies; not compared with a database" in alone
    assert "Check SKIPMQ_DATABASE_URL" in unreachable
    assert "has the history of a database and not of the database" in foreign
    assert "no lake at" in missing


def test_export_without_a_lake_says_how_to_name_it(database: str) -> None:
    done = run(database, "export")

    assert done.code == 2
    assert "--lake DIR, or SKIPMQ_ARCHIVE" in done.stderr


@pytest.mark.slow
def test_export_under_spark_submit_is_the_same_command(database: str, tmp_path: Path) -> None:
    import skipmq.__main__ as program  # noqa: PLC0415 - its file is what is submitted.

    submit = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    assert submit is not None
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    done = subprocess.run(
        [
            *(submit, "--master", "local[2]", "--jars", "/usr/share/java/postgresql.jar"),
            *(program.__file__, "analytics", "export", "--lake", str(tmp_path / "lake")),
        ],
        env=others | {"SKIPMQ_DATABASE_URL": as_node(database), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "nothing new, up to transaction" in done.stdout

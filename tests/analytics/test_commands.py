"""The commands, as they are typed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.postgres import as_node


def run(
    database: str, *arguments: str, path: str | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    environment = others | {"SKIPMQ_DATABASE_URL": as_node(database)} | settings
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "skipmq", "analytics", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_java_one_line_says_what_to_install(database: str, tmp_path: Path) -> None:
    done = run(database, "export", "--lake", str(tmp_path / "lake"), path=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: Spark needs Java 17 or newer: apt-get install default-jre-headless"
    ]


def test_export_without_a_lake_says_how_to_name_it(database: str) -> None:
    done = run(database, "export")

    assert done.returncode == 2
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
    assert "0 rows in 0 windows" in done.stdout

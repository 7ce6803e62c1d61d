"""The examples for Airflow and Dagster, run as plain Python on a real database and a real lake."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import pages
from support.analytics import SHORT_LIVED, settle
from support.http import environment
from support.postgres import Connection, as_node
from support.programs import INSTALLED, need

AIRFLOW = """
import json, runpy, sys
run = runpy.run_path(sys.argv[1])["dag"].test()
states = {task.task_id: str(task.state) for task in run.get_task_instances()}
print(json.dumps([str(run.state), states]))
"""
DAGSTER = """
import json, runpy, sys
import dagster as dg
defs = runpy.run_path(sys.argv[1])["defs"]
done = dg.materialize([*defs.assets, *defs.asset_checks], raise_on_error=False)
rows = {
    event.asset_key.to_user_string(): {
        name: value.value for name, value in event.materialization.metadata.items()
    }
    for event in done.get_asset_materialization_events()
}
checks = [check.passed for check in done.get_asset_check_evaluations()]
print(json.dumps([done.success, rows, checks]))
"""


def run(name: str, program: str, example: str, folder: Path, database: str) -> Any:
    """Run a program in the environment of an orchestrator; return the JSON that it prints last."""
    need("java")
    python = INSTALLED / name / "bin" / "python"
    assert (INSTALLED / name / ".installed").exists(), "run `make test-all`, which installs it"
    # Airflow runs what it finds in its folder.
    file = folder / "dags" / example
    file.parent.mkdir(exist_ok=True)
    file.write_text(pages.example("analyse/pipeline.md", example))
    settings = {
        "database_url": as_node(database),
        "archive": folder / "lake",
        "spark_master": "local[1]",
    }
    variables = environment(settings) | {
        "REPORT_FOLDER": str(folder / "report"),
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(file.parent),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "DAGSTER_HOME": str(folder),
        "PYSPARK_SUBMIT_ARGS": SHORT_LIVED,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 - of the test.
    }
    if name == "airflow":
        command(python.with_name("airflow"), "db", "migrate", folder=folder, variables=variables)
    said = command(python, "-c", program, file, folder=folder, variables=variables)
    return json.loads(said.strip().splitlines()[-1])


def command(*words: object, folder: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(
        list(map(str, words)),
        cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_airflow_runs_the_export_its_check_and_the_report(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)

    state, tasks = run("airflow", AIRFLOW, "airflow_dag.py", tmp_path, database)

    assert state == "success", tasks
    assert tasks == dict.fromkeys(("export", "verify", "report"), "success")
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.slow
def test_dagster_materializes_the_lake_and_the_report(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)

    success, assets, checks = run("dagster", DAGSTER, "dagster_assets.py", tmp_path, database)

    assert success
    assert assets["history"]["rows"] == 20
    assert assets["report"]["page"] == str(tmp_path / "report" / "report.html")
    assert checks == [True]


@pytest.mark.slow
def test_lake_that_is_damaged_makes_no_report(
    database: str, owner: Connection, tmp_path: Path
) -> None:
    settle(owner, 20)
    assert run("dagster", DAGSTER, "dagster_assets.py", tmp_path, database)[0]
    shutil.rmtree(tmp_path / "report")
    (file,) = (tmp_path / "lake").glob("history/export-*/day=*/*/*.parquet")
    file.unlink()

    success, assets, checks = run("dagster", DAGSTER, "dagster_assets.py", tmp_path, database)

    assert (success, [*assets], checks) == (False, ["history"], [False])
    assert not (tmp_path / "report").exists()

"""Assets of Dagster: the lake, with a check of its files, and a report on it, each hour.

`dagster dev -f dagster_assets.py` shows them. It needs `pip install 'skipmq[analytics]'`, Java 17,
and the variables SKIPMQ_DATABASE_URL, SKIPMQ_ARCHIVE and REPORT_FOLDER, a folder.
"""

import json
import subprocess
from collections.abc import Collection
from typing import Any

import dagster as dg


def analytics(*words: str, codes: Collection[int] = (0,)) -> Any:
    """Run a command of `skipmq analytics`, and return what it prints as JSON.

    Raises dagster.Failure for other exit codes.
    """
    command = ["skipmq", "analytics", *words, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode not in codes:
        raise dg.Failure(f"{' '.join(command)} failed: its standard error has the reason")
    return json.loads(done.stdout)


@dg.asset
def history() -> dg.MaterializeResult[None]:
    """Export the messages settled since the last export to the lake."""
    return dg.MaterializeResult(metadata=analytics("export"))


@dg.asset_check(asset=history, blocking=True)
def history_is_whole() -> dg.AssetCheckResult:
    """Check the lake against its files and the database."""
    found = analytics("verify", codes=(0, 1))
    return dg.AssetCheckResult(passed=not found["wrong"], metadata=found)


@dg.asset(deps=[history])
def report() -> dg.MaterializeResult[None]:
    """Report on the last day of the lake."""
    lake, output = dg.EnvVar("SKIPMQ_ARCHIVE"), dg.EnvVar("REPORT_FOLDER")
    words = ("--lake", lake.get_value(""), "--output", output.get_value(""))
    found = analytics("report", *words)
    return dg.MaterializeResult(metadata={"page": found["page"], "findings": found["findings"]})


defs = dg.Definitions(
    assets=[history, report],
    asset_checks=[history_is_whole],
    schedules=[dg.ScheduleDefinition(name="hourly", target="*", cron_schedule="0 * * * *")],
)

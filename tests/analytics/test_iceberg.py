"""The example that publishes a lake for readers of Iceberg, in the environment of pyiceberg."""

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics.lake.export import export
from support import pages
from support.analytics import lake_rows, settle, written
from support.postgres import Connection
from support.programs import INSTALLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

EXAMPLE = pages.example("analyse/history.md", "iceberg_metadata.py")
READ = """
import json, sys
from pyiceberg.table import StaticTable
rows = StaticTable.from_metadata(sys.argv[1]).scan(*sys.argv[2:]).to_arrow().to_pylist()
rows.sort(key=lambda row: (row["id"], row["xid"]))
names = "id", "xid", "outcome", "queue", "message_id", "day"
print(json.dumps([[str(row[name]) for name in names] for row in rows]))
"""


def python(*words: str) -> str:
    """Run Python in the environment of pyiceberg; return what it prints."""
    assert (INSTALLED / "iceberg" / ".installed").exists(), "run `make test-all`"
    done = subprocess.run(
        [INSTALLED / "iceberg" / "bin" / "python", *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def rows(metadata: str, *condition: str) -> Any:
    return json.loads(python("-c", READ, f"file://{metadata}", *condition))


@pytest.mark.slow
def test_iceberg_has_the_rows_of_each_version(
    spark: "SparkSession", source: "Source", owner: Connection, place: str
) -> None:
    written(spark, source, owner, place)
    first = python("-c", EXAMPLE, place)
    again = python("-c", EXAMPLE, place)
    before = rows(first)
    settle(owner, 10, "mails")
    export(spark, source, place)

    second = python("-c", EXAMPLE, place)

    assert again == first
    assert len(before) == 48
    of_lake = [list(map(str, row)) for row in lake_rows(spark, place)]
    assert [row[:-1] for row in rows(second)] == of_lake
    day = before[0][-1]
    mails = rows(second, f"queue = 'mails' and day = '{day}'")
    assert {row[3] for row in mails} == {"mails"}
    assert len(mails) == len([row for row in rows(second) if row[3] == "mails" and row[-1] == day])

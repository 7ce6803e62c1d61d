"""A lake in an object store: each row once, one writer, and a look at every file.

The store is moto's server: conditional puts, listings and multipart uploads are S3's by their
form. What it does not prove: how a store behaves under load and when it fails or throttles, its
rights and signatures (moto checks none), requests that time out, TLS, and costs.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from skipmq.analytics import delta
from skipmq.analytics.delta import Table
from skipmq.analytics.errors import ConflictError
from support import object_store
from support.analytics import FACTS, rows_of, settle
from support.http import SKIPMQ, environment
from support.postgres import Connection
from support.programs import need

PATIENCE = 300


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with object_store.running(tmp_path_factory.mktemp("store")) as variables:
        yield variables


@pytest.fixture
def lake(store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the path of a lake that is not there yet, in the store that this process knows then."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{object_store.BUCKET}/{tmp_path.name}"


def launch(database: str, *words: str) -> subprocess.Popen[str]:
    settings = {
        "database_url": database,
        "spark_master": "local[2]",
        "spark_jars": object_store.JARS,
    }
    return subprocess.Popen(
        [*SKIPMQ, "analytics", *words],
        env=environment(settings) | {"COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(command: subprocess.Popen[str], *codes: int) -> str:
    """Wait for a command that ends with one of these codes; return what it printed."""
    out, err = command.communicate(timeout=PATIENCE)
    assert command.returncode in codes, out + err
    return out + err


def rows(lake: str) -> list[tuple[Any, ...]]:
    """Return the facts of the lake's rows, as whoever reads Delta has them."""
    names = FACTS.split(", ")
    table = DeltaTable(f"{lake}/{delta.NAME}").to_pyarrow_table(columns=names)
    return [
        tuple(row.values()) for row in table.sort_by([(n, "ascending") for n in names]).to_pylist()
    ]


def test_of_two_commits_to_one_version_the_store_takes_one(lake: str) -> None:
    Table.create(f"{lake}/{delta.NAME}", {0: "a database"})
    first, second = delta.open_(lake), delta.open_(lake)
    first.commit("first")

    with pytest.raises(ConflictError, match="another writer has committed"):
        second.commit("second")

    said = [json.loads(c["skipmq"])["kind"] for c in _commits(lake) if "skipmq" in c]
    assert said == ["first"]


def _commits(lake: str) -> list[dict[str, Any]]:
    return DeltaTable(f"{lake}/{delta.NAME}").history()


@pytest.mark.slow
def test_commands_export_each_row_once_verify_and_report(
    store: dict[str, str], database: str, owner: Connection, lake: str, tmp_path: Path
) -> None:
    need("java")
    settle(owner, 30, "payments")
    report = ("report", "--output", str(tmp_path / "report"), "--lake", lake)

    exported = []
    for count in (100, 0, 20):
        settle(owner, count)
        said = end(launch(database, "export", "--lake", lake, "--json"), 0)
        exported.append(json.loads(said[said.index("{") :])["rows"])
    verified = end(launch(database, "verify", "--lake", lake), 0)
    reported = end(launch(database, *report), 0)
    refused = end(launch(database, *report, "--engine", "duckdb"), 2)
    exact = rows(lake)
    folder = f"{lake.rpartition('/')[2]}/{delta.NAME}/export-"
    gone = [key for key in object_store.keys(store, folder) if key.endswith(".parquet")]
    object_store.client(store).delete_object(Bucket=object_store.BUCKET, Key=gone[0])
    damaged = end(launch(database, "verify", "--lake", lake), 1)

    assert exported == [130, 0, 20]
    assert exact == rows_of(owner)
    assert "150 rows: no discrepancies" in verified
    assert "orders: 120 messages deleted" in reported
    assert "computed by Spark" in reported
    assert 'data-chart="latency-plots"' in (tmp_path / "report" / "report.html").read_text()
    assert "DuckDB reads a lake in a local folder" in refused
    assert len(gone) == 3
    assert "export again with --repair" in damaged
    assert "3 files with 150 rows: 1 queue days have discrepancies" in damaged


@pytest.mark.slow
def test_of_two_exports_at_once_each_row_is_there_once(
    database: str, owner: Connection, lake: str
) -> None:
    need("java")
    settle(owner, 50)

    both = [launch(database, "export", "--lake", lake) for _ in range(2)]
    said = [end(command, 0, 1) for command in both]

    assert 0 in [command.returncode for command in both]
    assert all(
        command.returncode == 0 or "another writer has committed" in text
        for command, text in zip(both, said, strict=True)
    )
    assert rows(lake) == rows_of(owner)

"""The events that OpenLineage's own client sends to a catalogue."""

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skipmq.cli.analytics import lineage
from support import lakes
from support.http import SKIPMQ, environment
from support.postgres import Databases
from support.programs import INSTALLED, need
from support.settled import row

REPORT = ("report", "--since", "2026-11-20", "--until", "2026-11-21", "--lake")


class Catalogue(ThreadingHTTPServer):
    """A catalogue that keeps the events it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Catalogue

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.events.append(json.loads(body) | {"path": self.path})
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def catalogue() -> Iterator[Catalogue]:
    with Catalogue() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return lakes.write(tmp_path / "lake", [row(n, settled=n + 2) for n in range(9)], {"orders": 30})


def run(
    *words: str, code: int = 0, installed: bool = True, settings: Any = None, **variables: str
) -> str:
    """Run a command of `skipmq analytics`; return its standard error."""
    client = INSTALLED / "openlineage"
    assert (client / ".installed").exists(), "run `make clients`, which installs it"
    path = {"PYTHONPATH": str(client)} if installed else {}
    done = subprocess.run(
        [*SKIPMQ, "analytics", *words],
        env=environment({"spark_master": "local[2]"} | (settings or {})) | path | variables,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_report_of_a_lake_has_its_begin_and_end(
    catalogue: Catalogue, lake: str, tmp_path: Path
) -> None:
    pages = tmp_path / "pages"

    run(*REPORT, lake, "--output", str(pages), OPENLINEAGE_URL=catalogue.url)

    begin, end = catalogue.events
    assert [begin["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    assert begin["run"]["runId"] == end["run"]["runId"]
    for event in (begin, end):
        assert event["path"] == "/api/v1/lineage"
        assert (event["job"]["namespace"], event["job"]["name"]) == ("skipmq", "report")
        (read,), (written,) = event["inputs"], event["outputs"]
        assert (read["namespace"], read["name"]) == ("file", f"{lake}/history")
        assert (written["namespace"], written["name"]) == ("file", str(pages))


def test_report_that_fails_says_why(catalogue: Catalogue, lake: str, tmp_path: Path) -> None:
    (file,) = tmp_path.glob("lake/history/export-1/*/*/*.parquet")
    file.write_bytes(b"damaged")

    run(*REPORT, lake, "--output", str(tmp_path / "pages"), code=1,
        OPENLINEAGE_URL=catalogue.url)  # fmt: skip

    begin, end = catalogue.events
    assert [begin["eventType"], end["eventType"]] == ["START", "FAIL"]
    assert "parquet" in end["run"]["facets"]["errorMessage"]["message"].lower()


def test_absent_catalogue_does_not_stop_a_report(lake: str, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    with Catalogue() as closed:
        url = closed.url

    error = run(*REPORT, lake, "--output", str(pages), OPENLINEAGE_URL=url)

    assert "OpenLineage's event was not sent" in error
    assert (pages / "report.html").exists()


def test_missing_client_is_named(lake: str, tmp_path: Path) -> None:
    error = run(*REPORT, lake, "--output", str(tmp_path / "pages"), code=1,
                installed=False, OPENLINEAGE_URL="http://127.0.0.1:9")  # fmt: skip

    assert "pip install openlineage-python" in error


@pytest.mark.slow
def test_export_has_the_number_of_its_rows(
    catalogue: Catalogue, embedded_databases: Databases, tmp_path: Path
) -> None:
    need("java")
    url = embedded_databases.migrated()

    run("export", "--lake", str(tmp_path / "lake"), settings={"database_url": url},
        OPENLINEAGE_URL=catalogue.url)  # fmt: skip

    begin, end = catalogue.events
    assert [begin["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    (read,), (written,) = end["inputs"], end["outputs"]
    assert read["namespace"].startswith("postgres://localhost:")
    assert read["name"].endswith(".skipmq_views.history")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 0


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("/srv/lake", "file", "/srv/lake/history"),
        ("file:///srv/lake", "file", "/srv/lake/history"),
        ("s3a://bucket/a/lake/", "s3://bucket", "a/lake/history"),
        ("s3://bucket/lake", "s3://bucket", "lake/history"),
        ("hdfs://name:9000/lake", "hdfs://name:9000", "/lake/history"),
    ],
)
def test_names_of_lakes_are_those_of_the_specification(
    location: str, namespace: str, name: str
) -> None:
    assert lineage.folder(location, "history") == (namespace, name)


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("postgresql://me:secret@db:5433/shop", "postgres://db:5433", "shop.skipmq_views.history"),
        ("postgresql://a,b/shop", "postgres://a:5432", "shop.skipmq_views.history"),
        ("host=/run dbname=shop", "postgres://localhost:5432", "shop.skipmq_views.history"),
        ("postgresql://me@db", "postgres://db:5432", "me.skipmq_views.history"),
    ],
)
def test_names_of_views_are_those_of_the_specification(url: str, namespace: str, name: str) -> None:
    assert lineage.database_view(url, "history") == (namespace, name)

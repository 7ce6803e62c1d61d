"""Plain `spark.read.jdbc` in a notebook, beside a node with its embedded server."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from skipmq.analytics import notebook
from skipmq.database import embedded
from skipmq.database.embedded import EmbeddedError
from support.analytics import settle, settle_copies
from support.http import NodeProcess, client
from support.postgres import Connection
from support.sql import Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def owner_url(
    public_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Give the URL of the embedded server of a node, which the settings of this process name."""
    data = public_folder / tmp_path.name
    monkeypatch.setenv("SKIPMQ_DATA_DIR", str(data))
    for name in ("DATABASE_URL", "ANALYTICS_URL"):
        monkeypatch.delenv(f"SKIPMQ_{name}", raising=False)
    with NodeProcess(data_dir=data, workers=1) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="tea")
        url = embedded.status(data).url
        assert url is not None
        yield url


@pytest.mark.slow
def test_plain_read_gives_every_view_and_as_owner_every_table(
    spark: "SparkSession", owner_url: str
) -> None:
    with psycopg.connect(owner_url, autocommit=True) as owner:
        done = Queue(owner, "done", HistoryMode="full")
        done.send("coffee")
        done.delete(*done.receive())
        named = owner.execute(
            "select format('%s.%I', n.nspname, c.relname), c.relkind = 'v'"
            " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname in ('skipmq', 'skipmq_views') and c.relkind in ('r', 'p', 'v')"
        ).fetchall()

    url, properties = notebook.connection()
    history = spark.read.jdbc(url, "skipmq_views.history", properties=properties)
    waiting = spark.read.jdbc(url, "skipmq_views.message", properties=properties)
    views = {
        name: spark.read.jdbc(url, name, properties=properties).collect()
        for name, is_view in named
        if is_view
    }
    bounds = "(select min(xid), max(xid) + 1 from skipmq_views.history) t"
    first, last = spark.read.jdbc(url, bounds, properties=properties).collect()[0]
    parted = spark.read.jdbc(
        url, "skipmq_views.history", column="xid", lowerBound=first, upperBound=last,
        numPartitions=4, properties=properties,
    )  # fmt: skip
    as_owner = notebook.connection("postgres")
    tables = {
        name: spark.read.jdbc(as_owner[0], name, properties=as_owner[1]).collect()
        for name, is_view in named
        if not is_view
    }

    assert [(row.queue, row.body) for row in history.collect()] == [("done", "coffee")]
    assert parted.collect() == history.collect()
    assert [(row.queue, row.body) for row in waiting.collect()] == [("orders", "tea")]
    assert {row.queue for row in views["skipmq_views.queue"]} == {"orders", "done"}
    assert {row.name for row in tables["skipmq.queue"]} == {"orders", "done"}
    assert notebook.connection() == (url, properties)


def test_documented_ranges_use_an_index_and_the_catalogue_has_postgresql_group(
    spark: "SparkSession", owner: Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(owner, 10)
    settle_copies(owner, 1000, 5000)
    owner.execute("analyze skipmq.history")
    monkeypatch.setenv("SKIPMQ_DATABASE_URL", database)
    url, properties = notebook.connection()

    catalogue = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    options = {"": catalogue, ".url": url, ".pushDownAggregate": "true"}
    options |= {f".{name}": value for name, value in properties.items()}
    for name, value in options.items():
        spark.conf.set(f"spark.sql.catalog.skipmq{name}", value)
    grouped = spark.sql(
        "select queue, outcome, count(*) from skipmq.skipmq_views.history group by 1, 2"
    )

    assert [tuple(row) for row in grouped.collect()] == [("orders", "deleted", 5010)]
    plan = grouped._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - Spark's plan.
    assert "PushedAggregates: [COUNT(*)]" in plan
    for column, is_indexed in (("xid", True), ("id", False)):
        # As Spark writes a range.
        query = (
            f'explain select * from skipmq_views.history where "{column}" < 9 and "{column}" >= 5'
        )
        read = str(owner.execute(query.encode()).fetchall())
        assert ("_xid_idx" in read) == is_indexed


def test_port_of_the_embedded_server_asks_for_the_password(owner_url: str) -> None:
    url, properties = notebook.connection()
    host = url.removeprefix("jdbc:postgresql://").partition("/")[0]

    with psycopg.connect(
        f"postgresql://{host}/postgres", user=properties["user"], password=properties["password"]
    ) as reader:
        found = reader.execute("select current_user").fetchone()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://skipmq_reader:guessed@{host}/postgres")

    assert owner_url.startswith("postgresql://postgres@/")
    assert host.startswith("127.0.0.1:")
    assert properties["password"] not in url
    assert found == ("skipmq_reader",)


def test_named_database_is_read_as_its_url_says(
    spark: "SparkSession", database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPMQ_DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True) as owner:
        Queue(owner, "orders")

    url, properties = notebook.connection()
    found = spark.read.jdbc(url, "skipmq_views.queue", properties=properties)

    assert [row.queue for row in found.collect()] == ["orders"]


def test_embedded_server_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKIPMQ_DATABASE_URL", raising=False)
    monkeypatch.delenv("SKIPMQ_ANALYTICS_URL", raising=False)
    monkeypatch.setenv("SKIPMQ_DATA_DIR", str(tmp_path))

    with pytest.raises(EmbeddedError, match="`skipmq serve` creates one"):
        notebook.connection()

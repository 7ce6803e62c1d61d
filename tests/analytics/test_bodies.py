"""Bodies as columns: by both engines alike, whatever they are and however their schema grows."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")

import pyarrow as pa
from click.testing import CliRunner, Result
from pyarrow import parquet

from skipmq.analytics import delta, frames, queue_settings
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.lake.export import export
from skipmq.analytics.reports import bodies
from skipmq.analytics.reports.engines import duckdb
from skipmq.cli.groups import cli
from skipmq.protocol.identity import QueueName
from support import lakes
from support.analytics import settle
from support.postgres import Connection, as_reader
from support.settled import NOON, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

SCHEMA = json.dumps({
    "type": "object",
    "properties": {
        "item": {"type": "string", "enum": ["tea", "coffee"]},
        "quantity": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "gift": {"type": "boolean"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"sku": {"type": "string"}, "any": {}}},
        },
        "tags": {"type": "array"},
        "to": {"type": "object", "properties": {"city né": {"type": "string"}}},
        "more": {"type": "object"},
    },
    "required": ["item"],
    "additionalProperties": False,
})  # fmt: skip
FITTING = (
    "{}", '{"item": "tea", "quantity": 2, "price": 3, "gift": true}', '{"item": "milk"}',
    '{"quantity": -9223372036854775808, "price": 1e300}', '{"new": [1, {"a": "b"}]}',
    '{"at": "2026-01-02T03:04:05.123456+02:00", "item": null, "to": null}',
    '{"lines": [{"sku": "a", "any": [1, 2.5, "x"]}, {}, null], "tags": [1, "a", null, {"b": []}]}',
    '{"to": {"city né": "Zürich", "zip": 8000}, "more": {"a": {"b": 1}}}',
    '{"item": "a", "item": "b"}',
    ' {"item": "\\u00e9\\n\\ud83d\\ude00"} ', '{"lines": [], "tags": [], "more": {}}',
)  # fmt: skip
UNFIT = (
    "", "no JSON", "null", "3", '"text"', "[]", '[{"item": "tea"}]', '{"item": 3}',
    '{"quantity": "2"}', '{"quantity": 2.5}', '{"quantity": 9223372036854775808}',
    '{"price": "3"}', '{"price": NaN}', '{"price": 1e999}', '{"gift": "true"}', '{"gift": 1}',
    '{"at": "yesterday"}', '{"at": "2026-01-02T03:04:05"}', '{"at": 1767323045}',
    '{"lines": {}}', '{"lines": ["a"]}', '{"lines": [{"sku": 1}]}', '{"tags": "a"}',
    '{"to": "Zürich"}', '{"to": []}', '{"item": "tea"', '{"item": "tea"} x', '{"item": "\\ud800"}',
    '{"a":' * 20_000 + "1" + "}" * 20_000,
)  # fmt: skip


def read(schema: str, *texts: str | None) -> list[dict[str, Any]]:
    return list(bodies.rows(schema, pa.array(texts, pa.string())).to_pylist())


def test_every_value_has_the_type_of_its_column() -> None:
    (one,) = read(SCHEMA, FITTING[5])
    (other,) = read(SCHEMA, FITTING[6])
    (third,) = read(SCHEMA, FITTING[7])

    assert one["body"]["at"] == datetime(2026, 1, 2, 1, 4, 5, 123456, UTC)
    assert other["body"]["lines"] == [{"sku": "a", "any": '[1,2.5,"x"]'}, *[
        {"sku": None, "any": None}, None,
    ]]  # fmt: skip
    assert other["body"]["tags"] == ["1", '"a"', None, '{"b":[]}']
    assert third["body"]["to"] == {"city né": "Zürich"}
    assert third["body"]["more"] == '{"a":{"b":1}}'


@pytest.mark.parametrize("text", FITTING)
def test_body_that_fits_is_not_in_the_column_of_others(text: str) -> None:
    (found,) = read(SCHEMA, text)

    assert (found["body"] is not None, found["unfit"]) == (True, None)


@pytest.mark.parametrize("text", UNFIT, ids=lambda text: repr(text[:40]))
def test_body_that_does_not_fit_keeps_its_text(text: str) -> None:
    assert read(SCHEMA, text) == [{"body": None, "unfit": text}]


def test_row_without_a_body_has_none() -> None:
    assert read(SCHEMA, None) == [{"body": None, "unfit": None}]


def schema_of(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": [*properties]})


def test_schema_may_grow() -> None:
    text, number = {"type": "string"}, {"type": "integer"}
    old, new = '{"a": "x"}', '{"a": "y", "b": 2}'

    grown = read(schema_of(a=text, b=number), old, new)
    changed = read(schema_of(a=number), old, '{"a": 3}')

    assert [each["body"] for each in grown] == [{"a": "x", "b": None}, {"a": "y", "b": 2}]
    assert changed == [{"body": None, "unfit": old}, {"body": {"a": 3}, "unfit": None}]


def test_both_engines_give_the_same_columns(spark: "SparkSession", tmp_path: Path) -> None:
    made = [row(n, body=body) for n, body in enumerate((*FITTING, *UNFIT, None))]
    lake = lakes.write(tmp_path / "lake", made, {})

    with duckdb.opened() as engine:
        history = engine.history(delta.open_(delta.url_of(lake)), NOON)
        by_duckdb = engine.rows(engine.with_bodies(history, SCHEMA)).sort_by("id")
    by_spark = frames.with_bodies(frames.lake(spark, lake), SCHEMA).orderBy("id").toArrow()

    assert by_duckdb.column_names == by_spark.column_names
    assert by_duckdb.schema.field("body").type == by_spark.schema.field("body").type
    assert by_duckdb.to_pylist() == by_spark.to_pylist()
    unfit = [text for text in by_spark["unfit"].to_pylist() if text is not None]
    assert unfit == list(UNFIT)


@pytest.mark.slow
def test_columns_are_the_same_from_lake_database_and_stream(
    spark: "SparkSession",
    source: "Source",
    database: str,
    owner: Connection,
    place: str,
    tmp_path: Path,
) -> None:
    queue = settle(owner, 0, HistoryMode="full", BodySchema=schema_of(item={"type": "string"}))
    queue.send('{"item": "tea"}', "no JSON")
    queue.delete(*queue.receive())
    settle(owner, 10, "mails", HistoryMode="full")
    export(spark, source, place)

    orders = QueueName("000000000000", "us-east-1", "orders")
    schema = queue_settings.body_schema(queue_settings.from_lake(delta.url_of(place)), orders)
    lake = frames.with_bodies(frames.lake(spark, place, queues=["orders"]), schema)
    settled_before = frames.with_bodies(
        frames.history(spark, source, queues=["orders"], bodies=True), schema
    )
    options = {"url": as_reader(database), "filter": "queue = 'orders'"}
    settled = spark.readStream.format("skipmq").options(**options).load()
    writer = frames.with_bodies(settled, schema).writeStream.trigger(availableNow=True)
    output = str(tmp_path / "stream")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(output)
    assert query.awaitTermination(120)

    for found in (lake, settled_before, spark.read.parquet(output)):
        facts = sorted(
            (each.item or "", each.unfit or "")
            for each in found.select("body.item", "unfit").collect()
        )
        assert facts == [("", "no JSON"), ("tea", "")]


def test_queue_without_a_schema_is_named(source: "Source", owner: Connection) -> None:
    settle(owner, 0)
    settings = queue_settings.from_database(source)

    for name in ("orders", "none"):
        with pytest.raises(AnalyticsError, match=f":{name} has no schema of its bodies: "):
            queue_settings.body_schema(settings, QueueName("000000000000", "us-east-1", name))


def written(lake: str, *arguments: str) -> Result:
    command = ["analytics", "bodies", "orders", "--lake", lake, *arguments]
    return CliRunner().invoke(cli, command)


def test_command_writes_the_columns_of_a_queue(tmp_path: Path) -> None:
    made = [
        row(1, settled=10, body='{"item": "tea"}'), row(2, settled=20, body="no JSON"),
        row(3, settled=30, body='{"item": "milk"}'),
        row(4, settled=10, body='{"item": "tea"}', account="123456789012"),
        row(5, settled=10, body='{"item": "tea"}', queue="mails"),
    ]  # fmt: skip
    lake = lakes.write(tmp_path / "lake", made, {"orders": 30})
    schema = tmp_path / "schema.json"
    schema.write_text(schema_of(item={"type": "string"}))
    file = tmp_path / "orders.parquet"
    output = ("--output", str(file))

    without = written(lake, *output)
    done = written(lake, *output, "--schema", str(schema), "--until", f"{NOON:%Y-%m-%dT%H:%M}:25")

    assert without.exit_code == 1
    assert "orders has no schema of its bodies: " in without.stderr
    assert done.stdout == f"2 messages of orders in {file}; bodies that do not fit: 1\n"
    rows = parquet.read_table(file).sort_by("id").to_pylist()
    assert [(each["id"], each["body"], each["unfit"]) for each in rows] == [
        (1, {"item": "tea"}, None), (2, None, "no JSON"),
    ]  # fmt: skip
    schema.write_text("{}")
    refused = written(lake, *output, "--schema", str(schema))
    assert refused.stderr.startswith(
        f"Error: {schema} is not a schema of bodies: Expected the type"
    )

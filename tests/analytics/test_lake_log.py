"""A lake whose log is damaged, whose store is away, or that is older than some columns."""

import json
import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from skipmq.analytics import delta, queue_settings
from skipmq.analytics.delta import Table
from skipmq.analytics.errors import LakeError
from skipmq.analytics.lake import verify
from skipmq.analytics.lake.export import export
from skipmq.analytics.lake.table_files import QueueDay
from skipmq.cli.analytics.errors import one_line_errors
from support import lakes
from support.analytics import settle
from support.http import free_port
from support.postgres import Connection
from support.settled import at_noon, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source


def old_table(place: str, database: str, schema: pa.Schema) -> None:
    """Create the table of a lake with another schema."""
    DeltaTable.create(
        f"{place}/{delta.NAME}",
        schema,
        partition_by=delta.PARTITIONS,
        configuration={"skipmq.database": database},
        raise_if_key_not_exists=False,
    )


def without(*names: str) -> pa.Schema:
    return pa.schema([field for field in delta.SCHEMA if field.name not in names])


def message(fails: Callable[[], Any]) -> str:
    """Return the text of a command's error, which is a line."""
    with pytest.raises(click.ClickException) as raised:
        one_line_errors(fails)()
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 400
    return raised.value.message


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda whole: whole[:-20], True),
        (lambda _: b"nonsense\n", True),
        (lambda whole: whole.replace(b'"size"', b'"sizx"'), False),
    ],
)
def test_damaged_entry_of_the_log_takes_one_sentence(
    tmp_path: Path, spoil: Callable[[bytes], bytes], named: bool
) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n) for n in range(5)], {"orders": 30})
    entry = tmp_path / "lake" / "history" / "_delta_log" / f"{1:020d}.json"
    entry.write_bytes(spoil(entry.read_bytes()))

    text = message(lambda: delta.open_(delta.url_of(lake)).files)

    assert text.startswith(f"the log of the lake file://{lake} cannot be read: ")
    assert (f"{entry} is damaged. Restore it from a backup" in text) is named


def test_digests_are_read_once_from_a_log_with_and_without_a_checkpoint(tmp_path: Path) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n) for n in range(5)], {"orders": 30})
    table = delta.open_(delta.url_of(lake))
    days = [QueueDay(date(2026, 1, n), "orders") for n in range(1, 6)]
    table.commit("repair", digests={days[0]: 1, days[1]: 2, days[2]: 3})
    DeltaTable(f"{lake}/{delta.NAME}").create_checkpoint()
    table.commit("repair", digests={days[1]: 20, days[3]: 4})
    (tmp_path / "lake" / "history" / "_delta_log" / f"{1:020d}.json").unlink()
    table.reopen()

    before = table.digest(days[0])
    shutil.rmtree(tmp_path / "lake" / "history" / "_delta_log")

    assert [before, *map(table.digest, days[1:])] == [1, 20, 3, 4, 0]


@pytest.mark.parametrize("kept", [{"numRecords": 3}, {}])
def test_statistics_that_the_log_lacks_are_those_of_the_footers(
    tmp_path: Path, kept: dict[str, int]
) -> None:
    lake = lakes.write(tmp_path / "lake", [row(n, sent=n, settled=9) for n in (4, 5, 6)], {})
    opened = delta.open_(delta.url_of(lake))
    (file,), since = opened.files, opened.first_settled
    entry = tmp_path / "lake" / "history" / "_delta_log" / f"{1:020d}.json"
    text = entry.read_text()
    entry.write_text(
        re.sub(r'"stats":"(\\.|[^"])*"', f'"stats":{json.dumps(json.dumps(kept))}', text)
    )
    assert entry.read_text() != text

    opened.reopen()
    found = verify.check(opened, None, deep=True)

    assert (opened.files, opened.first_settled) == ([file], since)
    assert (file.rows, file.first, file.last, file.sent) == (3, 4, 6, at_noon(4))
    assert (found.rows, found.discrepancies) == (3, [])

    lakes.damage_footer(tmp_path / "lake" / "history" / file.path)
    opened.reopen()
    (wrong,) = verify.check(opened, None).discrepancies

    assert f"{file.path} has a damaged footer" in wrong.problems[0]


def test_store_that_does_not_answer_takes_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    text = message(lambda: delta.open_("s3a://bucket/lake"))

    assert text == (
        "Generic S3 error: Connection refused (os error 111). Check the address of the lake, and"
        " the region, the endpoint and the keys of its object store"
    )


def test_columns_that_an_older_lake_lacks_are_added_by_the_export(
    spark: "SparkSession", source: "Source", owner: Connection, place: str
) -> None:
    from skipmq.analytics.postgres import history  # noqa: PLC0415

    settle(owner, 10, HistoryMode="full")
    with source.connect() as session:
        old_table(place, history.server(session).database, without("node", "body"))

    export(spark, source, place)

    table = DeltaTable(f"{place}/{delta.NAME}")
    read = table.to_pyarrow_table(columns=["id", "body", "node"])
    assert sorted(read["body"].to_pylist()) == [f"body {n}" for n in range(10)]
    assert {field.name for field in table.schema().fields} == set(delta.SCHEMA.names)


def test_column_of_another_type_is_refused(tmp_path: Path) -> None:
    other = without("receive_count").append(pa.field("receive_count", pa.string()))
    old_table(str(tmp_path), "a database", other)
    table = Table(delta.url_of(f"{tmp_path}/{delta.NAME}"))

    with pytest.raises(LakeError, match=r"has the column receive_count of the type .*string"):
        table.add_columns()

    assert table.version == 0


def test_settings_of_an_older_lake_lack_columns_and_get_them(tmp_path: Path) -> None:
    lake = delta.url_of(str(tmp_path))
    settings = {"account": "1", "region": "r", "queue": "orders", "visibility_timeout": 30}
    whole = pa.Table.from_pylist([settings | {"tags": "{}"}], schema=queue_settings.SCHEMA)
    write_deltalake(f"{lake}/{queue_settings.NAME}", whole.drop_columns(["tags", "fifo"]))

    old = queue_settings.from_lake(lake)
    queue_settings.write(lake, whole)

    assert old.to_pylist()[0]["visibility_timeout"] == 30
    assert old["tags"].to_pylist() == [None]
    assert queue_settings.from_lake(lake).equals(whole)

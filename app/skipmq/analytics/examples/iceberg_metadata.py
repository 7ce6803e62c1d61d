"""Metadata of Iceberg for the files of a lake, so that readers of Iceberg need no copy of them.

    pip install deltalake 'pyiceberg[pyarrow,sql-sqlite]>=0.12'
    python iceberg_metadata.py /var/lib/skipmq/lake

Run it after each export. It commits the files of the Delta table's version as one snapshot of an
Iceberg table, LAKE/iceberg, in the layout of Hadoop's catalog: `metadata/version-hint.text` has the
number of the newest `metadata/vN.metadata.json`, whose path it prints. Of two at once run one.
"""

import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

NAME = "skipmq.history"
# The property of a snapshot with the version of the Delta table.
VERSION = "skipmq.delta-version"
# Readers find the columns of files, which have no field IDs, by their names.
MAPPING = "schema.name-mapping.default"


def publish(lake: Path) -> Path:
    """Commit a snapshot of the lake's newest version, unless there is one; return its metadata."""
    delta = DeltaTable(str(lake / "history"))
    folder = lake.absolute() / "iceberg" / "metadata"
    hint = folder / "version-hint.text"
    newest = int(hint.read_text()) if hint.exists() else 0
    catalog = InMemoryCatalog("lake", warehouse=folder.parent.as_uri())
    catalog.create_namespace("skipmq")
    iceberg = (
        catalog.register_table(NAME, (folder / f"v{newest}.metadata.json").as_uri())
        if newest
        else create(catalog, delta, folder.parent)
    )
    snapshot = iceberg.current_snapshot()
    if snapshot and snapshot.summary and snapshot.summary[VERSION] == str(delta.version()):
        return folder / f"v{newest}.metadata.json"
    commit(iceberg, delta)
    written = Path(catalog.load_table(NAME).metadata_location.removeprefix("file://"))
    published = written.rename(folder / f"v{newest + 1}.metadata.json")
    temporary = hint.with_suffix(".new")
    temporary.write_text(str(newest + 1))
    temporary.replace(hint)
    return published


def create(catalog: InMemoryCatalog, delta: DeltaTable, folder: Path) -> Table:
    """Create a table with the columns and partitions of the Delta table."""
    schema = pa.schema(delta.schema())
    iceberg = catalog.create_table(NAME, schema, location=folder.as_uri())
    with iceberg.update_spec() as spec:
        for name in delta.metadata().partition_columns:
            spec.add_identity(name)
    with iceberg.transaction() as transaction:
        transaction.set_properties(
            {MAPPING: iceberg.schema().name_mapping.model_dump_json()},
        )
    return catalog.load_table(NAME)


def commit(iceberg: Table, delta: DeltaTable) -> None:
    """Commit the difference between the files of both tables as one snapshot."""
    old = {task.file.file_path: task.file for task in iceberg.scan().plan_files()}
    new = {
        f"{Path(delta.table_uri.removeprefix('file://')).as_uri()}/{row['path']}": row
        for row in pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    }
    version = {VERSION: str(delta.version())}
    with (
        iceberg.transaction() as transaction,
        transaction.update_snapshot(version).overwrite() as snapshot,
    ):
        for path in old.keys() - new.keys():
            snapshot.delete_data_file(old[path])
        for path in sorted(new.keys() - old.keys()):
            row = new[path]
            day = (row["partition.day"] - date(1970, 1, 1)).days
            file = DataFile.from_args(
                content=DataFileContent.DATA, file_format=FileFormat.PARQUET, file_path=path,
                # Files lack the columns of their partition: readers have them from here.
                partition=Record(day, row["partition.queue"]),
                record_count=row["num_records"], file_size_in_bytes=row["size_bytes"],
            )  # fmt: skip
            file.spec_id = iceberg.spec().spec_id
            snapshot.append_data_file(file)


if __name__ == "__main__":
    sys.stdout.write(f"{publish(Path(sys.argv[1]))}\n")

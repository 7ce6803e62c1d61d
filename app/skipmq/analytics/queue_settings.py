"""The settings of existing queues, from the database or from the lake's table `queues`."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from skipmq.analytics.columns import PARTITION
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.postgres import history
from skipmq.protocol.identity import QueueName

NAME = "queues"
# Columns of `skipmq_views.queue` and the partition; times in seconds, sizes in bytes, tags as JSON.
SCHEMA = pa.schema([
    *((name, pa.string()) for name in ("account", "region", "queue")),
    ("fifo", pa.bool_()),
    ("created_at", pa.timestamp("us", "UTC")),
    ("history_mode", pa.string()),
    *(
        (name, pa.int32())
        for name in ("visibility_timeout", "delay_seconds", "maximum_message_size",
                     "message_retention_period", "receive_message_wait_time_seconds")
    ),
    *((name, pa.string()) for name in ("dead_letter_account", "dead_letter_name")),
    ("max_receive_count", pa.int32()),
    *(
        (name, pa.string())
        for name in ("replication_mode", "tags", "body_schema", "body_schema_mode")
    ),
    ("partition", pa.int32()),
])  # fmt: skip
# The columns that the reports use.
TIMEOUTS = ["account", "region", "queue", "visibility_timeout"]


def from_database(source: Source) -> pa.Table:
    """Read the settings of all queues from a database; raise database.session.Unavailable."""
    tables = []
    for database in source.databases:
        with database.connect() as session:
            rows = history.queue_settings(session, [*SCHEMA.names[:-1], PARTITION])
        settings = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
        tables.append(pa.Table.from_pylist(settings, schema=SCHEMA))
    return merged(tables)


def merged(settings: Sequence[pa.Table]) -> pa.Table:
    """Return the settings of these tables, sorted by account, region and queue."""
    return pa.concat_tables(settings).sort_by([(name, "ascending") for name in SCHEMA.names[:3]])


def selected(settings: pa.Table, partitions: Collection[int]) -> pa.Table:
    """Return the settings of the queues of these partitions."""
    wanted = pa.array(list(partitions), pa.int32())
    return settings.filter(pc.is_in(settings["partition"].fill_null(0), wanted))


def from_lake(lake: str) -> pa.Table:
    """Read the settings as of the last export from the lake at a URL; empty if it has none."""
    if not DeltaTable.is_deltatable(f"{lake}/{NAME}"):
        return SCHEMA.empty_table()
    # Not to_pyarrow_table, whose threads hold files of Python's and abort a process that ends soon.
    query = QueryBuilder().register("queues", DeltaTable(f"{lake}/{NAME}"))
    table = pa.table(query.execute("select * from queues"))
    # A table that is older than a column lacks it.
    for column in SCHEMA:
        if column.name not in table.column_names:
            table = table.append_column(column, pa.nulls(len(table), column.type))
    return merged([table.select(SCHEMA.names).cast(SCHEMA)])


def body_schema(settings: pa.Table, queue: QueueName) -> str:
    """Return the schema of a queue's bodies; raise AnalyticsError if it has none."""
    for row in settings.select([*SCHEMA.names[:3], "body_schema"]).to_pylist():
        *place, schema = row.values()
        if QueueName(*place) == queue and schema:
            return str(schema)
    raise AnalyticsError(
        f"{queue.arn} has no schema of its bodies: `skipmq queue set {queue.name} BodySchema=…`"
        " sets it, and the next export has it"
    )


def write(lake: str, settings: pa.Table) -> None:
    """Replace the settings in the lake at a URL if they have changed."""
    if not settings.equals(from_lake(lake)):
        write_deltalake(f"{lake}/{NAME}", settings, mode="overwrite", schema_mode="overwrite")

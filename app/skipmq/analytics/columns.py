"""The columns of the history, which are the same from every source."""

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from skipmq.database.partitions import QUEUE_BITS

_TEXT, _INTEGER, _LONG, _TIME = StringType(), IntegerType(), LongType(), TimestampType()

_VIEW: list[tuple[str, DataType]] = [
    ("settled_at", _TIME),
    ("sent_at", _TIME),
    ("first_received_at", _TIME),
    ("xid", _LONG),
    ("id", _LONG),
    ("queue_id", _LONG),
    ("account", _TEXT),
    ("region", _TEXT),
    ("queue", _TEXT),
    ("fifo", BooleanType()),
    ("receive_count", _INTEGER),
    ("body_bytes", _INTEGER),
    ("attribute_bytes", _INTEGER),
    ("message_id", _TEXT),
    ("outcome", _TEXT),
    ("group_id", _TEXT),
    ("deduplication_id", _TEXT),
    ("sender", _TEXT),
    ("trace_header", _TEXT),
    ("node", _TEXT),
    ("attributes", _TEXT),
    ("body", _TEXT),
]

_DERIVED: list[tuple[str, DataType]] = [("day", DateType()), ("partition", _INTEGER)]

# The view `skipmq_views.history`, the day of settlement in UTC, and the number of the partition
# that has the queue, which is 0 for a single database. Sizes are in bytes. outcome is one of
# deleted, expired, purged, dead-lettered and redriven. attributes is JSON text; it and the body are
# null if the queue's history mode was not `full`. node may be null.
HISTORY = StructType([StructField(n, t) for n, t in [*_VIEW, *_DERIVED]])

# The partition in the SQL of PostgreSQL, Spark and DuckDB alike.
PARTITION = f"cast(queue_id >> {QUEUE_BITS} as integer)"

# The columns that `skipmq_views.history_metadata` lacks.
CONTENT = ("attributes", "body")

VIEW = [name for name, _ in _VIEW]

"""The columns of the history, which are the same from every source, and a digest of rows."""

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

# A version of one of Delta's transactions, a signed number of 64 bits, holds a digest.
DIGEST_MODULUS = 1 << 62


def _digest(text: str, micros: str, number: str) -> str:
    """Return the digest of rows in SQL whose names are a type and patterns of two conversions.

    That of a row is a number of 60 bits of the MD5 of its values, each with the number of its
    column, without nulls. The digest of rows is the sum of theirs, so it depends neither on their
    order nor on their files, and does not change when a column is appended.
    """
    values = (
        f"'{position} ' || cast({pattern.format(column.name)} as {text})"
        for position, column in enumerate(HISTORY)
        for pattern in (micros if column.dataType == TimestampType() else "{}",)
        if column.name in VIEW
    )
    digits = f"left(md5(concat_ws(chr(31), {', '.join(values)})), 15)"
    return f"coalesce(sum({number.format(digits)}), 0)"


# Which compute it alike.
POSTGRESQL_DIGEST = _digest(
    "text", "(extract(epoch from {}) * 1000000)::bigint", "('x' || {})::bit(60)::bigint"
)
SPARK_DIGEST = _digest("string", "unix_micros({})", "cast(conv({}, 16, 10) as decimal(38, 0))")
DUCKDB_DIGEST = _digest("varchar", "epoch_us({})", "cast('0x' || {} as bigint)")

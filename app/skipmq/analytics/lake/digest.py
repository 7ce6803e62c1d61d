"""A digest of rows that PostgreSQL, Spark and DuckDB compute alike.

The digest of a row is a number of 60 bits of the MD5 of its values, each with the number of its
column, without nulls. The digest of rows is the sum of theirs, so it depends neither on their order
nor on their files, and does not change when a column is appended.
"""

from pyspark.sql.types import TimestampType

from skipmq.analytics.columns import HISTORY, VIEW

# A version of one of Delta's transactions, a signed number of 64 bits, holds a digest.
MODULUS = 1 << 62


def _aggregate(text: str, micros: str, number: str) -> str:
    """Return the aggregate in SQL whose names are a type and patterns of two conversions."""
    values = (
        f"'{position} ' || cast({pattern.format(column.name)} as {text})"
        for position, column in enumerate(HISTORY)
        for pattern in (micros if column.dataType == TimestampType() else "{}",)
        if column.name in VIEW
    )
    digits = f"left(md5(concat_ws(chr(31), {', '.join(values)})), 15)"
    return f"coalesce(sum({number.format(digits)}), 0)"


POSTGRESQL = _aggregate(
    "text", "(extract(epoch from {}) * 1000000)::bigint", "('x' || {})::bit(60)::bigint"
)
SPARK = _aggregate("string", "unix_micros({})", "cast(conv({}, 16, 10) as decimal(38, 0))")
DUCKDB = _aggregate("varchar", "epoch_us({})", "cast('0x' || {} as bigint)")

"""The names under which a lake's table keeps what belongs to each partition.

The first partition has the names of a single database, which may become one.
"""

from collections.abc import Mapping

from skipmq.analytics.lake.table_files import STATISTICS, QueueDay

# The application ID of the transaction whose version is the first xid that is not in the table, and
# the key of our data in commits.
WRITER = "skipmq"
_DATABASE = "skipmq.database"
# Without it delta-rs takes all columns to have statistics, and a filter on one that has none, as by
# DuckDB over `to_pyarrow_dataset`, finds no row.
_STATISTICS = "delta.dataSkippingStatsColumns"
_RETENTION = "delta.deletedFileRetentionDuration"
# The application ID of the transaction whose version is the number of the first day that is kept.
EXPIRED = "skipmq.expired"


def position(partition: int) -> str:
    """Return the application ID of the transaction whose version is a partition's position."""
    return f"{WRITER}/{partition}" if partition else WRITER


def timeline(partition: int) -> str:
    """Return the application ID of the transaction whose version is a partition's timeline."""
    return f"skipmq.timeline/{partition}"


def digest(queue_day: QueueDay) -> str:
    """Return the application ID of the transaction whose version is the digest of these rows."""
    day, queue, partition = queue_day
    return f"skipmq.digest/{day}/{queue}" + (f"/{partition}" if partition else "")


def properties(databases: Mapping[int, str]) -> dict[str, str]:
    """Return the table's properties: the identifiers of its databases, by partition, and others."""
    identifiers = {f"{_DATABASE}.{n}" if n else _DATABASE: each for n, each in databases.items()}
    return identifiers | {_STATISTICS: ",".join(STATISTICS), _RETENTION: "interval 1 days"}


def databases(properties: Mapping[str, str]) -> dict[int, str]:
    """Return the identifiers of databases, by partition, in a table's properties."""
    return {
        int(name.removeprefix(_DATABASE).removeprefix(".") or 0): identifier
        for name, identifier in properties.items()
        if name == _DATABASE or name.startswith(f"{_DATABASE}.")
    }

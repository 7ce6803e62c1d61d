"""Lakes made by hand, as an export leaves them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from skipmq.analytics import delta, queue_settings
from skipmq.analytics.delta import Table
from skipmq.analytics.lake import stored_rows


def write(
    place: Path,
    rows: Iterable[dict[str, Any]],
    timeouts: dict[str, int],
    account: str = "000000000000",
) -> str:
    """Write a lake with settled rows, and the visibility timeouts of queues; return its path."""
    table = Table.create(delta.url_of(f"{place}/{delta.NAME}"), {0: "a database"})
    parquet.write_to_dataset(
        pa.Table.from_pylist(
            [{"day": row["settled_at"].date(), **row} for row in rows], schema=delta.SCHEMA
        ),
        place / delta.NAME / "export-1",
        partition_cols=delta.PARTITIONS,
    )
    table.commit("export", stored_rows.written(table, "export-1"))
    queues = [
        {"account": account, "region": "us-east-1", "queue": n, "visibility_timeout": t}
        for n, t in timeouts.items()
    ]
    queue_settings.write(
        delta.url_of(str(place)), pa.Table.from_pylist(queues, queue_settings.SCHEMA)
    )
    return str(place)


def damage_footer(file: Path) -> None:
    """Alter the first byte of a Parquet file's footer."""
    content = bytearray(file.read_bytes())
    content[-8 - int.from_bytes(content[-8:-4], "little")] ^= 0xFF
    file.write_bytes(content)

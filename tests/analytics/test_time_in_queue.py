"""The console's percentiles by SQL and the reports' by Spark are the same numbers."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from skipmq.analytics import frames
from skipmq.analytics.reports import summary
from support.postgres import Connection
from support.sql import Queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skipmq.analytics.jdbc import Source

# Of 400 messages, a few of which were never received, or not deleted; by their number, in
# microseconds that no two share.
SETTLED = """
insert into skipmq.history (
  settled_at, sent_at, first_received_at, xid, id, queue_id, receive_count, body_bytes,
  attribute_bytes, message_id, outcome)
select
  t, t - interval '1 s' - n * interval '7919 us',
  case when n %% 9 > 0 then t - (n * 104729 %% 999983) * interval '1 us' end,
  pg_current_xact_id()::text::bigint, n, %s, 1, 3, 0, gen_random_uuid(),
  case when n %% 7 = 0 then 'expired' else 'deleted' end::skipmq.outcome
from generate_series(1, 400) n
cross join lateral (select skipmq.clock() - n * interval '1 ms' as t) c
"""
SQL = (
    "select deleted, settled, send_to_receive, send_to_delete"
    " from skipmq.time_in_queue(%s, 60) where step is null"
)


def test_console_and_reports_give_the_same_numbers(
    spark: "SparkSession", source: "Source", owner: Connection
) -> None:
    queues = {name: Queue(owner, name) for name in ("orders", "mails")}
    for queue in queues.values():
        owner.execute(SETTLED, (queue.id,))

    rows = summary(frames.history(spark, source)).collect()

    assert [row["queue"] for row in rows] == sorted(queues)
    for row in rows:
        by_spark = (
            row["deleted"],
            row["settled"],
            *(
                [round(row[f"{name}_{rank}"] * 1_000_000) for rank in ("p50", "p95", "p99")]
                for name in ("send_to_receive", "send_to_delete")
            ),
        )
        assert owner.execute(SQL, (queues[row["queue"]].id,)).fetchone() == by_spark

"""What is wrong in planted situations, in the sentences of a report."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import duckdb
import pyarrow as pa

from skipmq.analytics import delta, queue_settings
from skipmq.analytics.reports import page, report
from skipmq.analytics.reports.engines.duckdb import DuckEngine
from skipmq.analytics.reports.period import Period
from support.settled import NOON, row

HOUR = Period(NOON, NOON + timedelta(hours=1))
Rows = Sequence[dict[str, Any]]


def calm(count: int = 200, work: float = 1, **others: Any) -> Rows:
    """Return messages that arrive every ten seconds, and are received in 50 ms."""
    return [
        row(n, sent=10 * n, received=10 * n + 0.05, settled=10 * n + work, **others)
        for n in range(count)
    ]


def letters(count: int, receives: int, seconds: float, *, settled: bool = True) -> Rows:
    """Return dead letters, each in its source queue and in its dead-letter queue."""
    found = []
    for n in range(1_000, 1_000 + count):
        common = {"sent": n - 1_000, "received": n - 999.9, "receive_count": receives}
        moved = n - 999.9 + seconds
        found += [
            row(n, settled=moved, outcome="dead-lettered", **common),
            row(n, settled=moved + 1_200 if settled else None, queue="dead", **common),
        ]
    return found


def burst(received: float) -> Rows:
    """Return 6,000 messages of one second, of which a number is received each second."""
    waits = [n / received for n in range(6_000)]
    return [
        row(n, sent=630 + n / 6_000, received=631 + wait, settled=632 + wait)
        for n, wait in enumerate(waits)
    ]


def stalled() -> Rows:
    """Return messages of every second, none of which is received for five minutes."""
    taken = [max(n + 0.1, 900) if 600 <= n < 900 else n + 0.1 for n in range(1_800)]
    return [row(n, sent=n, received=at, settled=at + 1) for n, at in enumerate(taken)]


def waiting(count: int, since: float) -> Rows:
    return [
        row(5_000 + n, sent=since + n, received=None, settled=None, outcome=None)
        for n in range(count)
    ]


GOOD = (
    "200 messages deleted, half of them within {} of their send and 99 % within {}; hardly one"
    " waited longer than 1 min"
)
SITUATIONS: Mapping[str, tuple[Rows, Sequence[tuple[str, str, str]]]] = {
    "calm": (calm(), [("good", "orders", GOOD.format("1 s", "1 s"))]),
    "jobs of six minutes are not waits": (
        calm(work=360),
        [("good", "orders", GOOD.format("6 min", "6 min"))],
    ),
    "jobs in flight are no backlog": (
        [*calm(), *(r | {"id": 9_000 + r["id"], "settled_at": None} for r in calm(350)[250:])],
        [("good", "orders", GOOD.format("1 s", "1 s"))],
    ),
    "poison is not a wait": (
        [*calm(), *letters(3, 5, 150)],
        [
            ("bad", "orders", "3 dead letters (1.5 %)"),
            ("good", "dead", GOOD.format("23 min", "23 min").replace("200", "3")),
        ],
    ),
    "dead letters that no consumer takes are no backlog": (
        [*calm(), *letters(3, 5, 150, settled=False)],
        [("bad", "orders", "3 dead letters (1.5 %)")],
    ),
    "burst": (
        burst(50),
        [
            (
                "watch",
                "orders",
                "from 2026-11-20 12:10 to 2026-11-20 12:13 up to 4,550 waiting, the longest wait"
                " 120 s; 6,000 arrived, 6,000 left the backlog",
            )
        ],
    ),
    "stall": (
        stalled(),
        [
            (
                "bad",
                "orders",
                "from 2026-11-20 12:10 to 2026-11-20 12:15 up to 300 waiting, the longest wait"
                " 5 min; 330 arrived, 330 left the backlog, none for 5 min",
            )
        ],
    ),
    "backlog that no consumer takes": (
        [*calm(), *waiting(500, 2_600)],
        [
            (
                "bad",
                "orders",
                "500 waiting, the oldest for 17 min; it grows by 10 a minute, with 0 an hour"
                " received",
            )
        ],
    ),
    "work longer than the timeout, until dead": (
        letters(120, 3, 90.5),
        [
            (
                "bad",
                "orders",
                "120 messages timed out at each of their receives, and none was deleted at its"
                " first: work exceeds the visibility timeout of 30 s (raise it to 45 s), or"
                " consumers die",
            ),
            ("bad", "orders", "120 dead letters (100 %)"),
            ("good", "dead", GOOD.format("22 min", "22 min").replace("200", "120")),
        ],
    ),
    "work about as long as the timeout, some until dead": (
        [*calm(work=28), *letters(20, 3, 90.5)],
        [
            (
                "bad",
                "orders",
                "9.1 % redelivered, p99 processing 28 s is close to its visibility timeout of 30 s:"
                " raise it to 45 s",
            ),
            ("bad", "orders", "20 dead letters (9.1 %)"),
            ("good", "dead", GOOD.format("22 min", "22 min").replace("200", "20")),
        ],
    ),
    "expired": (
        [
            *calm(),
            *(row(n, sent=-9_000, received=None, settled=60, outcome="expired")
              for n in range(300, 310)),
        ],
        [
            (
                "bad",
                "orders",
                "10 messages (4.8 %) expired: they were not deleted within their retention period",
            ),
            (
                "bad",
                "orders",
                "from 2026-11-20 12:00 to 2026-11-20 12:01 up to 10 waiting, the longest wait"
                " 2.5 h; 9 arrived, 19 left the backlog",
            ),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_planted_situation_has_its_sentence(situation: str) -> None:
    rows, expected = SITUATIONS[situation]
    history = pa.Table.from_pylist(list(rows), schema=delta.SCHEMA)
    place = {"account": "000000000000", "region": "us-east-1"}
    settings = [place | {"queue": name, "visibility_timeout": 30} for name in ("orders", "dead")]
    queues = pa.Table.from_pylist(settings, schema=queue_settings.SCHEMA)
    with duckdb.connect() as connection:
        engine = DuckEngine(connection)
        connection.register("history", history)
        with report.reports(engine, "history", engine.queues(queues), HOUR) as computed:
            tables = {name: compute().to_pylist() for name, compute in computed.items()}

    found = page.report_findings(page.ReportData("planted", HOUR, tables, live=True))

    assert [(each.weight, each.queue, each.text) for each in found] == list(expected)

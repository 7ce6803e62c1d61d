import re
from typing import Any

import pytest

from support.audit import ORDERS, record, write, written
from support.postgres import Connection

OTHER, KEY = "123456789012", "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def log(node: Connection) -> Connection:
    """Give a node's connection after records whose request ids are numbers."""
    write(
        node,
        record(request_id="0"),
        record(request_id="1", action="PurgeQueue", account=OTHER, access_key=KEY),
        record(request_id="2", queue=ORDERS.replace("000000000000", OTHER), account=OTHER),
        record(request_id="3", queue=None, account=None, outcome="AccessDenied"),
    )
    return node


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "3210"),
        ({"limit": 2}, "32"),
        ({"queue": ORDERS}, "10"),
        ({"access_key": KEY}, "1"),
        ({"action": "PurgeQueue"}, "1"),
        ({"outcome": "AccessDenied"}, "3"),
        ({"queue": ORDERS, "outcome": "AccessDenied"}, ""),
        # What it did, what was done to its queues, and what nobody knows whose it is.
        ({"account": "000000000000"}, "310"),
        ({"account": OTHER}, "321"),
    ],
)
def test_records_that_match_come_newest_first(
    log: Connection, filters: dict[str, Any], expected: str
) -> None:
    assert "".join(each["request_id"] for each in written(log, **filters)) == expected


def test_pages_continue_before_the_last_record(log: Connection) -> None:
    seen, before = "", None
    while page := written(log, limit=2, before=before):
        seen += "".join(each["request_id"] for each in page)
        before = page[-1]["id"]

    assert seen == "3210"


@pytest.mark.parametrize("filters", [{"account": OTHER}, {"outcome": "AccessDenied"}])
def test_records_of_others_are_not_read(
    owner: Connection, node: Connection, filters: dict[str, str]
) -> None:
    for first in range(0, 5000, 1000):
        write(node, *[record(request_id=f"{n}") for n in range(first, first + 1000)])
    owner.execute("vacuum analyze skipmq.audit_record")
    ((name, value),) = filters.items()
    query = f"select * from skipmq.audit_records(p_{name} => '{value}')"
    owner.execute(query.encode())

    rows = owner.execute(f"explain (analyze, buffers, timing off) {query}".encode()).fetchall()

    # The 5,000 records are in more than 80 blocks.
    hits = re.search(r"shared hit=(\d+)", "\n".join(row[0] for row in rows))
    assert hits
    assert int(hits[1]) < 60

import re
from datetime import timedelta
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


def test_records_are_those_of_a_user_of_changes_and_of_a_time(
    owner: Connection, node: Connection
) -> None:
    user = "arn:aws:iam::000000000000:user/shop"
    owner.execute("insert into skipmq.revoked_key values (%s, %s, 'shop', now())", (KEY, OTHER))
    write(
        node,
        record(request_id="0", age=7200.0, user_arn=user),
        record(request_id="1", age=600.0, user_arn="workshop"),
        record(request_id="2", account=None, access_key=KEY, claimed=True, outcome="AccessDenied"),
        record(request_id="3", age=5.0, action="SignIn", user_arn=user),
    )
    now = owner.execute("select skipmq.clock()").fetchone()
    assert now is not None

    def found(**filters: Any) -> str:
        return "".join(each["request_id"] for each in written(node, **filters))

    # By the time of the request, not by that of the write.
    assert found() == "2310"
    assert found(by="shop") == "230"
    assert found(by=user, changes=True) == "0"
    assert found(changes=True) == "10"
    assert found(since=now[0] - timedelta(hours=1)) == "231"
    assert found(until=now[0] - timedelta(minutes=5), account="000000000000") == "10"
    assert found(since="-infinity", until="infinity") == "2310"
    (claimed, *_) = written(node)
    assert (claimed["key_name"], claimed["account"]) == ("shop", OTHER)


def test_pages_continue_before_the_last_record(log: Connection) -> None:
    seen, before = "", None
    while page := written(log, limit=2, before=before):
        seen += "".join(each["request_id"] for each in page)
        before = page[-1]["id"]

    assert seen == "3210"


@pytest.mark.parametrize(
    "filters", [{"account": OTHER}, {"outcome": "AccessDenied"}, {"by": "shop"}]
)
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

from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, advance


def listed(queue: Queue, limit: int = 50, after: str | None = None, **given: Any) -> list[Any]:
    cursor = queue.connection.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(
        "select * from skipmq.queue_groups(%s, %s, %s, %s, %s)",
        (queue.id, limit, after, given.get("group"), given.get("most", 1000)),
    ).fetchall()


def test_groups_in_flight_are_first_with_who_holds_them(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "b:1", "c:1", "c:2")
    one, _ = fifo.receive(2, timeout=1000)
    fifo.connection.execute(
        "select from skipmq.claim_fifo_messages(%s, '{0, 1}', 2000, null, '{http/A/1, http/B/::1}'"
        "::text[])",
        (fifo.id,),
    )

    b, a, c = listed(fifo)

    assert [(e["group_id"], e["state"], e["in_flight"], e["behind"]) for e in (b, a, c)] == [
        ("b", "in-flight", 1, 0),
        ("a", "in-flight", 2, 1),
        ("c", "visible", 0, 2),
    ]
    assert b["receiver"] == "http/B/::1"
    assert a["receiver"].split("/")[0] == "sql"
    assert (a["id"], a["received_at"]) == (one["id"], one["received_at"])
    assert (a["until"] - a["received_at"]).total_seconds() == 1000
    assert (c["receiver"], c["received_at"], c["until"]) == (None, None, None)
    assert [each["id"] for each in listed(fifo, group="a")] == [a["id"]]
    assert [each["behind"] for each in listed(fifo, most=2)] == [0, 0, 2]


def test_pages_have_each_group_once(fifo: FifoQueue) -> None:
    fifo.put(*[f"{n}:x" for n in range(7)])
    fifo.receive(4, timeout=1000)

    found, after = [], None
    while rows := listed(fifo, 3, after):
        found += [each["group_id"] for each in rows]
        after = rows[-1]["place"]

    assert sorted(found) == list("0123456")
    assert {each["state"] for each in listed(fifo, 4)} == {"in-flight"}
    advance(fifo.connection, "1001 s")
    assert {each["state"] for each in listed(fifo)} == {"visible"}


def test_standard_queue_has_no_groups(orders: Queue) -> None:
    with pytest.raises(psycopg.Error) as caught:
        listed(orders)

    assert caught.value.sqlstate == "SQ007"

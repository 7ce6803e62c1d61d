from support.postgres import Connection
from support.sql import Queue

NOTE = (
    "select skipmq.note_consumers(%s, %s, %s, %s, %s::bigint[], %s::bigint[], %s::bigint[],"
    " %s::bigint[], %s::bigint[], %s, %s)"
)
ROWS = "select process, caller, receives, received, deleted, waiting from skipmq.consumer"


def note(node: Connection, process: str, queue: int, *numbers: int, last: int | None = 0) -> None:
    values = [[each] for each in numbers]
    node.execute(
        NOTE, (process, [queue], ["AKIA1"], ["10.0.0.1"], [5000], [last], *values, ["Boto3/1"])
    )


def test_later_totals_replace_earlier_ones(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    note(node, "a", orders.id, 1, 10, 0, 1)
    note(node, "a", orders.id, 2, 15, 7, 0)
    note(node, "b", orders.id, 1, 1, 1, 3)

    rows = owner.execute(f"{ROWS} order by process").fetchall()
    assert rows == [("a", "AKIA1", 2, 15, 7, 0), ("b", "AKIA1", 1, 1, 1, 3)]


def test_time_of_the_first_receive_is_kept(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    since = "select since from skipmq.consumer"
    note(node, "a", orders.id, 1, 1, 1, 0)
    first = owner.execute(since).fetchone()
    note(node, "a", orders.id, 2, 2, 2, 0)

    assert owner.execute(since).fetchone() == first


def test_consumer_that_never_received_has_no_last_receive(
    owner: Connection, node: Connection, orders: Queue
) -> None:
    note(node, "a", orders.id, 0, 0, 4, 0, last=None)

    found = owner.execute("select last_receive_at, deleted from skipmq.consumer").fetchall()
    assert found == [(None, 4)]

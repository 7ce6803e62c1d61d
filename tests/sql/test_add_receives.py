from support.postgres import Connection
from support.sql import Queue, number

TOTALS = "select received * 1000 + empty_receives from skipmq.queue_count where queue_id = %s"


def test_receives_are_added_to_the_totals_of_their_queues(
    owner: Connection, node: Connection
) -> None:
    first, second = Queue(owner, "first"), Queue(owner, "second")
    ids = [first.id, second.id]

    node.execute("select skipmq.add_receives(%s, %s, %s)", (ids, [7, 0], [2, 1]))
    node.execute("select skipmq.add_receives(%s, %s, %s)", (ids[:1], [1], [0]))
    owner.execute("select skipmq.fold_counts()")

    assert [number(owner, TOTALS, each) for each in ids] == [8002, 1]
    assert (first.counts(), second.counts()) == ((0, 0, 0), (0, 0, 0))


def test_what_is_zero_leaves_no_row(owner: Connection, node: Connection, orders: Queue) -> None:
    node.execute("select skipmq.add_receives(%s, %s, %s)", ([orders.id], [0], [0]))

    assert number(owner, "select count(*) from skipmq.queue_delta") == 0

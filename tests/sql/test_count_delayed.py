from support.postgres import Connection
from support.sql import Queue


def test_messages_delayed_for_long_are_counted_by_their_sums(owner: Connection) -> None:
    orders = Queue(owner, MaximumDelaySeconds=86_400)
    orders.send("a", "b", delay=86_400)
    orders.send("c", delay=900)

    rows = orders.connection.execute(
        "select sum(change) from skipmq.delayed_count where queue_id = %s", (orders.id,)
    ).fetchone()

    assert rows == (2,)
    assert orders.counts() == (0, 0, 3)

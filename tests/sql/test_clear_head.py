from support.postgres import Connection
from support.sql import Queue, number, redrive_policy

CLEAR = (
    "select skipmq.clear_head(%s, %s::smallint, '-infinity', clock_timestamp(),"
    " clock_timestamp() - %s::interval, %s::bigint, 1, %s::text[])"
)


def test_head_is_cleared_of_one_kind_at_a_time(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    orders = Queue(owner, RedrivePolicy=redrive_policy())
    orders.send("received")
    orders.receive(timeout=0)
    orders.send("old", "older")
    owner.execute(
        "update skipmq.message set enqueued_at = enqueued_at - interval '2 hours'"
        " where body in ('old', 'older')"
    )
    orders.send("noisy", group="noisy")
    orders.send("waiting")

    waiting, received = (
        [number(owner, CLEAR, orders.id, shard, "1 hour", dead.id, noisy) for _ in range(3)]
        for shard, noisy in ((0, ["noisy"]), (2, None))
    )

    assert waiting == [1, 2, 0]  # Noisy, past retention.
    assert received == [1, 0, 0]  # Received too often.
    assert dead.bodies() == ["received"]
    assert sorted(orders.bodies()) == ["noisy", "waiting"]


def test_head_without_a_dead_letter_queue_keeps_what_was_received(orders: Queue) -> None:
    orders.send("received")
    orders.receive(timeout=0)

    assert number(orders.connection, CLEAR, orders.id, 2, "1 hour", None, None) == 0

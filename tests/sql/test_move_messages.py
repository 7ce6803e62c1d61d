from support.sql import Queue, message_ids, number

MOVE = (
    "select array(select outcome from skipmq.move_messages(%s, %s::bigint[], %s::uuid[], %s)"
    " order by place)"
)


def test_old_receipt_does_nothing_after_a_move_there_and_back(orders: Queue) -> None:
    other = Queue(orders.connection, "other")
    orders.send("a")
    (old,) = orders.receive(timeout=0)
    for source, target in ((orders, other), (other, orders)):
        (id_,) = (
            orders.connection.execute(
                "select id from skipmq.message where queue_id = %s", (source.id,)
            ).fetchone()
            or ()
        )
        known = message_ids(orders.connection, [id_, id_])
        outcomes = number(orders.connection, MOVE, source.id, [id_, id_], known, target.id)
        assert outcomes == ["moved", "moved"]

    assert orders.delete(old) == 0
    assert orders.counts() == (1, 0, 0)
    assert other.counts() == (0, 0, 0)


def test_message_of_another_queue_is_missing(orders: Queue) -> None:
    other = Queue(orders.connection, "other")
    other.send("a")
    (theirs,) = other.receive(timeout=0)

    chosen = ([theirs["id"]], [theirs["message_id"]])
    assert number(orders.connection, MOVE, orders.id, *chosen, other.id) == ["missing"]

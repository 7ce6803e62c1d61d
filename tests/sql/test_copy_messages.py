from support.sql import Queue, message_ids, number

COPY = (
    "select array(select outcome from skipmq.copy_messages(%s, %s::bigint[], %s::uuid[], %s)"
    " order by place)"
)


def test_copy_of_a_message_received_meanwhile_is_one_more_message(orders: Queue) -> None:
    target = Queue(orders.connection, "target")
    orders.send("a")
    (received,) = orders.receive()

    ids = [received["id"], 999]
    known = message_ids(orders.connection, ids)
    outcomes = number(orders.connection, COPY, orders.id, ids, known, target.id)

    assert outcomes == ["copied", "missing"]
    assert target.bodies() == ["a"]
    assert orders.delete(received) == 1

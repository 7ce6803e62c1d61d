from support.sql import Queue, send_prioritised


def test_messages_with_priorities_are_received_after_the_mode_is_off(orders: Queue) -> None:
    orders.set(PriorityMode="strict")
    send_prioritised(orders, 1, 7)
    orders.set(PriorityMode="none")
    send_prioritised(orders, 9)

    assert sorted(orders.bodies()) == ["1", "7", "9"]
    orders.connection.execute("select skipmq.expire_messages()")

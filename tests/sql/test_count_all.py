from support.sql import Queue, number

COUNT = "select skipmq.count_all(%s)"


def test_all_messages_are_counted_before_and_after_the_changes_are_folded(orders: Queue) -> None:
    orders.send(*"abc")
    orders.send("later", delay=60)
    orders.delete(*orders.receive(1))
    before = number(orders.connection, COUNT, orders.id)
    orders.connection.execute("select skipmq.fold_counts(true)")
    orders.send("d")

    assert before == 3
    assert number(orders.connection, COUNT, orders.id) == 4


def test_queue_that_never_had_a_message_has_none(orders: Queue) -> None:
    assert number(orders.connection, COUNT, orders.id) == 0

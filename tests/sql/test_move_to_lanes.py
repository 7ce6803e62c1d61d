from support.sql import Queue, redrive_policy


def test_messages_of_before_the_limit_and_of_other_queues_count_too(orders: Queue) -> None:
    source = Queue(orders.connection, "source", RedrivePolicy=redrive_policy("orders"))
    orders.send(*"abc")
    orders.receive(limit=1)
    orders.set(MaximumInFlight=3)
    source.send("dead")
    source.receive(timeout=0)
    source.receive()

    assert len(orders.receive()) == 2
    assert orders.counts() == (1, 3, 0)

from support.sql import Queue, advance


def test_rate_gives_a_burst_and_then_so_many_a_second(orders: Queue) -> None:
    orders.send(*map(str, range(30)))
    orders.set(MaximumReceiveRate="2")
    orders.set(ReceiveBurst=5)

    taken = [len(orders.receive())]
    (refused,) = orders.poll()
    for seconds in ("0.5", "0.9", "1.9", "60"):
        advance(orders.connection, f"{seconds} seconds")
        taken.append(len(orders.receive(timeout=3600)))

    assert taken == [5, 1, 0, 2, 5]
    assert 0.4 < refused["next_visible_in"].total_seconds() <= 0.5

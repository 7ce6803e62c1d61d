from support.postgres import Connection
from support.sql import Queue, advance, number

FOLD = "select skipmq.fold_delayed(skipmq.clock()) is null"
ROWS = "select count(*) from skipmq.delayed_count where queue_id = %s"


def test_counts_of_a_time_become_one_row_until_it_has_passed(owner: Connection) -> None:
    orders = Queue(owner, MaximumDelaySeconds=86_400)
    for body in "abc":
        orders.send(body, delay=86_400)
    assert number(orders.connection, ROWS, orders.id) == 3

    number(orders.connection, FOLD)

    assert number(orders.connection, ROWS, orders.id) == 1
    assert orders.counts() == (0, 0, 3)
    advance(orders.connection, "26 hours")
    number(orders.connection, FOLD)
    assert number(orders.connection, ROWS, orders.id) == 0
    assert orders.counts() == (3, 0, 0)

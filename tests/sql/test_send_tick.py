from support.fifo import FifoQueue
from support.postgres import Connection
from support.schedules import create, ticks
from support.sql import Queue, number

SEND = "select skipmq.send_tick(s, %s) is null from skipmq.schedule s"
DUE = "2030-01-01 00:00+00"


def test_tick_sends_one_message(orders: Queue) -> None:
    create(orders.connection)

    for _ in range(2):
        number(orders.connection, SEND, DUE)

    assert (orders.bodies(), ticks(orders.connection)) == (["x"], [(True, None)])


def test_tick_of_a_fifo_queue_is_deduplicated_by_its_time(owner: Connection) -> None:
    FifoQueue(owner, "strict.fifo")
    create(owner, queue="strict.fifo", group_id="g")

    number(owner, SEND, DUE)
    owner.execute("delete from skipmq.schedule_tick")
    number(owner, SEND, DUE)

    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 1


def test_last_hundred_ticks_are_kept(orders: Queue) -> None:
    create(orders.connection)

    number(
        orders.connection,
        "select count(skipmq.send_tick(s, %s::timestamptz + make_interval(mins => n)))"
        " from skipmq.schedule s, generate_series(1, 103) n",
        DUE,
    )

    assert len(ticks(orders.connection)) == 100


def test_jitter_is_no_more_than_the_longest_delay_of_the_queue(orders: Queue) -> None:
    create(orders.connection, jitter=900)
    orders.set(MaximumDelaySeconds=0)

    number(orders.connection, SEND, DUE)

    assert (orders.bodies(), ticks(orders.connection)) == (["x"], [(True, None)])

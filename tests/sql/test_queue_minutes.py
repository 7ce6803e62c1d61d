from support.postgres import Connection
from support.sql import Queue, advance, number

MINUTES = (
    "select queue_id, sent, received, deleted, dead_lettered, expired, messages"
    " from skipmq.queue_minutes(%s, %s)"
)


def minutes(connection: Connection, *queues: Queue, last: int = 60) -> list[tuple[int, ...]]:
    found = connection.execute(MINUTES, ([each.id for each in queues], last)).fetchall()
    return [tuple(row) for row in found]


def fold(connection: Connection, *, everything: bool = False) -> None:
    connection.execute("select skipmq.fold_counts(%s)", (everything,))


def test_minute_has_what_happened_in_it(orders: Queue) -> None:
    owner, other = orders.connection, Queue(orders.connection, "other")
    # Far from the end of a minute.
    shift = number(owner, "select (10 - extract(second from clock_timestamp()))::text")
    advance(owner, f"1 day {shift} seconds")
    owner.execute("select skipmq.create_history_partitions(2)")
    orders.send("a", "b", "c")
    other.send("d")
    fold(owner)
    orders.delete(*orders.receive(2))
    fold(owner)
    advance(owner, f"1 day 1 minute {shift} seconds")
    orders.send("e")
    fold(owner)

    assert minutes(owner, orders) == [
        (orders.id, 3, 0, 2, 0, 0, 1),
        (orders.id, 1, 0, 0, 0, 0, 2),
    ]
    assert minutes(owner, orders, last=1) == [(orders.id, 1, 0, 0, 0, 0, 2)]
    assert minutes(owner, other) == [(other.id, 1, 0, 0, 0, 0, 1)]


def test_minutes_are_kept_for_six_hours(orders: Queue) -> None:
    owner = orders.connection
    orders.send("a")
    fold(owner)
    advance(owner, "5 hours 50 minutes")
    fold(owner, everything=True)
    assert len(minutes(owner, orders, last=400)) == 1

    advance(owner, "6 hours 2 minutes")
    fold(owner, everything=True)

    assert minutes(owner, orders, last=360) == []


def test_older_minutes_are_kept_by_ten_minutes_for_seven_days(orders: Queue) -> None:
    owner = orders.connection
    advance(owner, "1 day")
    owner.execute("select skipmq.create_history_partitions(9)")
    for n in range(3):
        advance(owner, f"1 day {7 * n} minutes")
        orders.send("a", "b")
        fold(owner)
    owner.execute("update skipmq.queue set message_retention_period = 60")
    advance(owner, "1 day 20 minutes")
    assert number(owner, "select skipmq.expire_messages()") == 6
    fold(owner)

    advance(owner, "1 day 10 hours")
    fold(owner, everything=True)
    week = "select sent, expired, messages from skipmq.queue_minutes(array[%s], 10080, %s)"
    by_ten = owner.execute(week, (orders.id, 10)).fetchall()
    by_hour = owner.execute(week, (orders.id, 60)).fetchall()

    assert number(owner, "select count(*) from skipmq.queue_minute") == 0
    assert len(by_ten) in (3, 4)
    for steps in (by_ten, by_hour):
        assert (sum(each[0] for each in steps), sum(each[1] for each in steps)) == (6, 6)
        assert steps[-1][2] == 0
    advance(owner, "9 days")
    fold(owner, everything=True)
    assert owner.execute(week, (orders.id, 10)).fetchall() == []

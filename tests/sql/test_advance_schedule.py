from support.postgres import Connection
from support.schedules import advance_to, create, ticks
from support.sql import Queue, number

NEXT = "select extract(epoch from next_at - created_at)::int from skipmq.schedule"


def test_tick_sends_and_sets_the_next_time_together(orders: Queue) -> None:
    create(orders.connection)

    assert advance_to(orders.connection, None, "1 minute")
    assert orders.bodies() == []
    assert advance_to(orders.connection, "0", "1 minute")

    assert orders.bodies() == ["x"]
    assert number(orders.connection, NEXT) == 120


def test_tick_of_another_time_does_nothing(orders: Queue) -> None:
    create(orders.connection)

    moved = number(
        orders.connection,
        "select skipmq.advance_schedule(account, region, name, next_at - interval '1 s', next_at,"
        " next_at + interval '1 minute') from skipmq.schedule",
    )

    assert moved is False
    assert orders.bodies() == []


def test_locked_schedule_is_left_to_its_session(orders: Queue, node: Connection) -> None:
    create(orders.connection)
    with orders.connection.transaction():
        orders.connection.execute("select from skipmq.schedule for update")
        due = number(orders.connection, "select next_at from skipmq.schedule")

        moved = number(
            node,
            "select skipmq.advance_schedule('000000000000', 'us-east-1', 'tick', %s, %s, null)",
            *(due, due),
        )

    assert moved is False


def test_schedule_ends_after_its_failures(orders: Queue) -> None:
    create(orders.connection, max_failures=2)
    orders.connection.execute("select skipmq.delete_queue(%s)", (orders.id,))

    for _ in range(2):
        assert advance_to(orders.connection, "0", "1 minute")

    assert number(orders.connection, NEXT) is None
    reasons = [reason for _, reason in ticks(orders.connection)]
    assert len(reasons) == 2
    assert all("queue orders does not exist" in each for each in reasons)


def test_schedule_ends_with_a_reason(orders: Queue) -> None:
    create(orders.connection)

    advance_to(orders.connection, None, None, "no such zone")

    assert number(orders.connection, "select failure from skipmq.schedule") == "no such zone"

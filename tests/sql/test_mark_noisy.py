"""Fair queues. Source: SQS Developer Guide, Amazon SQS fair queues."""

from support.postgres import Connection
from support.sql import Queue, advance, number, redrive_policy

MARK = "select skipmq.mark_noisy(%s::int)"
NOISY = "select array(select group_id from skipmq.noisy_tenant order by 1)"


def mark(connection: Connection, limit: int = 5000) -> int:
    return int(number(connection, MARK, limit))


def quiet_first(connection: Connection) -> None:
    """Let the one receive in ten that begins with the noisy tenants be a later one."""
    connection.execute("select setseed(0.1)")


def test_tenant_with_a_tenth_and_thirty_in_flight_is_noisy(orders: Queue) -> None:
    orders.send(*map(str, range(30)), group="loud")
    orders.send(*map(str, range(29)), group="busy")
    orders.send(*map(str, range(100)))
    while orders.receive():
        pass

    mark(orders.connection)

    assert number(orders.connection, NOISY) == ["loud"]


def test_tenant_with_thirty_of_many_is_not_noisy(orders: Queue) -> None:
    orders.send(*map(str, range(30)), group="loud")
    orders.send(*map(str, range(270)))
    while orders.receive():
        pass

    mark(orders.connection)

    assert number(orders.connection, NOISY) == []


def test_noise_is_forgotten_a_minute_after_it_ended(orders: Queue) -> None:
    orders.send(*map(str, range(30)), group="loud")
    while orders.receive(timeout=30):
        pass
    mark(orders.connection)
    advance(orders.connection, "31 s")
    mark(orders.connection)
    assert number(orders.connection, NOISY) == ["loud"]

    advance(orders.connection, "61 s")
    mark(orders.connection)

    assert number(orders.connection, NOISY) == []


def test_quiet_tenants_come_before_what_waits_of_a_noisy_one(orders: Queue) -> None:
    orders.send(*map(str, range(500)), group="loud")
    for _ in range(5):
        orders.receive(10)
    orders.send("quiet", group="small")
    orders.send("loud again", group="loud")
    quiet_first(orders.connection)

    assert mark(orders.connection, 100) == 100

    assert orders.bodies(1) == ["quiet"]
    assert orders.counts() == (451, 51, 0)


def test_messages_of_a_noisy_tenant_are_deprioritised_when_they_are_sent(orders: Queue) -> None:
    orders.send(*map(str, range(40)), group="loud")
    while orders.receive():
        pass
    mark(orders.connection)
    orders.send("loud", group="loud")
    orders.send("quiet", group="small")
    orders.send("none")
    quiet_first(orders.connection)

    assert [orders.bodies(1) for _ in range(3)] == [["quiet"], ["none"], ["loud"]]


def test_noisy_tenant_comes_first_at_times_and_is_never_limited(orders: Queue) -> None:
    orders.send(*map(str, range(40)), group="loud")
    while orders.receive(timeout=600):
        pass
    mark(orders.connection)
    orders.send(*["loud"] * 100, group="loud")
    orders.send(*["quiet"] * 500)
    orders.connection.execute("select setseed(0.1)")

    first = [body for _ in range(500) for body in orders.bodies(1, timeout=600)]

    assert 20 < first.count("loud") < 90
    rest = [body for _ in range(100) for body in orders.bodies(1, timeout=600)]
    assert (first + rest).count("loud") == 100


def test_deprioritised_messages_expire_move_and_count_like_the_rest(owner: Connection) -> None:
    dead = Queue(owner, "dead")
    orders = Queue(owner, RedrivePolicy=redrive_policy(), MessageRetentionPeriod=60)
    orders.send(*map(str, range(40)), group="loud")
    while orders.receive(timeout=15):
        pass
    mark(owner)
    orders.send("late", group="loud")
    orders.send("later", group="loud", delay=50)
    advance(owner, "16 s")
    quiet_first(owner)
    assert orders.bodies(10, timeout=10) == ["late"]
    assert dead.counts() == (40, 0, 0)
    assert orders.counts() == (0, 1, 1)
    advance(owner, "30 s")
    (nothing,) = orders.poll()
    assert dead.counts() == (41, 0, 0)
    assert 10 < nothing["next_visible_in"].total_seconds() <= 20

    advance(owner, "120 s")
    assert orders.counts() == (0, 0, 0)
    assert number(owner, "select skipmq.expire_messages()") == 1


def test_letters_of_a_noisy_tenant_move_back(owner: Connection) -> None:
    dead_letters = Queue(owner, "dead")
    Queue(owner, "source", RedrivePolicy=redrive_policy())
    target = Queue(owner, "target")
    dead_letters.send(*map(str, range(40)), group="loud")
    while dead_letters.receive(timeout=30):
        pass
    mark(owner)
    dead_letters.send("late", group="loud")
    advance(owner, "31 s")
    arn = "arn:aws:sqs:us-east-1:000000000000:"
    number(owner, "select skipmq.start_move_task(%s, %s)", f"{arn}dead", f"{arn}target")

    assert number(owner, "select skipmq.advance_move_tasks()") == 41
    assert target.counts() == (41, 0, 0)


def test_rates_that_were_used_before_the_clock_was_set_back_delay_no_more_than_others(
    orders: Queue,
) -> None:
    orders.set(MaximumReceiveRate=2)
    orders.set(MaximumReceiveRatePerGroup="0.1")
    orders.send("a", group="a")
    orders.send("b", "c", group="b")
    assert len(orders.receive(timeout=3600)) == 2
    advance(orders.connection, "-1 day")
    assert orders.receive() == []

    mark(orders.connection)

    left = "select extract(epoch from max(used_until) - skipmq.clock()) from skipmq.receive_rate"
    assert 9 < number(orders.connection, left) <= 10
    assert number(orders.connection, left + " where key = ''") <= 1


def test_quiet_tenants_come_before_a_noisy_one_within_their_priority(orders: Queue) -> None:
    orders.set(PriorityMode="strict")
    send = (
        "select skipmq.send_message('orders', %s || p, p_group_id => %s, p_priority => p)"
        " from unnest(%s::int[]) p"
    )
    orders.connection.execute(send, ("loud", "loud", [5] * 60))
    for _ in range(4):
        orders.receive(10, timeout=600)
    orders.connection.execute(send, ("quiet", "small", [1, 5]))

    assert mark(orders.connection) == 20
    orders.connection.execute(send, ("loud", "loud", [1, 9]))
    orders.connection.execute(send, ("late", "small", [1]))
    quiet_first(orders.connection)

    got = orders.bodies(10, timeout=600) + orders.bodies(10, timeout=600) + orders.bodies(10)
    assert got == ["loud9", "quiet5", *["loud5"] * 20, "quiet1", "late1", "loud1"]
    assert orders.counts() == (0, 65, 0)
    advance(orders.connection, "5 days")
    assert number(orders.connection, "select skipmq.expire_messages()") == 65

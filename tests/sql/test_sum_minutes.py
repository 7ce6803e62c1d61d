from support.postgres import Connection
from support.sql import Queue, advance, number

FOUND = (
    "select m.account, m.kind, m.number from skipmq.broker_minute m where m.account <> ''"
    " order by m.minute, m.account, m.kind"
)
SUM = "select skipmq.sum_minutes()"
ACCOUNT = "000000000000"


def summed(owner: Connection) -> list[tuple[str, str, int]]:
    owner.execute("select skipmq.fold_counts()")
    owner.execute(SUM)
    found = owner.execute(FOUND).fetchall()
    return [(account, kind, value) for account, kind, value in found]


def test_queues_of_an_account_are_added_up(orders: Queue) -> None:
    owner, other = orders.connection, Queue(orders.connection, "other")
    # Far from the end of a minute, and not one of those that have every account.
    shift = number(owner, "select (70 - extract(second from clock_timestamp()))::text")
    advance(owner, f"{shift} seconds")
    orders.send("a", "b", "c")
    other.send("d")
    assert summed(owner)[-1] == (ACCOUNT, "sent", 4)
    orders.delete(*orders.receive(2))

    numbers = {"deleted": 2, "messages": 2, "sent": 4}
    assert [each for each in summed(owner) if each[1] != "received"] == [
        (account, kind, value) for account in ("*", ACCOUNT) for kind, value in numbers.items()
    ]
    assert number(owner, "select number from skipmq.broker_minute where kind = 'timeline'") == 1


def test_minutes_are_kept_for_six_hours(orders: Queue) -> None:
    owner = orders.connection
    orders.send("a")
    assert summed(owner)
    advance(owner, "6 hours 2 minutes")

    owner.execute(SUM)

    kept = "select count(*) from skipmq.broker_minute where minute < now() + interval '1 hour'"
    assert number(owner, kept) == 0

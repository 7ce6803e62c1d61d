import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, redrive_policy

COLUMNS = (
    "queue, queues, messages, visible, in_flight, delayed, sent, bytes_sent, received, deleted,"
    " expired, dead_lettered, redriven, moved_in"
)
DEAD = "arn:aws:sqs:us-east-1:000000000000:dead"
ALL = (None, None, "", "name", 100, 0)


def statistics(
    connection: Connection, *parameters: object, columns: str = COLUMNS
) -> list[tuple[object, ...]]:
    query = f"select {columns} from skipmq.queue_statistics(%s, %s, %s, %s, %s, %s)"
    return [tuple(row) for row in connection.execute(query, parameters or ALL).fetchall()]


def names(connection: Connection, *parameters: object) -> list[object]:
    return [name for (name,) in statistics(connection, *parameters, columns="queue")]


def fold(connection: Connection) -> None:
    connection.execute("select skipmq.fold_counts()")


def test_queue_has_what_it_holds_and_what_happened(orders: Queue) -> None:
    owner = orders.connection
    orders.send("one", "two", "three", "four")
    orders.send("fünf", delay=600)
    orders.delete(*orders.receive(1))
    orders.receive(1)
    owner.execute("select skipmq.add_receives(%s, %s, %s)", ([orders.id], [2], [0]))
    fold(owner)

    first, others = statistics(owner)

    assert first == ("orders", 1, 4, 2, 1, 1, 5, 20, 2, 1, 0, 0, 0, 0)
    assert others == (None, 0, 0, None, None, None, 0, 0, 0, 0, 0, 0, 0, 0)


def test_dead_letters_expired_and_redriven_messages_are_counted(owner: Connection) -> None:
    Queue(owner, "dead")
    orders = Queue(owner, "orders", RedrivePolicy=redrive_policy())
    orders.send("a", "b")
    orders.receive(2, timeout=0)
    orders.receive(2)
    owner.execute("select skipmq.start_move_task(%s)", (DEAD,))
    owner.execute("select skipmq.advance_move_tasks(10)")
    advance(owner, "5 days")
    owner.execute("select skipmq.create_history_partitions(2)")
    owner.execute("select skipmq.expire_messages(10)")
    fold(owner)
    events = "queue, messages, sent, expired, dead_lettered, redriven, moved_in"

    assert statistics(owner, *ALL, columns=events)[:-1] == [
        ("dead", 0, 0, 0, 0, 2, 2),
        ("orders", 0, 2, 2, 2, 0, 2),
    ]


def test_fifo_queue_counts_its_messages_and_bytes_once(owner: Connection, fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "a:2")
    fifo.put("a:1", ids=["again"])
    fifo.put("a:longer", "a:ü", "a:longer", ids=["again", "new", "new"])
    fold(owner)

    ((_, messages, sent, size), _) = statistics(
        owner, *ALL, columns="queue, messages, sent, bytes_sent"
    )

    assert (messages, sent, size) == (5, 5, 6)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("name", ["a", "b", "c"]),
        ("messages", ["c", "a", "b"]),
        ("rate", ["b", "c", "a"]),
    ],
)
def test_queues_come_in_order(owner: Connection, order: str, expected: list[str]) -> None:
    queues = {name: Queue(owner, name) for name in "abc"}
    queues["a"].send("1")
    queues["c"].send("1", "2")
    fold(owner)
    advance(owner, "10 minutes")
    for _ in range(3):
        queues["b"].send("1")
        queues["b"].delete(*queues["b"].receive(1))
    fold(owner)

    assert names(owner, None, None, "", order, 10, 0) == [*expected, None]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("name", ["c", "b", "a"]), ("messages", ["b", "a", "c"]), ("rate", ["a", "c", "b"])],
)
def test_queues_come_the_other_way_round(
    owner: Connection, order: str, expected: list[str]
) -> None:
    queues = {name: Queue(owner, name) for name in "abc"}
    queues["a"].send("1")
    queues["c"].send("1", "2")
    fold(owner)
    advance(owner, "10 minutes")
    queues["b"].send("1")
    queues["b"].delete(*queues["b"].receive(1))
    fold(owner)
    query = "select queue from skipmq.queue_statistics(null, null, '', %s, 10, 0, %s)"

    found = owner.execute(query, (order, order == "name")).fetchall()

    assert [name for (name,) in found] == [*expected, None]


def test_dead_letter_queues_are_marked_and_policies_are_there(owner: Connection) -> None:
    Queue(owner, "dead", Policy='{"Statement":[]}')
    Queue(owner, "orders", RedrivePolicy=redrive_policy())
    FifoQueue(owner, "mails.fifo")

    found = statistics(owner, *ALL, columns="queue, fifo, policy, dead_letters")

    assert found == [
        ("dead", False, '{"Statement":[]}', True),
        ("mails.fifo", True, "", False),
        ("orders", False, "", False),
        (None, None, None, None),
    ]


def test_page_leaves_the_sums_of_all_others(owner: Connection) -> None:
    for number, name in enumerate(("a", "b", "c", "d"), start=1):
        Queue(owner, name).send(*["x"] * number)
    fold(owner)
    columns = "queue, queues, messages, sent"

    found = statistics(owner, None, None, "", "messages", 2, 1, columns=columns)

    assert found == [("c", 1, 3, 3), ("b", 1, 2, 2), (None, 2, 5, 5)]


def test_search_finds_a_part_of_the_name_in_any_case(owner: Connection) -> None:
    for name in ("Mail-out", "mail-in", "orders"):
        Queue(owner, name)

    assert names(owner, None, None, "MAIL", "name", 10, 0) == ["Mail-out", "mail-in", None]
    assert names(owner, "000000000000", "us-east-1", "%", "name", 10, 0) == [None]
    assert names(owner, "111111111111", None, "", "name", 10, 0) == [None]


def test_rates_are_those_of_the_last_two_minutes(orders: Queue) -> None:
    owner = orders.connection
    orders.send(*["x"] * 120)
    fold(owner)
    rates = "send_rate, delete_rate"
    ((sent, deleted), _) = statistics(owner, *ALL, columns=rates)
    assert 1 <= float(str(sent)) <= 2
    assert deleted == 0

    advance(owner, "3 minutes")

    assert statistics(owner, *ALL, columns=rates)[0] == (0, 0)


@pytest.fixture
def shop(owner: Connection) -> Connection:
    """Give queues in different states, in us-east-1 of the default account."""
    Queue(owner, "dead")
    failing = Queue(owner, "failing", RedrivePolicy=redrive_policy())
    failing.send("a")
    old = Queue(owner, "old")
    old.send("a")
    fold(owner)
    advance(owner, "700 seconds")
    for _ in range(2):
        failing.receive(timeout=0)
    owner.execute("select skipmq.add_receives(%s, %s, %s)", ([failing.id], [1], [0]))
    flying = Queue(owner, "flying")
    flying.send("a", "b", "c")
    flying.receive(2)
    flying.send("later", delay=900)
    owner.execute("select skipmq.add_receives(%s, %s, %s)", ([flying.id], [2], [0]))
    FifoQueue(owner, "line.fifo")
    owner.execute("select skipmq.tag_queue(%s, %s)", (old.id, '{"team": "search", "a": "b=c"}'))
    fold(owner)
    return owner


PLACE = ("000000000000", "us-east-1")


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("oldest", ["dead", "old", "flying"]),
        ("visible", ["flying", "dead", "old"]),
        ("in-flight", ["flying", "dead", "old"]),
        ("delayed", ["flying"]),
        ("sent", ["flying"]),
        ("deleted", ["flying"]),
        ("trouble", ["old", "failing", "flying"]),
        ("dead-lettered", ["failing", "flying"]),
    ],
)
def test_queues_are_ordered_by_each_number(shop: Connection, order: str, first: list[str]) -> None:
    assert names(shop, *PLACE, "", order, 100, 0)[: len(first)] == first


def test_troubles_are_those_of_one_account_and_region(shop: Connection) -> None:
    of_place = dict(statistics(shop, *PLACE, "", "name", 100, 0, columns="queue, trouble"))
    of_all = dict(statistics(shop, columns="queue, trouble"))

    assert {k: v for k, v in of_place.items() if v} == {
        "old": "not-received", "failing": "dead-lettered",
    }  # fmt: skip
    assert not any(of_all.values())


@pytest.mark.parametrize(
    ("only", "tag", "found"),
    [
        ("backlog", None, ["flying", "old"]),
        ("failing", None, ["failing"]),
        ("not-received", None, ["old"]),
        ("dead-letters", None, ["dead"]),
        ("fifo", None, ["line.fifo"]),
        (None, "team", ["old"]),
        (None, "team=search", ["old"]),
        (None, "team=other", []),
        (None, "a=b=c", ["old"]),
        ("fifo", "team", []),
    ],
)
def test_queues_are_filtered(
    shop: Connection, only: str | None, tag: str | None, found: list[str]
) -> None:
    query = "select queue from skipmq.queue_statistics(%s, %s, p_filter => %s, p_tag => %s)"
    rows = shop.execute(query, (*PLACE, only, tag)).fetchall()

    assert [name for (name,) in rows if name is not None] == found

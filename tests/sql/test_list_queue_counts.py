from typing import Any

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, redrive_policy


def listed(connection: Connection, **asked: Any) -> list[tuple[Any, ...]]:
    """Return names, counts and matches."""
    given = "".join(f", p_{name} => %({name})s" for name in asked)
    return connection.execute(
        "select name, visible, in_flight, delayed, matches::int"
        f" from skipmq.list_queue_counts('000000000000', 'us-east-1'{given})",
        asked,
    ).fetchall()


def names(connection: Connection, **asked: Any) -> list[str]:
    return [row[0] for row in listed(connection, **asked)]


def test_list_has_the_counts_of_each_queue(owner: Connection) -> None:
    orders = Queue(owner)
    orders.send("a", "b", "c", "d")
    orders.send("later", delay=60)
    orders.receive(limit=1)
    FifoQueue(owner, "mails.fifo").put("a:1")

    assert listed(owner) == [("mails.fifo", 1, 0, 0, 2), ("orders", 3, 1, 1, 2)]


def test_list_by_messages_has_the_queues_with_most_first_and_last(owner: Connection) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 0), ("d", 3)):
        if count:
            Queue(owner, name).send(*["x"] * count)
        else:
            Queue(owner, name)

    assert names(owner, order="messages", descending=True) == ["b", "d", "a", "c"]
    assert names(owner, order="messages") == ["c", "a", "b", "d"]


def test_list_by_messages_counts_what_has_been_folded(owner: Connection) -> None:
    Queue(owner, "a").send("x", "y")
    advance(owner, "1 minute")
    owner.execute("select skipmq.fold_counts()")
    Queue(owner, "b").send("x")

    assert names(owner, order="messages", descending=True) == ["a", "b"]


def test_list_by_name_backwards(node: Connection) -> None:
    for name in ("a", "c", "b"):
        Queue(node, name)

    assert names(node, descending=True) == ["c", "b", "a"]


def test_list_finds_a_text_anywhere_in_names_whatever_its_case(node: Connection) -> None:
    for name in ("Mail-in", "outMAIL", "orders", "m_il"):
        Queue(node, name)

    assert names(node, search="mail") == ["Mail-in", "outMAIL"]
    assert names(node, search="_") == ["m_il"]
    assert names(node, search="%") == []


def test_list_in_pages_gives_each_queue_once_and_the_number_of_all(node: Connection) -> None:
    for n in range(7):
        Queue(node, f"q{n}")

    pages = [listed(node, offset=offset, limit=3) for offset in (0, 3, 6)]

    assert [row[0] for page in pages for row in page] == [f"q{n}" for n in range(7)]
    assert {row[4] for page in pages for row in page} == {7}


def test_list_marks_dead_letter_queues_and_has_policies(node: Connection) -> None:
    Queue(node, "dead", Policy='{"Statement":[]}')
    Queue(node, "orders", RedrivePolicy=redrive_policy())

    rows = node.execute(
        "select name, dead_letters, policy, fifo"
        " from skipmq.list_queue_counts('000000000000', 'us-east-1')"
    ).fetchall()

    assert rows == [("dead", True, '{"Statement":[]}', False), ("orders", False, "", False)]


def test_list_has_no_queues_of_others(node: Connection) -> None:
    Queue(node, "mine")

    for account, region in (("123456789012", "us-east-1"), ("000000000000", "eu-west-1")):
        rows = node.execute(
            "select from skipmq.list_queue_counts(%s, %s)", (account, region)
        ).fetchall()
        assert rows == []

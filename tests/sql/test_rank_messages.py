from typing import Any

import pytest

from support.sql import Queue, number

RANKED = (
    "select array(select m.body from skipmq.rank_messages(%s, %s, %s, %s)"
    " with ordinality r (id, message_id, place) join skipmq.message m using (id, message_id)"
    " order by r.place)"
)


@pytest.fixture
def filled(orders: Queue) -> Queue:
    """Give a queue whose second message is the oldest, the third the largest."""
    orders.send("first", "second", "third" * 9)
    orders.connection.execute(
        "update skipmq.message set sent_at = sent_at - interval '1 hour' where body = 'second'"
    )
    orders.connection.execute(
        "update skipmq.message set receive_count = 4 where body = 'first' or body = 'second'"
    )
    return orders


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("oldest", ["second", "first", "third" * 9]),
        ("receives", ["second", "first", "third" * 9]),
        ("size", ["third" * 9, "second", "first"]),
    ],
)
def test_messages_are_ranked(filled: Queue, order: str, expected: list[str]) -> None:
    assert number(filled.connection, RANKED, filled.id, None, order, 1000) == expected


def test_only_the_first_of_the_queue_are_ranked(filled: Queue) -> None:
    found: Any = number(filled.connection, RANKED, filled.id, None, "size", 2)

    assert len(found) == 2
    assert number(filled.connection, RANKED, filled.id, "in-flight", "size", 2) == []

import threading
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import advance, until_blocked


def handles(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["id"], row["receive_count"], row["received_at"]) for row in rows]


def test_retry_gives_the_same_and_begins_the_timeout_anew(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3")
    first = fifo.poll(2, 30, attempt="x")
    advance(fifo.connection, "20 s")

    again = fifo.poll(2, 30, attempt="x")

    assert [row["body"] for row in first] == ["1", "2"]
    assert handles(again) == handles(first)
    advance(fifo.connection, "45 s")
    assert fifo.take() == []
    assert fifo.outcomes(*first) == ["deleted", "deleted"]


def test_other_attempt_and_none_get_nothing_of_it(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    assert [row["body"] for row in fifo.poll(attempt="x")] == ["1"]

    assert [row["id"] for row in fifo.poll(attempt="y")] == [None]
    assert fifo.take() == []


def test_retry_after_a_delete_or_a_change_is_a_new_receive(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "b:1", "b:2")
    one, two = fifo.poll(2, attempt="x")
    fifo.delete(one)
    fifo.hide(0, two)

    retried = fifo.poll(2, attempt="x")

    assert handles(retried) != handles([two])
    assert sorted(row["body"] for row in retried) == ["1", "2"]
    assert {row["group_id"] for row in retried} == {"b"}


def test_retry_after_the_timeout_is_a_new_receive(fifo: FifoQueue) -> None:
    fifo.put("a:1")
    first = fifo.poll(1, 30, attempt="x")
    advance(fifo.connection, "31 s")

    (again,) = fifo.poll(1, 30, attempt="x")

    assert again["receive_count"] == 2
    assert handles([again]) != handles(first)


def test_retry_after_five_minutes_is_a_new_receive(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    fifo.poll(1, 600, attempt="x")
    advance(fifo.connection, "301 s")

    (other,) = fifo.poll(1, 600, attempt="x")

    assert other["group_id"] == "b"


def test_empty_attempt_is_not_remembered(fifo: FifoQueue) -> None:
    (nothing,) = fifo.poll(attempt="x")
    assert nothing["id"] is None
    fifo.put("a:1")

    assert [row["body"] for row in fifo.poll(attempt="x")] == ["1"]


def test_two_at_once_with_one_attempt_get_the_same(fifo: FifoQueue, database: str) -> None:
    fifo.put("a:1", "b:1")
    answers: list[dict[str, Any]] = []
    with psycopg.connect(database) as slow, psycopg.connect(database, autocommit=True) as other:
        first = fifo.on(slow).poll(1, attempt="x")
        thread = threading.Thread(
            target=lambda: answers.extend(fifo.on(other).poll(1, attempt="x"))
        )
        thread.start()
        until_blocked(fifo.connection)
        slow.commit()
        thread.join(timeout=30)

    assert handles(answers) == handles(first)


@pytest.mark.parametrize(
    ("attempt", "limit", "timeout"), [("", 1, 0), ("a b", 1, 0), ("a", 11, 0), ("a", 1, 43_201)]
)
def test_attempt_by_sql_that_sqs_refuses_is_refused(
    fifo: FifoQueue, attempt: str, limit: int, timeout: int
) -> None:
    fifo.put("a:1")

    with pytest.raises(psycopg.Error) as caught:
        fifo.poll(limit, timeout, attempt)

    assert caught.value.sqlstate == "SQ008"
    assert fifo.take() == ["a:1"]

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, advance, number, until_blocked

FIND = " from skipmq.get_queue('orders', '000000000000', 'us-east-1')"


def replace(queue: Queue, old: str, new: str, connection: Connection | None = None) -> Any:
    return number(
        connection or queue.connection,
        "select skipmq.replace_policy(%s, %s, %s)",
        queue.id,
        old,
        new,
    )


def policy(queue: Queue) -> Any:
    return number(queue.connection, "select attributes ->> 'Policy'" + FIND)


def test_replace_of_the_present_policy_sets_the_new_one(orders: Queue) -> None:
    assert replace(orders, "", "first") is True
    assert replace(orders, "first", "second") is True
    assert policy(orders) == "second"


def test_replace_of_another_policy_changes_nothing(orders: Queue) -> None:
    replace(orders, "", "first")

    assert replace(orders, "", "second") is False
    assert policy(orders) == "first"


def test_replace_moves_the_time_of_modification_only_when_it_replaces(orders: Queue) -> None:
    age = "select extract(epoch from modified_at - created_at)" + FIND
    advance(orders.connection, "10 seconds")

    replace(orders, "wrong", "first")
    before = number(orders.connection, age)
    replace(orders, "", "first")

    assert before < 1
    assert 9 < number(orders.connection, age) < 60


def test_replace_that_waited_for_another_replaces_nothing(
    orders: Queue, database: str, owner: Connection
) -> None:
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database, autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        won = replace(orders, "", "first", first)
        waiting = pool.submit(replace, orders, "", "second", second)
        until_blocked(owner)
        first.commit()

        lost = waiting.result(30)

    assert (won, lost) == (True, False)
    assert policy(orders) == "first"


def test_replace_that_waited_for_one_that_failed_replaces(
    orders: Queue, database: str, owner: Connection
) -> None:
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database, autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        replace(orders, "", "first", first)
        waiting = pool.submit(replace, orders, "", "second", second)
        until_blocked(owner)
        first.rollback()

        assert waiting.result(30) is True

    assert policy(orders) == "second"


def test_replace_on_a_queue_that_is_gone_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        replace(orders, "", "first")

    assert caught.value.sqlstate == "SQ005"


def test_replace_that_waited_for_a_purge_raises_moved(
    orders: Queue, database: str, owner: Connection
) -> None:
    with (
        psycopg.connect(database) as first,
        psycopg.connect(database, autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        first.execute("select skipmq.purge_queue(%s)", (orders.id,))
        waiting = pool.submit(replace, orders, "", "late", second)
        until_blocked(owner)
        first.commit()

        with pytest.raises(psycopg.Error) as caught:
            waiting.result(30)

    assert caught.value.sqlstate == "SQ005"
    assert policy(orders) == ""


def test_node_replaces_without_rights_on_the_table(node: Connection) -> None:
    queue = Queue(node)

    assert replace(queue, "", "first") is True

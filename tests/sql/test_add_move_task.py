import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, number

ADD = "select skipmq.add_move_task(%s, %s, %s, %s)::text"
SOURCE, TARGET = (f"arn:aws:sqs:us-east-1:000000000000:{name}" for name in ("orders", "other"))


def test_source_has_one_active_task(orders: Queue) -> None:
    orders.send("a", "b")
    task = number(orders.connection, ADD, orders.id, SOURCE, TARGET, 5)

    with pytest.raises(psycopg.Error, match="already a task running") as refused:
        orders.connection.execute(ADD, (orders.id, SOURCE, TARGET, 5))

    assert refused.value.sqlstate == "SQ008"
    rows = orders.connection.execute(
        "select task_id::text, kind, status, to_move, messages_per_second, destination_arn"
        " from skipmq.move_task"
    ).fetchall()
    assert rows == [(task, "redrive", "RUNNING", 2, 5, TARGET)]


def test_source_of_an_ended_task_has_another(orders: Queue) -> None:
    first = number(orders.connection, ADD, orders.id, SOURCE, TARGET, None)
    orders.connection.execute("update skipmq.move_task set status = 'COMPLETED'")

    assert number(orders.connection, ADD, orders.id, SOURCE, TARGET, None) != first


def test_new_and_cancelled_tasks_notify_the_janitors(orders: Queue, node: Connection) -> None:
    node.execute("listen skipmq_tasks")

    task = number(orders.connection, ADD, orders.id, SOURCE, TARGET, None)
    assert [n.channel for n in node.notifies(timeout=30, stop_after=1)] == ["skipmq_tasks"]
    orders.connection.execute("select skipmq.cancel_move_task(%s)", (task,))
    assert [n.channel for n in node.notifies(timeout=30, stop_after=1)] == ["skipmq_tasks"]

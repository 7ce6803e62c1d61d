from typing import Any

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, number

ARN = "arn:aws:sqs:us-east-1:000000000000:"
START = "select skipmq.start_message_task(%s, %s, %s, %s, %s, %s, %s)"


def start(owner: Connection, kind: str, target: str | None = None, **more: Any) -> Any:
    names = ("rate", "body", "name", "value")
    destination = None if target is None else f"{ARN}{target}"
    given = [more.get(each) for each in names]
    return number(owner, START, f"{ARN}{more.get('source', 'orders')}", kind, destination, *given)


def test_task_is_of_what_is_visible_now(orders: Queue) -> None:
    orders.send("a", "b")
    orders.send("later", delay=60)

    start(orders.connection, "delete", body="a")

    row = orders.connection.execute("select kind, status, to_move from skipmq.move_task").fetchone()
    assert row == ("delete", "RUNNING", 2)
    with pytest.raises(psycopg.Error, match="already a task running"):
        start(orders.connection, "delete")


@pytest.mark.parametrize(
    ("kind", "target", "more", "code"),
    [
        ("delete", "other", {}, "SQ008"),
        ("move", None, {}, "SQ008"),
        ("move", "orders", {}, "SQ008"),
        ("copy", "other.fifo", {}, "SQ008"),
        ("eat", "other", {}, "SQ008"),
        ("delete", None, {"value": "x"}, "SQ008"),
        ("copy", "nowhere", {}, "SQ010"),
        ("delete", None, {"source": "nowhere"}, "SQ010"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    orders: Queue, kind: str, target: str | None, more: dict[str, Any], code: str
) -> None:
    Queue(orders.connection, "other")
    Queue(orders.connection, "other.fifo")

    with pytest.raises(psycopg.Error) as refused:
        start(orders.connection, kind, target, **more)

    assert refused.value.sqlstate == code


@pytest.mark.parametrize("part", ["body", "name", "value"])
def test_filter_that_is_too_long_is_refused(orders: Queue, part: str) -> None:
    with pytest.raises(psycopg.Error, match="at most 256 characters"):
        start(orders.connection, "delete", **{"name": "n", part: "x" * 257})

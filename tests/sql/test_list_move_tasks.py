import psycopg
import pytest

from support.postgres import Connection
from support.sql import Queue, Redrive, advance, number

STATEMENT = "select task_id::text, status, moved, to_move from skipmq.list_move_tasks(%s, %s::int)"


def test_list_gives_the_newest_first(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    first = redrive.start()
    while number(owner, "select skipmq.advance_move_tasks()"):
        pass
    second = redrive.start()

    rows = owner.execute(STATEMENT, (redrive.arn, 10)).fetchall()

    assert rows == [(str(second), "RUNNING", 0, 0), (str(first), "COMPLETED", 2, 2)]
    assert owner.execute(STATEMENT, (redrive.arn, 1)).fetchall() == rows[:1]


def test_list_of_no_queue_is_refused(owner: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        owner.execute(STATEMENT, ("arn:aws:sqs:us-east-1:000000000000:nowhere", 1))

    assert caught.value.sqlstate == "SQ010"


def test_tasks_with_a_filter_are_listed_when_all_are_asked_for(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    number(owner, "select skipmq.start_message_task(%s, 'delete', null, null, 'x')", redrive.arn)

    asked = "select kind, body_contains from skipmq.list_move_tasks(%s, 10, %s)"
    assert owner.execute(asked, (redrive.arn, True)).fetchall() == [("delete", "x")]
    assert owner.execute(asked, (redrive.arn, False)).fetchall() == []


def test_tasks_of_a_deleted_queue_are_not_those_of_its_successor(owner: Connection) -> None:
    redrive = Redrive(owner, 1)
    first = redrive.start()
    owner.execute("select skipmq.delete_queue(%s)", (redrive.dead.id,))
    advance(owner, "1 hour")
    Queue(owner, "dead")

    asked = "select task_id from skipmq.list_move_tasks(%s, 10, %s)"
    assert owner.execute(asked, (redrive.arn, False)).fetchall() == []
    assert owner.execute(asked, (redrive.arn, True)).fetchall() == []
    with pytest.raises(psycopg.Error, match="Task does not exist"):
        owner.execute("select skipmq.cancel_move_task(%s, %s)", (first, redrive.arn))

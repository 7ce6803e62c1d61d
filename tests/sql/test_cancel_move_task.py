from uuid import uuid4

import psycopg
import pytest

from support.postgres import Connection
from support.sql import Redrive, advance, number

CANCEL = "select skipmq.cancel_move_task(%s)"


def test_cancel_stops_the_task_and_tells_what_was_moved(owner: Connection) -> None:
    redrive = Redrive(owner, 5)
    task = redrive.start()
    number(owner, "select skipmq.advance_move_tasks(2)")

    moved = number(owner, CANCEL, task)
    number(owner, "select skipmq.advance_move_tasks()")

    assert moved == 2
    assert redrive.dead.counts() == (3, 0, 0)
    assert number(owner, "select status from skipmq.move_task") == "CANCELLED"


@pytest.mark.parametrize(("known", "sqlstate"), [(False, "SQ010"), (True, "SQ008")])
def test_cancel_of_what_does_not_run_is_refused(
    owner: Connection, sqlstate: str, *, known: bool
) -> None:
    task = Redrive(owner, 0).start()
    number(owner, "select skipmq.advance_move_tasks()")
    advance(owner, "6 seconds")

    with pytest.raises(psycopg.Error) as caught:
        owner.execute(CANCEL, (task if known else uuid4(),))

    assert caught.value.sqlstate == sqlstate


def test_cancel_of_a_task_that_ended_at_its_start_is_no_error(owner: Connection) -> None:
    redrive = Redrive(owner, 3)
    task = redrive.start()
    assert number(owner, "select skipmq.advance_move_tasks()") == 3

    assert number(owner, CANCEL, task) == 3

    assert number(owner, "select status from skipmq.move_task") == "COMPLETED"
    redrive.dead.send("of no source")
    failed = redrive.start()
    number(owner, "select skipmq.advance_move_tasks()")
    assert number(owner, CANCEL, failed) == 0
    status = "select status from skipmq.move_task where task_id = %s"
    assert number(owner, status, failed) == "FAILED"


def test_task_that_is_cancelled_twice_is_refused(owner: Connection) -> None:
    task = Redrive(owner, 3).start()
    number(owner, CANCEL, task)

    for _ in range(2):
        with pytest.raises(psycopg.Error) as caught:
            owner.execute(CANCEL, (task,))
        assert caught.value.sqlstate == "SQ008"
        number(owner, "select skipmq.advance_move_tasks()")


def test_task_of_another_source_is_not_there(owner: Connection) -> None:
    redrive = Redrive(owner, 5)
    task = redrive.start()
    cancel = "select skipmq.cancel_move_task(%s, %s)"

    with pytest.raises(psycopg.Error) as caught:
        owner.execute(cancel, (task, "arn:aws:sqs:us-east-1:000000000000:other"))

    assert caught.value.sqlstate == "SQ010"
    source = owner.execute("select source_arn from skipmq.move_task").fetchone()
    assert source is not None
    assert number(owner, cancel, task, source[0]) == 0

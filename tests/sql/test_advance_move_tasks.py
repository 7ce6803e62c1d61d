import threading

import psycopg

from support.postgres import Connection
from support.sql import Redrive, number

ADVANCE = "select skipmq.advance_move_tasks(%s)"
# At so many seconds after the start, by a clock that is moved to there in the same statement.
ADVANCE_AT = """
  select skipmq.advance_move_tasks() from skipmq.move_task t
  where set_config('skipmq.clock_offset',
    (t.started_at + %s * interval '1 second' - clock_timestamp())::text, false) <> ''
"""
STATUS = "select status from skipmq.move_task"


def test_advance_moves_in_chunks_until_nothing_is_left(owner: Connection) -> None:
    redrive = Redrive(owner, 5)
    redrive.start()

    moved = [number(owner, ADVANCE, 2) for _ in range(4)]

    assert moved == [2, 2, 1, 0]
    assert number(owner, STATUS) == "COMPLETED"
    assert number(owner, "select moved from skipmq.move_task") == 5
    assert redrive.source.counts() == (5, 0, 0)


def test_advance_keeps_to_the_rate(owner: Connection) -> None:
    redrive = Redrive(owner, 10)
    redrive.start(rate=1)

    moved = [number(owner, ADVANCE_AT, seconds) for seconds in (0.5, 1.5, 3, 60, 61.5)]

    # A second's worth each time, also after a minute in which nobody was at it.
    assert moved == [0, 1, 1, 1, 1]


def test_advance_fails_a_task_whose_queue_is_gone(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    redrive.start()
    owner.execute("select skipmq.delete_queue(%s)", (redrive.dead.id,))

    number(owner, ADVANCE, 10)

    assert number(owner, STATUS) == "FAILED"


def test_advance_by_several_nodes_at_once_moves_each_message_once(
    database: str, owner: Connection
) -> None:
    redrive = Redrive(owner, 40)
    redrive.start()

    def work() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            for _ in range(30):
                number(connection, ADVANCE, 3)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One that finds another at it does nothing, so that some rounds may be left.
    while number(owner, ADVANCE, 3):
        pass

    assert number(owner, STATUS) == "COMPLETED"
    assert number(owner, "select moved from skipmq.move_task") == 40
    assert redrive.source.counts() == (40, 0, 0)


def test_task_goes_on_when_the_one_who_was_at_it_is_gone(database: str, owner: Connection) -> None:
    redrive = Redrive(owner, 4)
    redrive.start()
    with psycopg.connect(database) as dying:
        number(dying, ADVANCE, 2)
        while_held = number(owner, ADVANCE, 10)
        dying.rollback()

    assert while_held == 0
    assert number(owner, ADVANCE, 10) == 4
    assert number(owner, STATUS) == "RUNNING"
    assert number(owner, ADVANCE, 10) == 0
    assert number(owner, STATUS) == "COMPLETED"

import threading

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, Redrive, advance, number, redrive_policy

ADVANCE = "select skipmq.advance_move_tasks(%s)"
# At so many seconds after the start, by a clock that is moved to there in the same statement.
ADVANCE_AT = """
  select skipmq.advance_move_tasks() from skipmq.move_task t
  where set_config('skipmq.clock_offset',
    (t.started_at + %s * interval '1 second' - clock_timestamp())::text, false) <> ''
"""
STATUS = "select status from skipmq.move_task"
ENDED = "select status, failure_reason from skipmq.move_task"
ARN = "arn:aws:sqs:us-east-1:000000000000:"


def test_advance_moves_in_chunks_until_nothing_is_left(owner: Connection) -> None:
    redrive = Redrive(owner, 5)
    redrive.start()

    moved = [(number(owner, ADVANCE, 2), number(owner, STATUS)) for _ in range(4)]

    assert moved == [(2, "RUNNING"), (2, "RUNNING"), (1, "COMPLETED"), (0, "COMPLETED")]
    assert number(owner, "select moved from skipmq.move_task") == 5
    assert redrive.source.counts() == (5, 0, 0)


def test_advance_keeps_to_the_rate(owner: Connection) -> None:
    redrive = Redrive(owner, 10)
    redrive.start(rate=1)

    moved = [number(owner, ADVANCE_AT, seconds) for seconds in (0.5, 1.5, 3, 60, 61.5)]

    # A second's worth each time, also after a minute in which nobody was at it.
    assert moved == [0, 1, 1, 1, 1]


def test_advance_begins_a_task_after_a_delay_and_ends_a_cancelled_one_at_once(
    owner: Connection,
) -> None:
    redrive = Redrive(owner, 2)
    later = "select skipmq.advance_move_tasks(p_after => '1 minute')"
    cancelled = redrive.start()
    assert (number(owner, later), number(owner, STATUS)) == (0, "RUNNING")
    number(owner, "select skipmq.cancel_move_task(%s)", cancelled)
    assert (number(owner, later), number(owner, STATUS)) == (0, "CANCELLED")

    redrive.start()
    advance(owner, "61 seconds")

    assert number(owner, later) == 2


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
    assert number(owner, STATUS) == "COMPLETED"


@pytest.mark.parametrize("rate", [None, 500])
@pytest.mark.parametrize("chunk", [4, 5])
def test_step_that_moves_the_last_message_completes_the_task(
    owner: Connection, rate: int | None, chunk: int
) -> None:
    redrive = Redrive(owner, 4)
    redrive.start(rate)
    advance(owner, "1 s")

    assert number(owner, ADVANCE, chunk) == 4
    assert number(owner, STATUS) == "COMPLETED"
    assert redrive.start() is not None


def test_message_that_stays_does_not_keep_the_task_running(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    redrive.dead.send("direct")
    redrive.start()

    assert number(owner, ADVANCE, 2) == 2
    assert owner.execute(ENDED).fetchall() == [("COMPLETED", None)]
    assert redrive.dead.counts() == (1, 0, 0)


@pytest.mark.parametrize("name", ["dead", "dead.fifo"])
def test_redrive_of_messages_that_came_from_no_queue_fails(owner: Connection, name: str) -> None:
    dead: Queue | FifoQueue
    if name == "dead":
        dead = Queue(owner, name)
        Queue(owner, "source", RedrivePolicy=redrive_policy(name))
        dead.send("direct")
    else:
        dead = FifoQueue(owner, name)
        FifoQueue(owner, "source.fifo", RedrivePolicy=redrive_policy(name))
        dead.put("g:direct")
    number(owner, "select skipmq.start_move_task(%s)", f"{ARN}{name}")

    number(owner, ADVANCE, 10)

    assert owner.execute(ENDED).fetchall() == [("FAILED", "CouldNotDetermineMessageSource")]
    assert dead.counts() == (1, 0, 0)


def test_redrive_of_messages_whose_queue_is_gone_fails(owner: Connection) -> None:
    redrive = Redrive(owner, 2)
    Queue(owner, "second", RedrivePolicy=redrive_policy())
    owner.execute("select skipmq.delete_queue(%s)", (redrive.source.id,))
    redrive.start()

    number(owner, ADVANCE, 10)

    assert owner.execute(ENDED).fetchall() == [
        ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    ]


def test_redrive_of_an_empty_queue_completes(owner: Connection) -> None:
    Redrive(owner, 0).start()

    number(owner, ADVANCE, 10)

    assert owner.execute(ENDED).fetchall() == [("COMPLETED", None)]


def test_task_of_a_queue_that_was_deleted_touches_no_message_of_its_successor(
    owner: Connection,
) -> None:
    redrive = Redrive(owner, 1)
    redrive.start()
    owner.execute("select skipmq.delete_queue(%s)", (redrive.dead.id,))
    advance(owner, "1 hour")
    successor = Queue(owner, "dead")
    successor.send("new")

    second = "select skipmq.start_message_task(%s, 'delete', null, null, 'nothing has it')"
    number(owner, second, redrive.arn)
    number(owner, ADVANCE, 10)

    assert owner.execute(f"{ENDED} order by started_at").fetchall() == [
        ("FAILED", "AWS.SimpleQueueService.NonExistentQueue"),
        ("COMPLETED", None),
    ]
    assert successor.counts() == (1, 0, 0)

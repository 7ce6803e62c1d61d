import psycopg

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, number, redrive_policy

ARN = "arn:aws:sqs:us-east-1:000000000000:"
POLICY = redrive_policy("dead.fifo")
START = "select skipmq.start_move_task(%s, %s)"
ADVANCE = "select skipmq.advance_move_tasks(%s::int)"


def with_letters(connection: Connection, *messages: str) -> tuple[FifoQueue, FifoQueue]:
    dead = FifoQueue(connection, "dead.fifo")
    source = FifoQueue(connection, "source.fifo", RedrivePolicy=POLICY)
    source.put(*messages)
    while source.take(timeout=0):
        pass
    return dead, source


def test_letters_go_back_in_order_and_begin_anew(owner: Connection) -> None:
    dead, source = with_letters(owner, "a:1", "a:2", "b:1")
    assert dead.counts() == (3, 0, 0)
    number(owner, START, f"{ARN}dead.fifo", None)

    assert number(owner, ADVANCE, 100) == 3

    back = source.receive()
    assert sorted(f"{m['group_id']}:{m['body']}" for m in back) == ["a:1", "a:2", "b:1"]
    assert [m["body"] for m in back if m["group_id"] == "a"] == ["1", "2"]
    assert {m["approximate_receive_count"] for m in back} == {1}
    assert {m["dead_letter_source"] for m in back} == {None}
    assert (dead.counts(), dead.groups()) == ((0, 0, 0), 0)


def test_chunks_keep_the_order(owner: Connection) -> None:
    dead, source = with_letters(owner, *[f"{'ab'[n % 2]}:{n}" for n in range(10)])
    other = FifoQueue(owner, "other.fifo")
    number(owner, START, f"{ARN}dead.fifo", f"{ARN}other.fifo")

    moved = [number(owner, ADVANCE, 3) for _ in range(4)]

    assert moved == [3, 3, 3, 1]
    assert number(owner, "select status from skipmq.move_task") == "COMPLETED"
    taken = other.take()
    assert [m for m in taken if m[0] == "a"] == ["a:0", "a:2", "a:4", "a:6", "a:8"]
    assert [m for m in taken if m[0] == "b"] == ["b:1", "b:3", "b:5", "b:7", "b:9"]
    assert source.counts() == (0, 0, 0)
    assert dead.counts() == (0, 0, 0)


def test_group_in_flight_is_left(owner: Connection) -> None:
    dead, _ = with_letters(owner, "a:1", "a:2", "b:1")
    dead.receive(1)
    number(owner, START, f"{ARN}dead.fifo", None)

    assert number(owner, ADVANCE, 100) == 1
    assert dead.counts() == (1, 1, 0)


def test_letters_of_a_queue_that_is_gone_stay(owner: Connection) -> None:
    dead, source = with_letters(owner, "a:1", "b:1")
    FifoQueue(owner, "second.fifo", RedrivePolicy=POLICY)
    owner.execute("select skipmq.delete_queue(%s)", (source.id,))
    number(owner, START, f"{ARN}dead.fifo", None)

    assert number(owner, ADVANCE, 100) == 0
    assert dead.counts() == (2, 0, 0)


def test_letter_that_stays_keeps_its_group_behind_it_and_no_other(owner: Connection) -> None:
    dead, source = with_letters(owner)
    dead.put("a:direct")
    source.put("a:1", "b:1")
    while source.take(timeout=0):
        pass
    number(owner, "select skipmq.start_move_task(%s, null, 1)", f"{ARN}dead.fifo")
    advance(owner, "2 s")

    assert number(owner, ADVANCE, 100) == 1
    assert source.take() == ["b:1"]
    assert dead.take() == ["a:direct", "a:1"]


def test_task_goes_on_while_another_holds_the_groups(owner: Connection, database: str) -> None:
    dead, source = with_letters(owner, "a:1")
    number(owner, START, f"{ARN}dead.fifo", None)
    with psycopg.connect(database) as other:
        dead.on(other).take(timeout=0)
        assert number(owner, ADVANCE, 100) == 0
        other.rollback()

    assert number(owner, ADVANCE, 100) == 1
    assert source.take() == ["a:1"]


def test_move_to_the_origin_leaves_groups_behind_what_came_from_others_than_given(
    owner: Connection,
) -> None:
    dead, source = with_letters(owner, "a:1", "b:1")
    second = FifoQueue(owner, "second.fifo", RedrivePolicy=POLICY)
    second.put("a:2", "c:2")
    while second.take(timeout=0):
        pass
    move = "select skipmq.move_fifo_batch(%s, null, 10, %s)"

    assert number(owner, move, dead.id, [f"{ARN}second.fifo"]) == 1
    assert [m["body"] for m in second.receive()] == ["2"]
    assert number(owner, move, dead.id, [f"{ARN}source.fifo"]) == 2
    assert sorted(m["group_id"] for m in source.receive()) == ["a", "b"]
    assert dead.counts() == (1, 0, 0)

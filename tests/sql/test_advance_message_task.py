import threading
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue, advance, history, number

ARN = "arn:aws:sqs:us-east-1:000000000000:"
START = "select skipmq.start_message_task(%s, %s, %s, null, %s)"
ADVANCE = "select skipmq.advance_move_tasks(%s)"
FILL = """
  insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id, group_no,
    sequence_number, message_id, body)
  select nextval('skipmq.message_id_seq'), t, t, t, q.id, case when q.fifo then n end,
    case when q.fifo then n end, gen_random_uuid(), 'x'
  from (values (%s, %s)) q (id, fifo), generate_series(1, %s) n,
    lateral (select now() - interval '1 hour' + n * interval '1 ms' as t) x
"""
TASK = "select status, moved, passed from skipmq.move_task"


def start(queue: Any, kind: str, target: str | None, body: str | None) -> None:
    destination = None if target is None else f"{ARN}{target}"
    number(queue.connection, START, f"{ARN}{queue.name}", kind, destination, body)


def task(owner: Connection) -> Any:
    return owner.execute(TASK).fetchone()


def waiting(queue: Any) -> list[str]:
    found = queue.connection.execute(
        "select body from skipmq.peek_messages(%s, null, 10000)", (queue.id,)
    ).fetchall()
    return sorted(body for (body,) in found)


@pytest.mark.parametrize(
    ("kind", "left", "there", "outcomes"),
    [
        ("move", ["no", "no"], ["yes", "yes"], [("redriven",), ("redriven",)]),
        ("copy", ["no", "no", "yes", "yes"], ["yes", "yes"], []),
        ("delete", ["no", "no"], [], [("deleted",), ("deleted",)]),
    ],
)
@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_what_matches_is_done_and_nothing_else(
    owner: Connection, name: str, kind: str, left: list[str], there: list[str], outcomes: list[Any]
) -> None:
    queue: Any
    if name.endswith(".fifo"):
        queue, other = FifoQueue(owner, name), FifoQueue(owner, "other.fifo")
        queue.put("g:yes", "g:no", "h:yes", "h:no")
    else:
        queue, other = Queue(owner, name), Queue(owner, "other")
        queue.send("yes", "no", "yes", "no")
    start(queue, kind, other.name if there else None, "yes")

    passed = [number(owner, ADVANCE, 3) for _ in range(3)]

    assert passed == [3, 1, 0]
    assert task(owner) == ("COMPLETED", 2, 4)
    assert (waiting(queue), waiting(other)) == (left, there)
    assert history(owner) == outcomes
    assert sorted(other.bodies()) == there
    assert sorted(queue.bodies()) == left


def test_messages_in_flight_and_later_ones_stay(orders: Queue) -> None:
    orders.send("received", "free")
    orders.receive(1)
    start(orders, "delete", None, None)
    orders.send("came later")

    while number(orders.connection, ADVANCE, 100):
        pass

    assert task(orders.connection) == ("COMPLETED", 1, 1)
    assert len(waiting(orders)) == 2
    assert orders.counts() == (1, 1, 0)


def test_groups_that_are_emptied_have_no_rows_left(fifo: FifoQueue) -> None:
    fifo.put("g:a", "g:b", "h:c")
    start(fifo, "delete", None, None)

    number(fifo.connection, ADVANCE, 10)

    left = "select count(*) from skipmq.message_group where queue_id = %s"
    assert number(fifo.connection, left, fifo.id) == 0


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_receivers_and_nodes_at_once_meet_each_message_once(
    database: str, owner: Connection, name: str
) -> None:
    orders: Any
    if name.endswith(".fifo"):
        orders, other = FifoQueue(owner, name), FifoQueue(owner, "other.fifo")
        orders.put(*(f"g{n % 20}:{n}" for n in range(300)))
    else:
        orders, other = Queue(owner, name), Queue(owner, "other")
        orders.send(*(f"{n}" for n in range(300)))
    start(orders, "move", other.name, None)
    received: list[str] = []

    def advance() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            for _ in range(20):
                number(connection, ADVANCE, 7)

    def receive() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            queue = orders.on(connection)
            for _ in range(15):
                found = queue.receive(5)
                received.extend(each["body"] for each in found)
                queue.delete(*found)

    threads = [threading.Thread(target=each) for each in (advance, advance, receive, receive)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while task(owner)[0] == "RUNNING":
        number(owner, ADVANCE, 50)

    assert sorted([*received, *waiting(other)]) == sorted(f"{n}" for n in range(300))
    assert waiting(orders) == []


def test_task_waits_for_what_others_hold_and_goes_on(database: str, orders: Queue) -> None:
    owner = orders.connection
    orders.send("a")
    orders.send("b")
    orders.send("c")
    other = Queue(owner, "other")
    start(orders, "copy", "other", None)
    with psycopg.connect(database) as holder:
        holder.execute("select from skipmq.message where body = 'b' for update")
        assert [number(owner, ADVANCE, 10) for _ in range(2)] == [1, 0]
        assert task(owner) == ("RUNNING", 1, 1)
        holder.rollback()

    assert [number(owner, ADVANCE, 10) for _ in range(2)] == [2, 0]
    assert task(owner) == ("COMPLETED", 3, 3)
    assert waiting(other) == ["a", "b", "c"]


def test_copies_of_a_node_that_died_are_not_made_twice(database: str, orders: Queue) -> None:
    owner = orders.connection
    orders.send("a", "b", "c", "d")
    other = Queue(owner, "other")
    start(orders, "copy", "other", None)
    number(owner, ADVANCE, 2)
    with psycopg.connect(database) as dying:
        assert number(dying, ADVANCE, 1) == 1
        dying.rollback()

    while number(owner, ADVANCE, 3):
        pass

    assert waiting(other) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_step_in_the_middle_of_a_long_queue_costs_as_much_as_the_first(
    owner: Connection, name: str
) -> None:
    queue = Queue(owner, name)
    owner.execute(FILL, (queue.id, name.endswith(".fifo"), 20_000))
    start(queue, "delete", None, "nothing has this")
    costs = []
    for most in (100, 15_000, 100):
        (tree,) = number(owner, "explain (analyze, buffers, format json) " + ADVANCE, most)
        costs.append(tree["Plan"]["Shared Hit Blocks"] + tree["Plan"]["Shared Read Blocks"])

    assert task(owner) == ("RUNNING", 0, 15_200)
    assert costs[2] < 300, costs


@pytest.mark.parametrize("limit", [2, 4, 5])
@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_step_that_reads_the_last_message_completes_the_task(
    owner: Connection, name: str, limit: int
) -> None:
    queue: Any
    if name.endswith(".fifo"):
        queue = FifoQueue(owner, name)
        queue.put("g:yes", "g:yes", "g:no", "g:no")
    else:
        queue = Queue(owner, name)
        queue.send("yes", "yes", "no", "no")
    start(queue, "delete", None, "yes")

    steps = [number(owner, ADVANCE, limit) for _ in range(-(-4 // limit))]

    assert (sum(steps), task(owner)) == (4, ("COMPLETED", 2, 4))


def test_step_that_deletes_as_many_as_its_rate_allows_reads_on_to_the_next_match(
    owner: Connection,
) -> None:
    queue = Queue(owner, "orders")
    queue.send("no", "yes", "no", "no")
    paced = "select skipmq.start_message_task(%s, 'delete', null, 1, 'yes')"
    number(owner, paced, f"{ARN}orders")
    advance(owner, "1 s")

    assert number(owner, ADVANCE, 100) == 4
    assert task(owner) == ("COMPLETED", 1, 4)

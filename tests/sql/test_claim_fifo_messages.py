from collections import defaultdict
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import advance, number, redrive_policy


def claim(fifo: FifoQueue, *limits: int, timeout: int = 30) -> dict[int, list[str]]:
    """Claim for several receives; return what each gets, by its place, as `group:body`."""
    found = defaultdict(list)
    for row in rows(fifo, *limits, timeout=timeout):
        found[row["place"]] += [f"{row['group_id']}:{row['body']}"] if row["id"] else []
    return dict(found)


def rows(fifo: FifoQueue, *limits: int, timeout: int = 30) -> list[dict[str, Any]]:
    cursor = fifo.connection.cursor(row_factory=psycopg.rows.dict_row)
    statement = "select * from skipmq.claim_fifo_messages(%s, %s::int[], %s)"
    return cursor.execute(statement, (fifo.id, list(limits), timeout)).fetchall()


def test_each_receive_gets_groups_of_its_own_in_order(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1", "a:2", "c:1", "b:2")

    assert claim(fifo, 2, 2, 2) == {1: ["a:1", "a:2"], 2: ["b:1", "b:2"], 3: ["c:1"]}


def test_receive_fills_up_from_as_many_groups_as_it_needs(fifo: FifoQueue) -> None:
    fifo.put(*[f"{name}:1" for name in "abcdefg"])

    assert claim(fifo, 3, 3) == {1: ["a:1", "b:1", "c:1"], 2: ["d:1", "e:1", "f:1"]}
    assert fifo.take() == ["g:1"]


def test_paused_queue_gives_each_receive_a_row_without_a_message(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    pause = "select skipmq.set_queue_attributes(%s, jsonb_build_object('Paused', %s::text))"
    fifo.connection.execute(pause, (fifo.id, "true"))

    paused = rows(fifo, 1, 0, 2)
    fifo.connection.execute(pause, (fifo.id, "false"))

    assert [(row["place"], row["id"], row["next_visible_in"]) for row in paused] == [
        (1, None, None),
        (3, None, None),
    ]
    assert claim(fifo, 1, 2) == {1: ["a:1"], 2: ["b:1"]}


def test_rest_of_a_group_goes_to_no_other_receive(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "b:1")

    assert claim(fifo, 2, 2, 2) == {1: ["a:1", "a:2"], 2: ["b:1"], 3: []}
    assert fifo.take() == []


def test_receives_of_different_sizes_get_what_each_wants(fifo: FifoQueue) -> None:
    fifo.put("a:1", "a:2", "a:3", "b:1", "b:2", "b:3", "c:1")

    assert claim(fifo, 1, 0, 3, 2) == {1: ["a:1"], 3: ["b:1", "b:2", "b:3"], 4: ["c:1"]}


def test_receives_of_nobody_have_no_row(fifo: FifoQueue) -> None:
    fifo.put("a:1")

    assert claim(fifo, 0, 0) == {}
    assert fifo.take() == ["a:1"]


def test_each_that_gets_nothing_learns_when_the_next_group_comes(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")
    assert fifo.take(1, timeout=60) == ["a:1"]

    first, second, third = rows(fifo, 5, 0, 5, 5, timeout=100)

    assert (first["place"], first["body"], first["next_visible_in"]) == (1, "1", None)
    for each, place in ((second, 3), (third, 4)):
        assert (each["place"], each["id"]) == (place, None)
        assert timedelta(seconds=30) < each["next_visible_in"] <= timedelta(seconds=60)


def test_delayed_expired_and_dead_messages_make_way_for_all_receives(owner: Connection) -> None:
    FifoQueue(owner, "dead.fifo")
    fifo = FifoQueue(owner, MessageRetentionPeriod=60, RedrivePolicy=redrive_policy("dead.fifo", 1))
    fifo.put("a:old", "b:old")
    advance(owner, "50 s")
    fifo.put("c:often", "a:1", "b:1")
    advance(owner, "61 s")
    assert fifo.take(1, timeout=0) == ["c:often"]
    fifo.put("c:1")

    found = claim(fifo, 1, 1, 1, 1)

    assert found.pop(4) == []
    assert sorted(found.values()) == [["a:1"], ["b:1"], ["c:1"]]


def test_timeout_zero_gives_each_message_once_in_a_call(fifo: FifoQueue) -> None:
    fifo.put("a:1", "b:1")

    assert claim(fifo, 1, 10, 10, timeout=0) == {1: ["a:1"], 2: ["b:1"], 3: []}
    assert sorted(fifo.take()) == ["a:1", "b:1"]


@pytest.mark.parametrize(("kind", "state"), [("standard", "SQ007"), ("purged", "SQ005")])
def test_claim_needs_a_fifo_queue_of_this_generation(
    fifo: FifoQueue, kind: str, state: str
) -> None:
    if kind == "standard":
        fifo.id = number(fifo.connection, "select skipmq.create_queue('plain')")
    else:
        number(fifo.connection, "select skipmq.purge_queue(%s)", fifo.id)

    with pytest.raises(psycopg.Error) as caught:
        claim(fifo, 1)

    assert caught.value.sqlstate == state

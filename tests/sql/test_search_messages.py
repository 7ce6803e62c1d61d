import json
from typing import Any

import psycopg
import pytest

from support.fifo import FifoQueue
from support.sql import Queue, number

SEARCH = (
    "select json_build_object('bodies', array(select m.body from unnest(s.ids, s.message_ids)"
    " with ordinality i (id, message_id, place) join skipmq.message m using (id, message_id)"
    " order by i.place), 'found', s.matched,"
    " 'searched', s.searched, 'finished', s.finished, 'at', s.at, 'number', s.number)"
    " from skipmq.search_messages(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) s"
)


def search(
    queue: Queue,
    body: str | None = None,
    *,
    further: dict[str, Any] | None = None,
    place: tuple[Any, Any] = (None, None),
    limit: int = 1000,
    most: int = 200_000,
    seconds: float = 60,
) -> Any:
    given = None if further is None else json.dumps(further)
    asked = (queue.id, body, None, None, given, *place, limit, most, seconds)
    return number(queue.connection, SEARCH, *asked)


def test_whole_queue_is_searched_in_flight_and_delayed_too(orders: Queue) -> None:
    orders.send("red 1")
    orders.receive()
    orders.send("blue", "red 2")
    orders.send("red 3", delay=60)

    found = search(orders, "red")

    assert sorted(found["bodies"]) == ["red 1", "red 2", "red 3"]
    assert (found["found"], found["searched"], found["finished"]) == (3, 4, True)


def test_fifo_queue_is_searched_in_order(fifo: FifoQueue) -> None:
    fifo.put("g:red 1", "h:blue", "g:red 2")

    assert search(fifo, "red")["bodies"] == ["red 1", "red 2"]


def test_search_goes_on_from_its_place(orders: Queue) -> None:
    for n in range(7):
        orders.send(f"red {n}")
    seen: list[str] = []
    step: dict[str, Any] = {"at": None, "number": None, "finished": False}
    while not step["finished"]:
        step = search(orders, "red", most=3, place=(step["at"], step["number"]))
        assert step["searched"] <= 3
        seen += step["bodies"]

    assert seen == [f"red {n}" for n in range(7)]


def test_search_counts_more_than_it_returns_and_ends_by_its_time(orders: Queue) -> None:
    orders.send(*(str(n) for n in range(2_500)))

    counted = search(orders, limit=2)
    late = search(orders, seconds=0)

    assert (len(counted["bodies"]), counted["found"], counted["finished"]) == (2, 2_500, True)
    assert (late["searched"], late["finished"]) == (0, False)


def test_invalid_path_and_retired_generation_are_refused(orders: Queue) -> None:
    with pytest.raises(psycopg.Error, match="JSON path is invalid"):
        search(orders, further={"path": "$.a.b("})
    orders.id += 1
    with pytest.raises(psycopg.Error) as caught:
        search(orders)

    assert caught.value.sqlstate == "SQ005"

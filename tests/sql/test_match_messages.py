import json
from typing import Any

from support.fifo import FifoQueue
from support.sql import Queue, number

MATCH = (
    "select m.body, f.matches and f.free"
    " from skipmq.match_messages(%s, %s::timestamptz, %s, %s, %s, %s, %s, %s) f"
    " join skipmq.message m using (id) order by f.at, f.number"
)


def match(
    queue: Any, body: Any = None, name: Any = None, value: Any = None, most: int = 10
) -> list[Any]:
    until = number(queue.connection, "select skipmq.clock()")
    asked = (queue.id, "-infinity", -1, until, body, name, value, most)
    return queue.connection.execute(MATCH, asked).fetchall()  # type: ignore[no-any-return]


def test_text_counts_as_it_is_written(orders: Queue) -> None:
    orders.send("50% off", "50 off", "OFF")

    assert match(orders, "off") == [("50% off", True), ("50 off", True), ("OFF", False)]
    assert [each for _, each in match(orders, "0% ")] == [True, False, False]
    assert [each for _, each in match(orders)] == [True, True, True]


def test_attribute_is_matched_by_name_and_value(orders: Queue) -> None:
    orders.send("none", "red", "blue")
    for colour in ("red", "blue"):
        text = json.dumps({"colour": {"DataType": "String", "StringValue": colour}})
        orders.connection.execute(
            "update skipmq.message set attributes = %s where body = %s", (text, colour)
        )

    assert [each for _, each in match(orders, None, "colour")] == [False, True, True]
    assert [each for _, each in match(orders, None, "colour", "red")] == [False, True, False]
    assert [each for _, each in match(orders, "blue", "colour", "red")] == [False, False, False]


def test_shards_are_one_line_and_what_is_not_visible_is_not_in_it(orders: Queue) -> None:
    for body in ("a", "b", "c"):
        orders.send(body)
    orders.connection.execute("update skipmq.message set shard = 1 where body = 'b'")
    orders.send("later", delay=60)
    orders.send("received")
    orders.connection.execute(
        "update skipmq.message set visible_at = now() + interval '1 minute', receive_count = 1"
        " where body = 'received'"
    )

    assert match(orders) == [("a", True), ("b", True), ("c", True)]
    assert match(orders, most=2) == [("a", True), ("b", True)]


def test_fifo_messages_in_flight_do_not_match(fifo: FifoQueue) -> None:
    fifo.put("g:a", "h:b")
    fifo.receive(1)

    assert sorted(each for _, each in match(fifo)) == [False, True]

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from support.postgres import Connection
from support.sql import Queue, number


def tag(queue: Queue, tags: Any) -> None:
    queue.connection.execute("select skipmq.tag_queue(%s, %s::jsonb)", (queue.id, Json(tags)))


def tags(queue: Queue) -> Any:
    return number(
        queue.connection,
        "select tags from skipmq.get_queue('orders', '000000000000', 'us-east-1')",
    )


def test_tag_adds_replaces_and_leaves_the_others(orders: Queue) -> None:
    tag(orders, {"team": "red", "stage": "test"})

    tag(orders, {"team": "blue", "cost": ""})

    assert tags(orders) == {"team": "blue", "stage": "test", "cost": ""}


def test_tag_beyond_fifty_in_all_is_refused_and_changes_nothing(orders: Queue) -> None:
    fifty = {f"key-{n}": "old" for n in range(50)}
    tag(orders, fifty)

    with pytest.raises(psycopg.Error) as caught:
        tag(orders, {"key-0": "new", "one-more": ""})

    assert caught.value.sqlstate == "SQ008"
    assert tags(orders) == fifty


def test_tag_that_replaces_fits_a_full_queue(orders: Queue) -> None:
    tag(orders, {f"key-{n}": "old" for n in range(50)})

    tag(orders, {"key-0": "new"})

    assert tags(orders)["key-0"] == "new"


@pytest.mark.parametrize(
    "bad", [{"k" * 129: "v"}, {"": "v"}, {"k": "v" * 257}, {"k": "\n" * 257}, {"k": 7}]
)
def test_tag_that_is_too_long_is_refused(orders: Queue, bad: Any) -> None:
    tag(orders, {"k" * 128: "é" * 256})

    with pytest.raises(psycopg.errors.CheckViolation):
        tag(orders, bad)

    assert tags(orders) == {"k" * 128: "é" * 256}


def test_tag_with_a_list_is_refused_and_changes_nothing(orders: Queue) -> None:
    with pytest.raises(psycopg.DataError):
        tag(orders, ["team"])

    assert tags(orders) == {}


def test_tag_of_a_queue_that_is_gone_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        tag(orders, {"team": "red"})

    assert caught.value.sqlstate == "SQ005"


def test_tags_survive_a_purge(orders: Queue) -> None:
    tag(orders, {"team": "red"})

    orders.connection.execute("select skipmq.purge_queue(%s)", (orders.id,))

    assert tags(orders) == {"team": "red"}


def test_node_tags_without_rights_on_the_table(node: Connection) -> None:
    queue = Queue(node)

    tag(queue, {"team": "red"})

    assert tags(queue) == {"team": "red"}

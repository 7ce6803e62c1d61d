from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json

from support.postgres import Connection
from support.sql import Queue, number


def tag(queue: Queue, **tags: str) -> None:
    queue.connection.execute("select skipmq.tag_queue(%s, %s::jsonb)", (queue.id, Json(tags)))


def untag(queue: Queue, *keys: str) -> None:
    queue.connection.execute("select skipmq.untag_queue(%s, %s::text[])", (queue.id, list(keys)))


def tags(queue: Queue) -> Any:
    return number(
        queue.connection,
        "select tags from skipmq.get_queue('orders', '000000000000', 'us-east-1')",
    )


def test_untag_takes_what_is_named_and_passes_over_what_is_not_there(orders: Queue) -> None:
    tag(orders, team="red", stage="test", cost="low")

    untag(orders, "team", "cost", "never")

    assert tags(orders) == {"stage": "test"}


def test_untag_of_a_queue_that_is_gone_raises_moved(orders: Queue) -> None:
    orders.id = 999

    with pytest.raises(psycopg.Error) as caught:
        untag(orders, "team")

    assert caught.value.sqlstate == "SQ005"


def test_node_untags_without_rights_on_the_table(node: Connection) -> None:
    queue = Queue(node)
    tag(queue, team="red")

    untag(queue, "team")

    assert tags(queue) == {}

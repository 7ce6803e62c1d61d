import threading

import psycopg
import pytest
from psycopg.types.json import Json

from support.postgres import Connection
from support.sql import Queue, advance, number


def create(connection: Connection, name: str, **attributes: str) -> int:
    value = number(connection, "select skipmq.create_queue(%s, %s::jsonb)", name, Json(attributes))
    assert isinstance(value, int)
    return value


def test_create_again_with_equal_attributes_gives_the_same_queue(node: Connection) -> None:
    first = create(node, "orders", DelaySeconds="5", VisibilityTimeout="40")

    again = create(node, "orders", VisibilityTimeout="40")

    assert again == first


def test_create_again_with_another_value_names_the_attribute(node: Connection) -> None:
    create(node, "orders", DelaySeconds="5")

    with pytest.raises(psycopg.Error) as caught:
        create(node, "orders", DelaySeconds="6")

    assert caught.value.sqlstate == "SQ002"
    assert "different value for attribute DelaySeconds" in str(caught.value)


def test_create_with_unknown_attribute_makes_nothing(node: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        create(node, "orders", DelayHours="1")

    assert caught.value.sqlstate == "SQ006"
    assert number(node, "select count(*) from skipmq.list_queues('000000000000', 'us-east-1')") == 0


@pytest.mark.parametrize("name", ["", "a b", "x" * 81, "a/b", "x.fifo.y", "x" * 76 + ".fifo", "ä"])
def test_create_with_bad_name_is_refused(node: Connection, name: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        create(node, name)


@pytest.mark.parametrize(
    ("account", "region", "tags"),
    [
        ("1" * 13, "us-east-1", {}),
        ("0" * 12, "r" * 65, {}),
        ("0" * 12, "us-east-1", {f"key-{n}": "" for n in range(51)}),
        ("0" * 12, "us-east-1", {"key": "v" * 257}),
    ],
)
def test_create_with_what_has_no_bound_is_refused(
    node: Connection, account: str, region: str, tags: dict[str, str]
) -> None:
    statement = "select skipmq.create_queue('orders', '{}', %s::jsonb, %s, %s)"
    with pytest.raises(psycopg.errors.CheckViolation):
        number(node, statement, Json(tags), account, region)


def test_create_soon_after_delete_is_refused_until_the_cooldown_ends(owner: Connection) -> None:
    queue = Queue(owner)
    owner.execute("select skipmq.delete_queue(%s)", (queue.id,))

    with pytest.raises(psycopg.Error) as caught:
        create(owner, "orders")
    advance(owner, "61 seconds")

    assert caught.value.sqlstate == "SQ003"
    assert create(owner, "orders") != queue.id


def test_create_soon_after_delete_without_cooldown_succeeds(owner: Connection) -> None:
    owner.execute("select skipmq.delete_queue(%s)", (Queue(owner).id,))

    assert number(owner, "select skipmq.create_queue('orders', p_cooldown => '0')")


def test_create_by_many_at_once_makes_one_queue(database: str) -> None:
    found: list[int] = []

    def one() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            found.append(create(connection, "orders"))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1

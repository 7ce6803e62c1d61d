"""reserve_queue gives a name to another partition, once."""

import psycopg
import pytest

from support.postgres import Connection

RESERVE = "select skipmq.reserve_queue('000000000000', 'us-east-1', %s, %s)"


def test_first_reservation_counts(node: Connection) -> None:
    places = [node.execute(RESERVE, ("tea", place)).fetchone() for place in (3, 2, 0, 3)]

    assert places == [(3,), (3,), (3,), (3,)]


def test_name_of_a_queue_that_is_here_is_not_reserved(node: Connection) -> None:
    node.execute("select skipmq.create_queue('tea')")

    assert node.execute(RESERVE, ("tea", 3)).fetchone() == (0,)
    assert node.execute("select skipmq.create_queue('tea')").fetchone() is not None


def test_reserved_name_cannot_be_created_here(node: Connection) -> None:
    node.execute(RESERVE, ("tea", 3))

    with pytest.raises(
        psycopg.Error, match="queue tea is reserved for another partition"
    ) as raised:
        node.execute("select skipmq.create_queue('tea')")

    assert raised.value.sqlstate == "SQ013"

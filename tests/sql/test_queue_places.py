import pytest

from support.postgres import Connection

ONE, TWO = "000000000001", "000000000002"


@pytest.fixture
def places(node: Connection) -> Connection:
    for name, account, region in (
        ("orders", TWO, "us-east-1"),
        ("orders", ONE, "eu-central-1"),
        ("other", ONE, "us-east-1"),
        ("third", ONE, "us-east-1"),
    ):
        node.execute("select skipmq.create_queue(%s, '{}', '{}', %s, %s)", (name, account, region))
    return node


def test_places_of_a_name_are_listed_and_those_of_others_not(places: Connection) -> None:
    found = places.execute("select * from skipmq.queue_places('orders')").fetchall()

    assert found == [(ONE, "eu-central-1", 1), (TWO, "us-east-1", 1)]
    assert places.execute("select * from skipmq.queue_places('absent')").fetchall() == []


def test_every_place_is_listed_with_its_number_of_queues(places: Connection) -> None:
    every = places.execute("select * from skipmq.queue_places(null)").fetchall()
    own = places.execute("select * from skipmq.queue_places(null, %s)", (TWO,)).fetchall()
    first = places.execute("select * from skipmq.queue_places(null, p_limit => 1)").fetchall()

    assert every == [(ONE, "eu-central-1", 1), (ONE, "us-east-1", 2), (TWO, "us-east-1", 1)]
    assert own == every[2:]
    assert first == every[:1]

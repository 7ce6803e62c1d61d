from support.access_keys import create, version
from support.postgres import Connection
from support.sql import advance, number


def test_version_grows_with_a_change_and_not_without(owner: Connection, node: Connection) -> None:
    before = version(node)
    assert version(node) == before

    create(owner)

    assert version(node) == before + 1


def test_time_is_that_of_the_brokers_clock(owner: Connection) -> None:
    difference = (
        "select now - extract(epoch from clock_timestamp()) from skipmq.access_key_version()"
    )
    assert abs(number(owner, difference)) < 60

    advance(owner, "1 hour")

    assert abs(number(owner, difference) - 3600) < 60

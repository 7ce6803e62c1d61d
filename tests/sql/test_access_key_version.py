from support.access_keys import KEY, SESSION, create, version
from support.postgres import Connection
from support.sql import advance, number


def test_version_is_another_one_after_a_change_alone(owner: Connection, node: Connection) -> None:
    before = version(node)
    assert version(node) == before

    create(owner)

    assert version(node) != before


def test_version_of_a_lost_change_is_not_given_to_another(
    owner: Connection, node: Connection
) -> None:
    """As on a standby that lacks the last change, and makes another one."""
    versions = []
    for key in (KEY, SESSION):
        with owner.transaction(force_rollback=True):
            create(owner, key)
            versions.append(version(owner))

    assert versions[0] != versions[1]
    assert version(node) not in versions


def test_time_is_that_of_the_brokers_clock(owner: Connection) -> None:
    difference = (
        "select now - extract(epoch from clock_timestamp()) from skipmq.access_key_version()"
    )
    assert abs(number(owner, difference)) < 60

    advance(owner, "1 hour")

    assert abs(number(owner, difference) - 3600) < 60

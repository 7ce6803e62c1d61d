import psycopg
import pytest

from support.access_keys import KEY, create, create_session, keys, version
from support.postgres import Connection

CHANGE = "select skipmq.change_access_key(%s, %s, %s::interval)"


def test_key_is_disabled_and_enabled_and_expires(owner: Connection) -> None:
    create(owner)
    before = version(owner)

    owner.execute(CHANGE, (KEY, False, None))
    assert not keys(owner)[KEY]["usable"]
    owner.execute(CHANGE, (KEY, True, None))
    assert keys(owner)[KEY]["usable"]
    assert keys(owner)[KEY]["expires_at"] is None
    owner.execute(CHANGE, (KEY, None, "1 hour"))
    assert keys(owner)[KEY]["expires_at"] > keys(owner)[KEY]["created_at"] + 3600

    assert version(owner) != before


def test_key_is_given_other_rights(owner: Connection) -> None:
    create(owner)
    create_session(owner)
    before = version(owner)

    owner.execute(
        "select skipmq.change_access_key(%s, null, null, %s)", (KEY, '{"role": "reader"}')
    )

    assert {key["rights"] for key in keys(owner).values()} == {'{"role": "reader"}'}
    assert keys(owner)[KEY]["usable"]
    assert version(owner) != before


def test_change_of_a_key_that_is_not_there_raises(owner: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        owner.execute(CHANGE, (KEY, False, None))

    assert caught.value.sqlstate == "SQ010"


def test_node_cannot_change_keys(owner: Connection, node: Connection) -> None:
    create(owner)

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(CHANGE, (KEY, True, None))

import psycopg
import pytest

from support.access_keys import KEY, create, create_session, keys, version
from support.postgres import Connection

REVOKE = "select skipmq.revoke_access_key(%s)"


def test_revoked_key_and_its_temporary_credentials_are_gone(owner: Connection) -> None:
    create(owner)
    create(owner, "AKIAOTHER", name="other")
    create_session(owner)
    before = version(owner)

    owner.execute(REVOKE, (KEY,))

    assert list(keys(owner)) == ["AKIAOTHER"]
    assert version(owner) != before


def test_revocation_of_a_key_that_is_not_there_raises(owner: Connection) -> None:
    with pytest.raises(psycopg.Error) as caught:
        owner.execute(REVOKE, (KEY,))

    assert caught.value.sqlstate == "SQ010"


def test_node_cannot_revoke_keys(owner: Connection, node: Connection) -> None:
    create(owner)

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(REVOKE, (KEY,))

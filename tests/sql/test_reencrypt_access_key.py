import psycopg
import pytest

from support.access_keys import KEY, create, keys, version
from support.postgres import Connection
from support.sql import number

REENCRYPT = "select skipmq.reencrypt_access_key(%s, %s::bytea, 'new', 'other')"


def test_secret_that_is_as_it_was_read_is_replaced(owner: Connection) -> None:
    create(owner)
    before = version(owner)

    assert number(owner, REENCRYPT, KEY, b"secret") is True

    assert keys(owner)[KEY]["secret"] == b"new"
    assert keys(owner)[KEY]["master_key_id"] == "other"
    assert version(owner) != before


def test_secret_that_has_changed_meanwhile_is_left(owner: Connection) -> None:
    create(owner)
    before = version(owner)

    assert number(owner, REENCRYPT, KEY, b"older") is False
    assert number(owner, REENCRYPT, "AKIAUNKNOWN", b"secret") is False

    assert keys(owner)[KEY]["secret"] == b"secret"
    assert version(owner) == before


def test_node_cannot_replace_secrets(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(REENCRYPT, (KEY, b"secret"))

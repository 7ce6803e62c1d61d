import psycopg
import pytest

from support.access_keys import ACCOUNT, KEY, SESSION, create, create_session, keys
from support.postgres import Connection
from support.sql import advance


def test_key_of_an_id_that_is_taken_is_refused(owner: Connection) -> None:
    create(owner)

    with pytest.raises(psycopg.errors.UniqueViolation):
        create(owner, account="210987654321")

    assert keys(owner)[KEY]["account"] == ACCOUNT


@pytest.mark.parametrize("account", ["", "12345678901", "1234567890123", "12345678901x"])
def test_account_is_twelve_digits(owner: Connection, account: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        create(owner, account=account)


def test_one_of_two_keys_created_at_once_has_the_name(owner: Connection, database: str) -> None:
    with psycopg.connect(database) as first, psycopg.connect(database, autocommit=True) as second:
        create(first)
        second.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable) as waited:
            create(second, "AKIAOTHER")
        assert "advisory_xact_lock" in str(waited.value)
        first.commit()
        with pytest.raises(psycopg.Error) as refused:
            create(second, "AKIAOTHER")
        assert refused.value.sqlstate == "SQ008"
        assert f"has a key named tests: rotate or revoke {KEY}" in str(refused.value)

    create(owner, "AKIAOTHER", replaces=KEY)
    create(owner, "AKIATHIRD", account="210987654321")
    assert [key["name"] for key in keys(owner).values()] == ["tests"] * 3


def test_key_without_a_name_is_a_user_of_its_own(owner: Connection) -> None:
    owner.execute(
        "select skipmq.create_access_key(%s, %s, null, 'secret', 'master')", (KEY, ACCOUNT)
    )

    assert keys(owner)[KEY]["name"] == KEY


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a/b", "a*", "x" * 65, "naïve"])
def test_name_is_one_that_policies_can_have(owner: Connection, name: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        owner.execute(
            "select skipmq.create_access_key(%s, %s, %s, 'secret', 'master')", (KEY, ACCOUNT, name)
        )


def test_key_has_the_rights_that_it_is_given(owner: Connection) -> None:
    owner.execute(
        "select skipmq.create_access_key(%s, %s, null, 'secret', 'master', null, null, null, %s)",
        (KEY, ACCOUNT, '{"role": "reader"}'),
    )

    assert keys(owner)[KEY]["rights"] == '{"role": "reader"}'


def test_temporary_credentials_need_an_enabled_permanent_key(owner: Connection) -> None:
    create(owner)
    create_session(owner)

    for parent in ("AKIAUNKNOWN", SESSION):
        with pytest.raises(psycopg.Error) as caught:
            create_session(owner, "ASIAOTHER", parent)
        assert caught.value.sqlstate == "SQ010"
    owner.execute("select skipmq.change_access_key(%s, false, null)", (KEY,))
    with pytest.raises(psycopg.Error) as caught:
        create_session(owner, "ASIAOTHER")
    assert caught.value.sqlstate == "SQ010"


def test_temporary_credentials_long_expired_are_forgotten(owner: Connection) -> None:
    create(owner)
    create_session(owner)

    advance(owner, "2 days")
    create_session(owner, "ASIAOTHER")

    left = owner.execute("select key_id from skipmq.access_key order by 1").fetchall()
    assert left == [(KEY,), ("ASIAOTHER",)]


def test_node_cannot_create_keys(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        create(node)

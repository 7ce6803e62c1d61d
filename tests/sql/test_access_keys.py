import json

import psycopg
import pytest

from skipmq.broker import access_keys
from skipmq.database.partitions import Database
from support.access_keys import ACCOUNT, KEY, SESSION, create, create_session, keys
from support.postgres import Connection, as_node
from support.sql import advance, number


def test_keys_are_given_as_they_were_stored(owner: Connection) -> None:
    create(owner)
    create_session(owner)

    found = keys(owner)

    assert list(found) == [KEY, SESSION]
    permanent, temporary = found[KEY], found[SESSION]
    assert (permanent["account"], permanent["name"], permanent["usable"]) == (
        ACCOUNT,
        "tests",
        True,
    )
    assert (permanent["secret"], permanent["master_key_id"]) == (b"secret", "master")
    assert permanent["parent"] is permanent["expires_at"] is permanent["last_used_at"] is None
    assert (temporary["account"], temporary["parent"]) == (ACCOUNT, KEY)
    assert (temporary["name"], temporary["rights"]) == ("tests", permanent["rights"])
    assert json.loads(permanent["rights"]) == {"role": "admin"}
    assert temporary["token_digest"] == b"digest"
    assert temporary["expires_at"] - temporary["created_at"] == 3600


def test_credentials_are_disabled_and_expire_with_their_key(owner: Connection) -> None:
    create(owner)
    create_session(owner)

    owner.execute("select skipmq.change_access_key(%s, false, null)", (KEY,))
    assert [key["usable"] for key in keys(owner).values()] == [False, False]
    owner.execute("select skipmq.change_access_key(%s, true, '1 minute')", (KEY,))
    assert [key["usable"] for key in keys(owner).values()] == [True, True]
    permanent, temporary = keys(owner).values()
    assert permanent["expires_at"] == temporary["expires_at"]
    owner.execute("select skipmq.change_access_key(%s, null, '2 hours')", (KEY,))
    permanent, temporary = keys(owner).values()
    assert permanent["expires_at"] > temporary["expires_at"]


def test_expired_credentials_are_given_for_another_day(owner: Connection) -> None:
    create(owner)
    owner.execute("select skipmq.change_access_key(%s, null, '1 hour')", (KEY,))
    create_session(owner)

    advance(owner, "24 hours")
    assert SESSION in keys(owner)
    advance(owner, "26 hours")
    assert list(keys(owner)) == [KEY]


def test_node_reads_keys_and_nothing_else_of_them(owner: Connection, node: Connection) -> None:
    create(owner)

    assert list(keys(node)) == [KEY]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select from skipmq.access_key")


async def test_running_node_reads_keys_of_a_release_that_knows_more(
    owner: Connection, database: str
) -> None:
    create(owner)
    text = number(owner, "select pg_get_functiondef('skipmq.access_keys()'::regprocedure)")
    owner.execute("drop function skipmq.access_keys()")
    text = text.replace("TABLE(key_id text", "TABLE(new integer, key_id text")
    owner.execute(text.replace("select k.key_id", "select 7, k.key_id"))
    owner.execute("grant execute on function skipmq.access_keys() to skipmq_node")
    pool = Database(as_node(database), size=1)

    (found,) = await access_keys.stored(pool)

    pool.close()
    assert (found.id, found.account, found.secret) == (KEY, ACCOUNT, b"secret")

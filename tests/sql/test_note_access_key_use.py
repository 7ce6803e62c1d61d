from support.access_keys import KEY, create, keys, version
from support.postgres import Connection
from support.sql import advance

NOTE = "select skipmq.note_access_key_use(%s)"


def test_use_is_noted_once_a_minute(owner: Connection) -> None:
    create(owner)
    create(owner, "AKIAOTHER", name="other")
    before = version(owner)

    owner.execute(NOTE, ([KEY, "AKIAUNKNOWN"],))
    first = keys(owner)[KEY]["last_used_at"]
    owner.execute(NOTE, ([KEY],))
    assert keys(owner)[KEY]["last_used_at"] == first
    advance(owner, "61 seconds")
    owner.execute(NOTE, ([KEY],))

    assert keys(owner)[KEY]["last_used_at"] >= first + 61
    assert keys(owner)["AKIAOTHER"]["last_used_at"] is None
    assert version(owner) == before


def test_node_notes_use_and_does_not_wait_for_another(owner: Connection, node: Connection) -> None:
    create(owner)
    node.execute("set lock_timeout = '1ms'")

    with owner.transaction():
        owner.execute("select from skipmq.access_key for update")
        node.execute(NOTE, ([KEY],))

    assert keys(owner)[KEY]["last_used_at"] is None
    node.execute(NOTE, ([KEY],))
    assert keys(owner)[KEY]["last_used_at"] is not None

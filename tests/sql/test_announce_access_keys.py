import psycopg
import pytest

from support.access_keys import create, version
from support.postgres import Connection


def test_every_change_is_notified_in_the_form_of_the_nodes(
    owner: Connection, node: Connection
) -> None:
    node.execute("listen skipmq")

    create(owner)

    (said,) = node.notifies(timeout=30, stop_after=1)
    assert said.payload == "sql keys all"


def test_nothing_is_announced_before_the_commit(owner: Connection, node: Connection) -> None:
    before = version(node)

    with owner.transaction():
        owner.execute("select skipmq.announce_access_keys()")
        assert version(node) == before

    assert version(node) != before


def test_node_cannot_announce(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute("select skipmq.announce_access_keys()")

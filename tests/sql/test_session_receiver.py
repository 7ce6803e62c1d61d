import psycopg
import pytest

from support.postgres import Connection
from support.sql import number

RECEIVER = "select skipmq.session_receiver()"


def test_session_is_named_by_role_address_and_program(owner: Connection) -> None:
    owner.execute("set application_name = 'mailer'")

    found = number(owner, RECEIVER).split("/")

    assert found[:2] == ["sql", owner.info.user]
    assert found[3] == "mailer"


def test_it_is_not_for_nodes_to_call(node: Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(RECEIVER)

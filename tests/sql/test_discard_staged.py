import psycopg
import pytest

from support.applications import Applications
from support.postgres import Connection
from support.sql import Queue, number
from support.staging import FIRST, SECOND, send, stage, staged

DISCARD = "select skipmq.discard_staged(%s, 's', %s::uuid[])"


@pytest.mark.usefixtures("orders")
def test_parts_are_deleted_and_others_are_kept(node: Connection, owner: Connection) -> None:
    stage(node, "a", "b")
    stage(node, "c", part=SECOND)

    assert number(node, DISCARD, "orders", [FIRST]) == 2
    assert staged(owner) == 1


@pytest.mark.usefixtures("orders")
def test_batch_that_is_being_sent_is_kept(owner: Connection) -> None:
    stage(owner, "a", "b")
    assert send(owner, 0, 2, limit=1) == 1

    assert number(owner, DISCARD, "orders", [FIRST]) == 0
    assert [send(owner, 0, 2) for _ in range(2)] == [1, 0]


def test_application_needs_the_right_to_send(
    orders: Queue, owner: Connection, applications: Applications
) -> None:
    Queue(owner, "mails")
    sender = applications.sender("sender", orders.name)

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send to"):
        number(sender, DISCARD, "mails", [FIRST])

import psycopg
import pytest

from support.applications import Applications
from support.postgres import Connection
from support.sql import Queue, number

GRANTED = "select skipmq.granted_queue(%s, %s, '000000000000', 'us-east-1')"
HELD = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"


@pytest.mark.parametrize(("right", "held"), [("send", 1), ("receive", 0)])
def test_generation_is_held_for_a_send(orders: Queue, right: str, held: int) -> None:
    with orders.connection.transaction():
        assert number(orders.connection, GRANTED, right, "orders") == orders.id
        assert number(orders.connection, HELD) == held


@pytest.mark.parametrize("right", ["send", "receive"])
def test_queue_that_does_not_exist_is_refused(owner: Connection, right: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        number(owner, GRANTED, right, "orders")

    assert caught.value.sqlstate == "SQ001"


def test_missing_grant_is_refused_before_the_queue_is_looked_up(applications: Applications) -> None:
    shop = applications.sender("shop", "other")

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not receive from"):
        shop.execute("select skipmq.receive_message('orders')")

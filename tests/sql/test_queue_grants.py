import psycopg
import pytest

from support.applications import Applications
from support.postgres import Connection
from support.sql import number

ROWS = "select role, account, region, queue, may_send, may_receive from skipmq.queue_grants()"


def test_grants_are_listed_in_order(owner: Connection, applications: Applications) -> None:
    applications.create("shop").create("Billing")
    applications.grant("shop", send=["b", "a"], receive=["a"])
    applications.grant("shop", send=["a"], region="eu-west-1")
    applications.grant("Billing", receive=["*"], account="123456789012")

    here, there = ("000000000000", "us-east-1"), ("000000000000", "eu-west-1")
    assert sorted(owner.execute(ROWS).fetchall()) == owner.execute(ROWS).fetchall()
    assert owner.execute(ROWS).fetchall() == [
        ("Billing", "123456789012", "us-east-1", "*", False, True),
        ("shop", *there, "a", True, False),
        ("shop", *here, "a", True, True),
        ("shop", *here, "b", True, False),
    ]
    assert number(
        owner, "select bool_and(granted_at <= clock_timestamp()) from skipmq.queue_grants()"
    )


def test_roles_that_are_gone_are_not_listed(owner: Connection, applications: Applications) -> None:
    applications.create("shop").grant("shop", send=["a"])
    owner.execute("drop role shop")

    assert owner.execute(ROWS).fetchall() == []


def test_node_and_applications_cannot_list(node: Connection, applications: Applications) -> None:
    for connection in (node, applications.both("shop", "*")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            connection.execute(ROWS)

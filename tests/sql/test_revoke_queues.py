import psycopg
import pytest

from support.applications import Applications, bodies, receive, send
from support.postgres import Connection
from support.sql import Queue, number

IS_MEMBER = "select pg_has_role('shop', 'skipmq_application', 'member')"
GRANTS = "select queue, may_send, may_receive from skipmq.queue_grants()"


def test_revocation_holds_from_the_next_statement_on_within_a_transaction(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    shop = applications.both("shop", "orders")
    with shop.transaction():
        send(shop, "orders")
        applications.revoke("shop", send=["orders"])

        with pytest.raises(psycopg.errors.InsufficientPrivilege), shop.transaction():
            send(shop, "orders")

        assert bodies(shop, "orders") == ["x"]
        applications.revoke("shop", receive=["orders"])
        with pytest.raises(psycopg.errors.InsufficientPrivilege), shop.transaction():
            receive(shop, "orders")


def test_revocation_holds_within_a_statement_that_runs(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    shop = applications.sender("shop", "orders", "mails")
    with shop.transaction():
        shop.execute(
            "declare many cursor for"
            " select skipmq.send_message('orders', n::text) from generate_series(1, 9) n"
        )
        assert len(shop.execute("fetch 2 from many").fetchall()) == 2

        applications.revoke("shop", send=["orders"])

        with pytest.raises(psycopg.errors.InsufficientPrivilege), shop.transaction():
            shop.execute("fetch 2 from many")


def test_only_what_is_named_is_taken_back(owner: Connection, applications: Applications) -> None:
    applications.create("shop").create("store")
    applications.grant("shop", send=["orders", "mail-*"], receive=["orders"])
    applications.grant("shop", send=["orders"], account="123456789012")
    applications.grant("store", send=["orders"])

    applications.revoke("shop", send=["orders"])

    assert owner.execute(
        "select role, account, queue, may_send, may_receive from skipmq.queue_grants()"
    ).fetchall() == [
        ("shop", "000000000000", "mail-*", True, False),
        ("shop", "000000000000", "orders", False, True),
        ("shop", "123456789012", "orders", True, False),
        ("store", "000000000000", "orders", True, False),
    ]
    applications.revoke("shop")
    assert owner.execute("select role from skipmq.queue_grants()").fetchall() == [("store",)]


def test_membership_goes_with_the_last_grant(owner: Connection, applications: Applications) -> None:
    applications.create("shop").grant("shop", send=["orders"], receive=["orders"])

    applications.revoke("shop", send=["orders"])
    assert number(owner, IS_MEMBER)
    applications.revoke("shop", receive=["orders"])

    assert not number(owner, IS_MEMBER)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        send(applications.connect("shop"), "orders")


@pytest.mark.parametrize(
    ("send", "receive"),
    [(["mail-a"], None), (["orders"], ["orders"]), (["orders", "mails"], None), ([], ["mail-*"])],
)
def test_revocation_of_what_was_not_granted_is_refused_and_nothing_is_taken_back(
    owner: Connection,
    applications: Applications,
    send: list[str] | None,
    receive: list[str] | None,
) -> None:
    applications.create("shop").grant("shop", send=["orders", "mail-*"])

    with pytest.raises(psycopg.Error, match="has no grant to") as caught:
        applications.revoke("shop", send=send, receive=receive)

    assert caught.value.sqlstate == "SQ010"
    assert owner.execute(GRANTS).fetchall() == [("mail-*", True, False), ("orders", True, False)]


def test_role_without_grants_and_role_that_is_not_there_are_refused(
    applications: Applications,
) -> None:
    applications.create("shop")

    for role in ("shop", "nobody"):
        with pytest.raises(psycopg.Error) as caught:
            applications.revoke(role)
        assert caught.value.sqlstate == "SQ010"


def test_membership_that_the_owner_cannot_take_back_hinders_no_revocation(
    owner: Connection, applications: Applications
) -> None:
    applications.create("shop").create("stranger").grant("shop", send=["orders"])
    owner.execute("alter function skipmq.revoke_queues owner to stranger")
    owner.execute("alter table skipmq.queue_grant owner to stranger")
    owner.execute("grant usage on schema skipmq to stranger")
    try:
        applications.revoke("shop")
    finally:
        owner.execute("reassign owned by stranger to current_user")

    assert owner.execute(GRANTS).fetchall() == []


def test_node_and_applications_cannot_revoke(node: Connection, applications: Applications) -> None:
    shop = applications.both("shop", "*")

    for connection in (node, shop):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            connection.execute("select skipmq.revoke_queues('shop')")

from typing import Any

import psycopg
import pytest

from skipmq.database import rights, schema
from support.applications import Applications, send
from support.postgres import Connection
from support.sql import Queue, number

GRANTS = "select queue, may_send, may_receive from skipmq.queue_grants() where role = %s"
IS_MEMBER = "select pg_has_role(%s, 'skipmq_application', 'member')"


def grants(connection: Connection, role: str) -> dict[str, tuple[bool, bool]]:
    """Return what a role may do: (send, receive) by queue."""
    return {queue: (s, r) for queue, s, r in connection.execute(GRANTS, (role,)).fetchall()}


def refused(connection: Connection, *parameters: Any) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            f"select skipmq.grant_queues({', '.join(['%s'] * len(parameters))})", parameters
        )
    return caught.value.sqlstate, str(caught.value.diag.message_primary)


def test_role_may_send_at_its_next_statement(owner: Connection, applications: Applications) -> None:
    Queue(owner)
    Queue(owner, "mails")
    shop = applications.sender("shop", "mails")
    shop.execute("begin")
    send(shop, "mails")

    applications.grant("shop", send=["orders"])
    send(shop, "orders")

    shop.execute("commit")
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 2


def test_grants_add_up_and_say_who_gave_them(owner: Connection, applications: Applications) -> None:
    applications.create("shop").grant("shop", send=["orders", "mails"], receive=["orders", "a*"])
    first = owner.execute("select queue, granted_at from skipmq.queue_grants()").fetchall()

    applications.grant("shop", receive=["mails"]).grant("shop", send=["orders", "orders"])

    assert grants(owner, "shop") == {
        "a*": (False, True),
        "mails": (True, True),
        "orders": (True, True),
    }
    after = owner.execute("select queue, granted_at from skipmq.queue_grants()").fetchall()
    assert [queue for queue, at in after if (queue, at) not in first] == ["mails"]
    assert number(owner, "select distinct granted_by from skipmq.queue_grants()") == "postgres"
    assert number(owner, IS_MEMBER, "shop")


@pytest.mark.parametrize(
    "queue",
    [
        *("", "a b", "a%", "a!", "a\\", "a.b", ".fifo", "a.fifo.fifo", "a.fifo*", "ä", "a\n", "a'"),
        *("x" * 81, f"{'x' * 76}.fifo", None),
    ],
)
def test_what_is_no_name_of_a_queue_is_refused_and_nothing_is_granted(
    owner: Connection, applications: Applications, queue: str | None
) -> None:
    applications.create("shop")

    assert refused(owner, "shop", ["orders"], [queue])[0] == "SQ008"
    assert refused(owner, "shop", [queue], [])[0] == "SQ008"
    assert grants(owner, "shop") == {}
    assert not number(owner, IS_MEMBER, "shop")


@pytest.mark.parametrize("queue", ["x" * 80, f"{'x' * 75}.fifo", "*", "*.fifo", "a-_Z9*"])
def test_names_and_patterns_of_queues_are_taken(
    owner: Connection, applications: Applications, queue: str
) -> None:
    applications.create("shop").grant("shop", send=[queue])

    assert grants(owner, "shop") == {queue: (True, False)}


def test_mistakes_are_said_with_the_remedy(owner: Connection, applications: Applications) -> None:
    applications.create("shop")

    assert refused(owner, "my shop", ["orders"]) == (
        "SQ010",
        "there is no role my shop: create role \"my shop\" login password '…'",
    )
    assert refused(owner, "shop")[0] == "SQ011"
    assert refused(owner, "shop", [], [])[0] == "SQ011"
    assert refused(owner, "shop", None, None)[0] == "SQ011"
    assert refused(owner, "shop", ["orders"], [], "12345")[0] == "SQ008"


def test_role_is_named_exactly(owner: Connection, applications: Applications) -> None:
    applications.create("My Shop").grant("My Shop", send=["orders"])

    assert grants(owner, "My Shop") == {"orders": (True, False)}
    assert number(owner, IS_MEMBER, "My Shop")
    assert refused(owner, "my shop", ["orders"])[0] == "SQ010"


def test_dropped_role_leaves_nothing_to_another_of_its_name(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    applications.create("shop").grant("shop", send=["orders"])
    owner.execute("drop role shop")
    owner.execute("create role shop login in role skipmq_application")

    assert grants(owner, "shop") == {}
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send"):
        send(applications.connect("shop"), "orders")
    assert number(owner, "select count(*) from skipmq.queue_grant") == 1
    applications.grant("shop", receive=["mails"])
    assert number(owner, "select count(*) from skipmq.queue_grant") == 1


def test_renamed_role_is_granted_its_queues_again(
    owner: Connection, applications: Applications
) -> None:
    """A number whose name differs may be another role's: that of a dropped one, in a dump."""
    Queue(owner)
    applications.create("shop").grant("shop", send=["orders"])

    owner.execute("alter role shop rename to store")
    try:
        assert grants(owner, "store") == {}
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send"):
            send(applications.connect("store"), "orders")
        owner.execute("select skipmq.grant_queues('store', array['orders'])")
        send(applications.connect("store"), "orders")
    finally:
        owner.execute("alter role store rename to shop")


def test_number_of_a_dropped_role_in_a_dump_is_no_other_roles(
    database: str, owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    applications.create("shop").create("other").grant("shop", send=["*"], receive=["*"])
    owner.execute("grant skipmq_application to other")
    # As a restore stores it: the number, which on that server is another role's.
    owner.execute("update skipmq.queue_grant set role = 'other'::regrole")

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send"):
        send(applications.connect("other"), "orders")
    assert grants(owner, "other") == grants(owner, "shop") == {}
    (found,) = rights.surplus(database)
    assert found.what == "role shop was dropped or renamed, and has grants of 1 queues"

    schema.migrate(database)

    assert number(owner, "select count(*) from skipmq.queue_grant") == 0
    assert rights.surplus(database) == []


def test_owner_who_may_not_grant_the_group_is_told_what_it_needs(
    owner: Connection, applications: Applications
) -> None:
    applications.create("shop").create("stranger")
    owner.execute("alter function skipmq.grant_queues owner to stranger")
    owner.execute("alter table skipmq.queue_grant owner to stranger")
    owner.execute("grant usage on schema skipmq to stranger")
    owner.execute("grant execute on function skipmq.clock, skipmq.moved_clock to stranger")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
            owner.execute("select skipmq.grant_queues('shop', array['orders'])")
    finally:
        owner.execute("reassign owned by stranger to current_user")

    assert caught.value.diag.message_hint == (
        "grant skipmq_application to stranger with admin option"
    )
    assert grants(owner, "shop") == {}


def test_node_and_applications_cannot_grant(node: Connection, applications: Applications) -> None:
    shop = applications.both("shop", "*")

    for connection in (node, shop):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
            connection.execute("select skipmq.grant_queues('shop', array['orders'])")

"""Who passes, and the error of those who do not."""

import psycopg
import pytest

from support.applications import Applications, send
from support.postgres import Connection
from support.sql import Queue, number


def refusal(connection: Connection, statement: str, *parameters: object) -> str:
    """Run a statement that is refused; return what is said."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        connection.execute(statement.encode(), parameters)
    assert caught.value.diag.message_detail is caught.value.diag.message_hint is None
    return str(caught.value.diag.message_primary)


def test_owner_superuser_node_and_their_members_pass(
    owner: Connection, node: Connection, applications: Applications
) -> None:
    Queue(owner)
    applications.create("administration", "login in role skipmq_node")

    for connection in (owner, node, applications.connect("administration")):
        send(connection, "orders")
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 3


def test_check_itself_cannot_be_called(node: Connection, applications: Applications) -> None:
    for connection in (node, applications.both("shop", "*")):
        said = refusal(connection, "select skipmq.check_grant('send', 'orders', '', '')")
        assert said.startswith("permission denied")


@pytest.mark.parametrize(
    ("granted", "allowed", "refused"),
    [
        ("orders", ["orders"], ["order", "orders2", "ORDERS", "orders.fifo", "", "o%", "_rders"]),
        ("a_b", ["a_b"], ["aXb", "ab", "a%b"]),
        ("a-*", ["a-", "a-b", "a-b-c", "a-b.fifo"], ["a", "ba-b", "A-b", " a-b"]),
        ("*-a_b", ["-a_b", "x-a_b"], ["x-aXb", "x-a_b2"]),
        ("a*b*c.fifo", ["abc.fifo", "a1b2c.fifo"], ["abc", "acb.fifo", "abcxfifo"]),
        ("*", ["", "anything", "x.fifo", "\n", "%", "\\"], []),
    ],
)
def test_star_stands_for_any_characters_and_nothing_else_does(
    applications: Applications, granted: str, allowed: list[str], refused: list[str]
) -> None:
    shop = applications.sender("shop", granted)

    for queue in allowed:
        with pytest.raises(psycopg.Error, match="does not exist in account"):
            send(shop, queue)
    for queue in refused:
        assert "may not send to" in refusal(shop, "select skipmq.send_message(%s, 'x')", queue)


def test_refusal_names_role_queue_and_remedy(applications: Applications) -> None:
    shop = applications.sender("shop", "orders")

    assert refusal(shop, "select skipmq.send_message('mails', 'x')") == (
        "role shop may not send to the queue mails:"
        " the owner of the schema grants it by `skipmq sql grant shop --send mails`"
    )
    assert refusal(shop, "select skipmq.receive_message('orders')") == (
        "role shop may not receive from the queue orders:"
        " the owner of the schema grants it by `skipmq sql grant shop --receive orders`"
    )
    assert refusal(
        shop,
        "select skipmq.send_message('orders', 'x',"
        " p_account => '123456789012', p_region => 'eu-west-1')",
    ).endswith("`skipmq sql grant shop --send orders --account 123456789012 --region eu-west-1`")


@pytest.mark.parametrize("queue", ["orders; rm -rf ~", "$(reboot)", "`reboot`", "o'; reboot '", ""])
def test_remedy_is_harmless_whatever_the_queue_is_called(
    applications: Applications, queue: str
) -> None:
    shop = applications.sender("shop", "orders")

    said = refusal(shop, "select skipmq.send_message(%s, 'x')", queue)

    quoted = queue.replace("'", "''")
    assert said.endswith(f"`skipmq sql grant shop --send '{quoted}'`")


def test_refusal_is_the_same_whether_the_queue_exists_or_not(
    owner: Connection, applications: Applications
) -> None:
    shop = applications.both("shop", "orders")
    calls = [
        "select skipmq.send_message('{}', 'x')",
        "select skipmq.send_fifo_message('{}', 'x', 'g', 'i')",
        "select skipmq.send_message('{}', '')",
        "select skipmq.receive_message('{}')",
        "select skipmq.receive_message('{}', 99)",
        "select skipmq.delete_message('{}', 1, 1, gen_random_uuid())",
        "select skipmq.change_message_visibility('{}', 1, 1, gen_random_uuid(), 0)",
        "select skipmq.change_message_visibility('{}', 1, 1, gen_random_uuid(), null)",
    ]

    def said() -> list[str]:
        return [
            refusal(shop, call.format(queue)) for call in calls for queue in ("mails", "mails.fifo")
        ]

    before = said()
    Queue(owner, "mails")
    Queue(owner, "mails.fifo")

    assert said() == before


def test_collation_of_the_caller_changes_nothing(
    owner: Connection, applications: Applications
) -> None:
    try:
        owner.execute(
            "create collation public.any_case"
            " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server was built without ICU")
    Queue(owner, "MAILS")
    shop = applications.sender("shop", "mails")

    said = refusal(shop, "select skipmq.send_message('MAILS' collate public.any_case, 'x')")
    assert "may not send to the queue MAILS" in said


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_transaction_with_an_older_snapshot_notices_a_revocation(
    owner: Connection, applications: Applications, isolation: str
) -> None:
    Queue(owner)
    shop = applications.sender("shop", "orders", "mails")
    shop.execute(f"begin isolation level {isolation}")
    send(shop, "orders")
    send(shop, "orders")

    # The transaction does not hold it up.
    applications.owner.execute("set lock_timeout = '1s'")
    applications.revoke("shop", send=["orders"])

    with pytest.raises(psycopg.errors.SerializationFailure):
        send(shop, "orders")
    shop.execute("rollback")
    shop.execute(f"begin isolation level {isolation}")
    assert "skipmq sql grant" in refusal(shop, "select skipmq.send_message('orders', 'x')")


def test_revocation_that_is_undone_or_not_committed_yet_changes_nothing(
    owner: Connection, applications: Applications
) -> None:
    Queue(owner)
    shop = applications.sender("shop", "orders", "mails")
    shop.execute("begin isolation level repeatable read")
    send(shop, "orders")
    shop.execute("set local lock_timeout = '1s'")

    owner.execute("begin")
    owner.execute("select skipmq.revoke_queues('shop', array['orders'])")
    send(shop, "orders")
    owner.execute("rollback")
    send(shop, "orders")

    shop.execute("commit")
    assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 3

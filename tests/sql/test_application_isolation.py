"""Applications that try to use what they were not granted, with all that PostgreSQL offers them."""

import re
from uuid import uuid4

import psycopg
import pytest

from support.applications import (
    Applications,
    bodies,
    dead_letter,
    delete,
    give_back,
    hide,
    receive,
    send,
)
from support.http import ROOT
from support.postgres import Connection
from support.sql import ENDS, Queue, number

PAGE = (ROOT / "app" / "docs" / "reference" / "sql.md").read_text()
SECTION = PAGE.partition("## For applications")[2].partition("\n## ")[0]
DOCUMENTED = set(re.findall(r"^\| `([a-z_]+)\(", SECTION, re.MULTILINE))
FUNCTIONS = """
  select p.proname, p.oid, oidvectortypes(p.proargtypes) from pg_proc p
  where p.pronamespace = any ('{skipmq, skipmq_views}'::regnamespace[]) order by 1"""
RELATIONS = """
  select c.oid::regclass::text, c.relkind::text from pg_class c
  where c.relnamespace = any ('{skipmq, skipmq_views}'::regnamespace[])
    and c.relkind in ('r', 'p', 'v', 'm', 'S')
  order by 1"""
TABLE = [
    "select from {}",
    "copy {} to stdout",
    "insert into {} default values",
    "delete from {}",
    "truncate {}",
    "create rule mine as on insert to {} do nothing",
    "create temporary table mine (like {} including all)",
    "alter table {} owner to shop",
]
SEQUENCE = ["select last_value from {}", "select nextval('{}')", "select setval('{}', 1)"]
OF_OTHERS = ["mails", "mails.fifo"]
OWN = ["orders", "orders.fifo"]


@pytest.fixture
def shop(owner: Connection, applications: Applications) -> Connection:
    """Give the session of an application, next to another with queues of its own."""
    for queue in (*OWN, *OF_OTHERS):
        Queue(owner, queue)
    applications.create("billing").grant("billing", send=OF_OTHERS, receive=OF_OTHERS)
    return applications.both("shop", *OWN)


@pytest.fixture
def billing(shop: Connection, applications: Applications) -> Connection:
    assert shop
    return applications.connect("billing")


def assert_uses_its_own_only(connection: Connection) -> None:
    for queue in OWN:
        send(connection, queue, "mine")
        (message,) = receive(connection, queue)
        assert hide(connection, queue, message, 60)
        assert delete(connection, queue, message)
    anything = {"id": 1, "receive_count": 1, "message_id": uuid4()}
    for queue in OF_OTHERS:
        for attempt in (
            lambda q: send(connection, q),
            lambda q: receive(connection, q),
            lambda q: delete(connection, q, anything),
            lambda q: hide(connection, q, anything, 0),
            lambda q: give_back(connection, q, anything),
            lambda q: dead_letter(connection, q, anything),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role shop may not"):
                attempt(queue)


def refused(connection: Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


def test_each_application_uses_its_own_queues_only(shop: Connection, billing: Connection) -> None:
    assert_uses_its_own_only(shop)
    send(billing, "mails", "theirs")
    refused(billing, "select skipmq.send_message('orders', 'x')")
    assert bodies(billing, "mails") == ["theirs"]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("queue", OF_OTHERS)
def test_right_to_send_is_none_to_receive_and_the_other_way_round(
    applications: Applications, queue: str
) -> None:
    sender = applications.sender("sender", queue)
    applications.create("receiver").grant("receiver", receive=[queue])
    receiver = applications.connect("receiver")

    send(sender, queue)
    (message,) = receive(receiver, queue)
    named = f"{message['id']}, 1, '{message['message_id']}'"
    for call in (
        f"receive_message('{queue}')",
        f"delete_message('{queue}', {named})",
        f"delete_received('{queue}', '{{1}}', '{{1}}', '{{{message['message_id']}}}')",
        f"change_message_visibility('{queue}', {named}, 0)",
        f"return_message('{queue}', {named})",
        f"dead_letter_message('{queue}', {named})",
    ):
        refused(sender, f"select skipmq.{call}")
    refused(receiver, f"select skipmq.send_message('{queue}', 'x')")
    refused(receiver, f"select skipmq.send_fifo_message('{queue}', 'x', 'g', 'i')")
    refused(
        receiver,
        f"select skipmq.stage_messages('{queue}', 's', gen_random_uuid(), '{{1}}', '{{x}}')",
    )
    assert hide(receiver, queue, message, 60)
    assert delete(receiver, queue, message)


def test_just_the_documented_functions_can_be_called(shop: Connection, owner: Connection) -> None:
    functions = owner.execute(FUNCTIONS).fetchall()

    may = {
        name
        for name, oid, _ in functions
        if number(owner, "select has_function_privilege('shop', %s::oid, 'execute')", oid)
    }

    assert len(functions) > 80
    assert len(DOCUMENTED) > 10
    assert may == DOCUMENTED
    for name, _, types in functions:
        nulls = ", ".join(f"null::{kind}" for kind in types.split(", ") if kind)
        if name == "change_schedule":  # It tells no schedule of another from none.
            assert number(shop, f"select skipmq.{name}({nulls})") == 0
            continue
        refused(shop, f"select skipmq.{name}({nulls})")


def test_nothing_of_the_schema_can_be_read_or_written(shop: Connection, owner: Connection) -> None:
    relations = owner.execute(RELATIONS).fetchall()

    assert {"skipmq.message", "skipmq.alembic_version", "skipmq_views.queue"} <= {
        name for name, _ in relations
    }
    assert len(relations) > 30
    for name, kind in relations:
        for statement in SEQUENCE if kind == "S" else TABLE:
            try:
                refused(shop, statement.format(name))
            except (psycopg.errors.WrongObjectType, psycopg.errors.ObjectNotInPrerequisiteState):
                # What nobody can do to a view, or to a table of partitions.
                assert kind in {"v", "p"}
                assert statement.split()[0] in {"copy", "insert", "delete", "truncate"}
    refused(shop, "create table skipmq.mine ()")
    refused(shop, "create function skipmq.mine() returns int language sql as 'select 1'")
    refused(shop, "alter schema skipmq owner to shop")
    refused(shop, "comment on schema skipmq is 'mine'")


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("of_others", OF_OTHERS)
def test_messages_of_others_cannot_be_reached_through_a_queue_of_ones_own(
    shop: Connection, billing: Connection, own: str, of_others: str
) -> None:
    send(billing, of_others, "theirs")
    (message,) = receive(billing, of_others)

    for receive_count in (0, 1, 2, -1):
        stolen = message | {"receive_count": receive_count}
        assert not delete(shop, own, stolen)
        assert not hide(shop, own, stolen, 0)

    assert receive(shop, own) == []
    assert receive(billing, of_others) == []
    assert delete(billing, of_others, message)


def test_application_cannot_become_another(shop: Connection) -> None:
    for statement in (
        "set role billing",
        "set role skipmq_node",
        "set role postgres",
        "set session authorization billing",
        "set session authorization postgres",
        "grant billing to shop",
        "grant skipmq_node to shop",
        "alter role shop superuser",
        "set session_replication_role = replica",
        "alter function skipmq.receive_message owner to shop",
        "create or replace function skipmq.check_grant(p_right text, p_queue text, p_account text,"
        " p_region text) returns void language sql as ''",
        "insert into skipmq.queue_grant select 'shop'::regrole",
        "select pg_read_file('PG_VERSION')",
    ):
        refused(shop, statement)
    assert_uses_its_own_only(shop)


def test_set_role_neither_adds_grants_nor_drops_them(
    shop: Connection, owner: Connection, applications: Applications
) -> None:
    applications.create("plain")
    owner.execute("grant plain, skipmq_application to shop")

    shop.execute("set role skipmq_application")
    assert_uses_its_own_only(shop)
    shop.execute("set role plain")
    refused(shop, "select skipmq.send_message('orders', 'x')")
    shop.execute("set session authorization default")
    assert_uses_its_own_only(shop)


@pytest.mark.usefixtures("shop")
def test_superuser_that_takes_the_identity_of_an_application_has_its_grants(
    owner: Connection,
) -> None:
    owner.execute("set session authorization shop")

    assert_uses_its_own_only(owner)


def test_function_of_another_application_has_the_grants_of_who_calls_it(
    shop: Connection, owner: Connection
) -> None:
    owner.execute("create schema lent authorization billing")
    owner.execute("grant usage on schema lent to public")
    owner.execute(
        "create function lent.send() returns uuid language sql security definer"
        " as $$ select skipmq.send_message('mails', 'x') $$"
    )
    owner.execute("alter function lent.send owner to billing")

    refused(shop, "select lent.send()")


PLANTED = """
create function planted.pg_has_role(name, oid, text) returns boolean language sql as 'select true';
create function planted.pg_has_role(name, regrole, text) returns boolean
  language sql as 'select true';
create function planted.replace(text, text, text) returns text language sql as $$ select '%' $$;
create function planted.to_regrole(text) returns regrole
  language sql as $$ select 'shop'::regrole $$;
create function planted.agrees(text, text) returns boolean language sql as 'select true';
create operator planted.= (leftarg = text, rightarg = text, function = planted.agrees);
create operator planted.~ (leftarg = text, rightarg = text, function = planted.agrees);
create operator planted.~~ (leftarg = text, rightarg = text, function = planted.agrees)"""


def test_what_is_planted_on_the_search_path_is_not_used(
    shop: Connection, owner: Connection
) -> None:
    owner.execute("create schema planted authorization shop")
    for statement in PLANTED.split(";\n"):
        shop.execute(statement.encode())
    for kind, place in (("", "planted"), ("temporary", "pg_temp")):
        for name in ("queue", "message", "queue_grant", "generation", "pg_auth_members"):
            shop.execute(f"create {kind} table {place}.{name} (role regrole, account text)")
        for name in ("pg_roles", "pg_namespace"):
            shop.execute(
                f"create {kind} view {place}.{name} as select oid, 'skipmq'::name as nspname,"
                " oid as nspowner from pg_catalog.pg_roles where rolname = 'shop'"
            )
    shop.execute("set search_path = pg_temp, planted, pg_catalog, skipmq")
    assert number(shop, "select 'a'::text like 'b'::text and pg_has_role('postgres', 1::oid, '')")
    assert number(shop, "select count(*) from pg_namespace") == 1

    assert_uses_its_own_only(shop)


@pytest.mark.parametrize(
    "setting",
    [
        "standard_conforming_strings = off",
        "transform_null_equals = on",
        "array_nulls = off",
        "quote_all_identifiers = on",
        "plan_cache_mode = force_custom_plan",
        "check_function_bodies = off",
        "row_security = off",
        "intervalstyle = 'sql_standard'",
    ],
)
def test_setting_of_the_session_changes_nothing(
    shop: Connection, owner: Connection, applications: Applications, setting: str
) -> None:
    shop.execute(f"set {setting}")
    applications.grant("shop", send=["a_b"])
    Queue(owner, "aXb")

    assert_uses_its_own_only(shop)
    refused(shop, "select skipmq.send_message('aXb', 'x')")
    with pytest.raises(psycopg.Error, match="attribute name"):
        shop.execute(
            "select skipmq.send_message('orders', 'x',"
            """ '{"a b": {"DataType": "String", "StringValue": "x"}}')"""
        )
    with pytest.raises(psycopg.Error, match="number"):
        shop.execute(
            "select skipmq.send_message('orders', 'x',"
            """ '{"a": {"DataType": "Number", "StringValue": "1x2"}}')"""
        )


def test_clock_of_an_application_cannot_be_moved(shop: Connection) -> None:
    shop.execute("set skipmq.clock_offset = '1 year'")

    refused(shop, "select skipmq.send_message('orders', 'x')")


def test_prepared_statement_is_checked_each_time(
    shop: Connection, applications: Applications
) -> None:
    applications.grant("shop", send=["spare"])
    shop.execute("prepare sending as select skipmq.send_message('orders', 'x')")
    for _ in range(7):
        shop.execute("execute sending")

    applications.revoke("shop", send=["orders"])

    refused(shop, "execute sending")


@pytest.mark.parametrize("queue", OF_OTHERS)
@pytest.mark.parametrize("end", ENDS)
def test_refused_call_never_waits(
    shop: Connection, owner: Connection, queue: str, end: str
) -> None:
    shop.execute("set lock_timeout = '1s'")
    with owner.transaction(force_rollback=True):
        owner.execute(ENDS[end].encode(), (queue,))

        for call in (
            f"send_message('{queue}', 'x')",
            f"receive_message('{queue}')",
            f"delete_message('{queue}', 1, 1, gen_random_uuid())",
            f"delete_received('{queue}', '{{1}}', '{{1}}', '{{}}')",
            f"change_message_visibility('{queue}', 1, 1, gen_random_uuid(), 0)",
        ):
            refused(shop, f"select skipmq.{call}")


def test_members_of_a_group_have_its_grants_until_they_leave_it(
    shop: Connection, owner: Connection, applications: Applications
) -> None:
    applications.create("team", "nologin").grant("team", send=["mails"])
    refused(shop, "select skipmq.send_message('mails', 'x')")

    owner.execute("grant team to shop")
    send(shop, "mails")
    refused(shop, "select skipmq.receive_message('mails')")
    applications.create("part", "nologin in role team").create("far", "login in role part")
    send(applications.connect("far"), "mails")
    applications.create("apart", "login noinherit in role team")
    apart = applications.connect("apart")
    refused(apart, "select skipmq.send_message('mails', 'x')")
    apart.execute("set role team")
    send(apart, "mails")

    owner.execute("revoke team from shop")
    refused(shop, "select skipmq.send_message('mails', 'x')")


def test_queue_of_the_same_name_in_another_account_or_region_is_another(
    shop: Connection, owner: Connection
) -> None:
    places = [("123456789012", "us-east-1"), ("000000000000", "eu-west-1"), ("", ""), (None, None)]
    create = "select skipmq.create_queue('orders', p_account => %s, p_region => %s)"
    for place in places[:2]:
        owner.execute(create, place)

    for place in places:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not send to"):
            shop.execute(
                "select skipmq.send_message('orders', 'x', p_account => %s, p_region => %s)", place
            )
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not receive from"):
            shop.execute(
                "select skipmq.receive_message('orders', p_account => %s, p_region => %s)", place
            )


@pytest.mark.usefixtures("shop")
def test_role_with_the_group_and_no_grant_may_use_no_queue(applications: Applications) -> None:
    applications.create("idle", "login in role skipmq_application")
    idle = applications.connect("idle")

    for queue in (*OWN, *OF_OTHERS, None):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role idle may not"):
            idle.execute("select skipmq.receive_message(%s)", (queue,))

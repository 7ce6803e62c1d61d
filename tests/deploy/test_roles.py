"""Roles as the runbook makes them, on servers where the owner of the schema is no superuser."""

import re

import psycopg
import pytest

from skipmq.database import schema
from support.http import ROOT
from support.postgres import Databases

# What CREATEROLE is good for changed in PostgreSQL 16.
pytestmark = pytest.mark.every_server
DOCS = ROOT / "app" / "docs"
ROLES = (DOCS / "operate" / "managed-postgresql.md").read_text()
READING = (DOCS / "analyse" / "reading.md").read_text()
(ADMINISTRATOR,) = re.findall(r"```sql\n(create role skipmq_node .*?)```", ROLES, re.DOTALL)
(TOOL,) = re.findall(r"```sql\n(create role grafana .*?)```", READING, re.DOTALL)
# With this one the owner ends the sessions of every role.
OPTIONAL = "grant pg_signal_backend to skipmq;"
assert OPTIONAL in ADMINISTRATOR
# What the SQL of the runbook supposes to be there.
BEFORE = "create role skipmq login {}; create database skipmq owner skipmq"


@pytest.mark.parametrize("rights", ["", "createrole"])
def test_owner_without_a_superusers_rights_can_end_readers_and_grant_queues(
    bare_server: Databases, rights: str
) -> None:
    prepare(bare_server, BEFORE.format(rights))
    if not rights:
        prepare(bare_server, ADMINISTRATOR)
    prepare(bare_server, "create role shop login")

    schema.migrate(url_of(bare_server, "skipmq"))

    check_readers_can_be_ended(bare_server)
    check_queues_can_be_granted(bare_server)


def check_readers_can_be_ended(bare_server: Databases) -> None:
    with (
        psycopg.connect(url_of(bare_server, "skipmq_reader")) as reader,
        psycopg.connect(url_of(bare_server, "skipmq_node"), autocommit=True) as node,
    ):
        reader.execute("set transaction isolation level repeatable read")
        assert reader.execute("select count(*) from skipmq_views.queue").fetchone() == (0,)
        pid = reader.info.backend_pid
        ended = node.execute("select pid from skipmq.end_long_snapshots('0')").fetchall()
        limits = node.execute(
            "select rolconnlimit, cardinality(rolconfig) from pg_roles"
            " where rolname = 'skipmq_reader'"
        ).fetchone()
        with pytest.raises(psycopg.OperationalError):
            reader.execute("select 1")
    assert ended == [(pid,)]
    assert limits == (32, 3)


def check_queues_can_be_granted(bare_server: Databases) -> None:
    with (
        psycopg.connect(url_of(bare_server, "skipmq"), autocommit=True) as owner,
        psycopg.connect(url_of(bare_server, "shop"), autocommit=True) as shop,
    ):
        owner.execute("select skipmq.create_queue('orders')")
        owner.execute("select skipmq.grant_queues('shop', array['orders'], array['orders'])")
        shop.execute("select skipmq.send_message('orders', 'tea')")
        received = shop.execute("select body, sender from skipmq.receive_message('orders')")
        assert received.fetchall() == [("tea", "shop")]
        owner.execute("select skipmq.revoke_queues('shop')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.execute("select skipmq.send_message('orders', 'tea')")


@pytest.mark.parametrize("rights", ["", "createrole"])
def test_owner_is_told_to_have_the_role_of_a_tool_and_can_then_end_its_sessions(
    bare_server: Databases, rights: str
) -> None:
    prepare(bare_server, BEFORE.format(rights))
    if not rights:
        prepare(bare_server, ADMINISTRATOR.replace(OPTIONAL, ""))
    schema.migrate(url_of(bare_server, "skipmq"))
    made, given = TOOL.split("grant grafana")
    prepare(bare_server, made)

    with (
        psycopg.connect(url_of(bare_server, "grafana")) as tool,
        psycopg.connect(url_of(bare_server, "skipmq")) as owner,
        psycopg.connect(url_of(bare_server, "skipmq_node"), autocommit=True) as node,
    ):
        for each in (tool, owner):
            each.execute("set transaction isolation level repeatable read")
            assert each.execute("select count(*) from skipmq_views.queue").fetchone() == (0,)
        assert tool.execute("show transaction_read_only").fetchone() == ("on",)
        pid = tool.info.backend_pid
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
            node.execute("select pid from skipmq.end_long_snapshots('0')")
        prepare(bare_server, "grant grafana" + given)
        ended = node.execute("select pid from skipmq.end_long_snapshots('0')").fetchall()
        assert owner.execute("select count(*) from skipmq_views.queue").fetchone() == (0,)
        with pytest.raises(psycopg.OperationalError):
            tool.execute("select 1")

    assert refused.value.diag.message_hint == f"grant grafana{given.partition(';')[0]}"
    assert ended == [(pid,)]


def test_owner_without_the_group_is_told_what_an_administrator_does(bare_server: Databases) -> None:
    prepare(bare_server, BEFORE.format(""))
    prepare(bare_server, "create role shop login")
    schema.migrate(url_of(bare_server, "skipmq"))

    with psycopg.connect(url_of(bare_server, "skipmq"), autocommit=True) as owner:
        grant = "select skipmq.grant_queues('shop', array['orders'])"
        with pytest.raises(psycopg.Error) as caught:
            owner.execute(grant)
        remedy = str(caught.value.diag.message_primary).partition(": ")[2]
        first, second, last = remedy.split("; ")
        prepare(bare_server, f"{first}; {second}")
        assert last == "then run skipmq migrate"
        schema.migrate(url_of(bare_server, "skipmq"))
        owner.execute(grant)
        assert owner.execute(
            "select pg_has_role('shop', 'skipmq_application', 'usage')"
        ).fetchone() == (True,)


def prepare(server: Databases, text: str) -> None:
    """Run statements as the superuser; those of the runbook after their comments are gone."""
    with psycopg.connect(server.server.url, autocommit=True) as superuser:
        for statement in re.sub(r"--.*", "", text).split(";"):
            if statement.strip():
                superuser.execute(statement.encode())


def url_of(server: Databases, role: str) -> str:
    return server.url("skipmq").replace("postgresql://postgres@", f"postgresql://{role}@")

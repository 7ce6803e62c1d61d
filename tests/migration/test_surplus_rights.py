"""Rights that SkipMQ does not give: from default privileges, from later grants, from a restore."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from skipmq.database import rights, schema
from support.commands import invoke
from support.http import NodeProcess, environment, free_port
from support.postgres import Connection, Databases, as_node, dump

# What set-up guides advise for an application.
DEFAULTS = """
alter default privileges grant select, insert, update, delete on tables to shopx;
alter default privileges grant usage, select, update on sequences to shopx;
alter default privileges grant execute on functions to shopx with grant option;
alter default privileges grant usage, create on schemas to shopx;
"""
HELD = """
select 'schema', nspname from pg_namespace, aclexplode(nspacl)
  where nspname ~ '^skipmq' and grantee = 'shopx'::regrole
union all select 'relation', relname from pg_class, aclexplode(relacl)
  where relnamespace::regnamespace::text ~ '^skipmq' and grantee = 'shopx'::regrole
union all select 'column', attname from pg_attribute, aclexplode(attacl)
  where grantee = 'shopx'::regrole
union all select 'function', proname from pg_proc, aclexplode(proacl)
  where pronamespace::regnamespace::text ~ '^skipmq' and grantee = 'shopx'::regrole
"""


@pytest.fixture
def administrator(bare_server: Databases) -> Iterator[Connection]:
    """Give a superuser's connection to an empty database of a server of its own."""
    with psycopg.connect(bare_server.empty(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def owner(databases: Databases) -> Iterator[Connection]:
    """Give the owner's connection to a database with the schema; the role of a test goes then."""
    url = databases.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create role shopx login")
        yield connection
    databases.drop(url)
    with psycopg.connect(databases.server.url, autocommit=True) as connection:
        connection.execute("drop role shopx")


def url_of(connection: Connection, role: str = "postgres") -> str:
    info = connection.info
    return f"postgresql://{role}@/{info.dbname}?host={info.host}&port={info.port}"


def held(connection: Connection) -> list[Any]:
    return connection.execute(HELD.encode()).fetchall()


def run(url: str, *words: str) -> str:
    done = invoke(words, environment({"database_url": url, "port": free_port()}))
    return done.stdout + done.stderr


def roles_by_doctor(url: str) -> dict[str, Any]:
    (found,) = (
        f for f in json.loads(run(url, "doctor", "--json"))["checks"] if f["check"] == "roles"
    )
    return dict(found)


def test_default_privileges_give_an_application_nothing_of_skipmq(
    administrator: Connection,
) -> None:
    administrator.execute("create role shopx login")
    administrator.execute(DEFAULTS.encode())
    url = url_of(administrator)

    schema.migrate(url)
    administrator.execute("select skipmq.create_queue('orders')")
    assert "may send to orders" in run(url, "sql", "grant", "shopx", "--send", "orders")

    assert held(administrator) == []
    assert rights.surplus(url) == []
    with psycopg.connect(url_of(administrator, "shopx"), autocommit=True) as shop:
        assert shop.execute("select skipmq.send_message('orders', 'x')").rowcount == 1
        for statement in (
            "select from skipmq.message",
            "select key from skipmq.receipt_key",
            "update skipmq.queue_grant set queue = '*'",
            "delete from skipmq.history_default",
            "select nextval('skipmq.message_id_seq')",
            "select skipmq.clock()",
            "create table skipmq.mine ()",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                shop.execute(statement.encode())


def test_default_privileges_do_not_reach_the_janitors_partitions(owner: Connection) -> None:
    owner.execute(DEFAULTS.encode())
    owner.execute("alter default privileges grant all on tables to public")

    created = owner.execute("select skipmq.create_history_partitions(9)").fetchone()

    assert created == (2,)
    assert held(owner) == []
    assert rights.surplus(url_of(owner)) == []


@pytest.mark.parametrize(
    ("grant", "what"),
    [
        # Versions differ in what is all.
        pytest.param(
            "grant all on all tables in schema skipmq to shopx",
            "role shopx has delete, insert, ",
            marks=pytest.mark.every_server,
        ),
        (
            "grant select on skipmq.message to public",
            "every role has select on table skipmq.message",
        ),
        (
            "grant select (body, id) on skipmq.message to shopx",
            "role shopx has select (body), select (id) on table skipmq.message",
        ),
        pytest.param(
            "grant usage on sequence skipmq.message_id_seq to shopx with grant option",
            "role shopx has usage on sequence skipmq.message_id_seq",
            marks=pytest.mark.slow,
        ),
        (
            "grant execute on function skipmq.settle to skipmq_node",
            "role skipmq_node has execute on routine skipmq.settle(tid[],text)",
        ),
        (
            "grant execute on function skipmq.clock to skipmq_node with grant option;"
            " set role skipmq_node; grant execute on function skipmq.clock to shopx; reset role",
            "role skipmq_node may grant execute on routine skipmq.clock()",
        ),
        pytest.param(
            "grant insert on skipmq.alembic_version to skipmq_node",
            "role skipmq_node has insert on table skipmq.alembic_version",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "grant create, usage on schema skipmq to shopx",
            "role shopx has create, usage on schema skipmq",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "grant usage on schema skipmq to skipmq_reader",
            "role skipmq_reader has usage on schema skipmq",
            marks=pytest.mark.slow,
        ),
        (
            "grant select on all tables in schema skipmq_views to shopx",
            "tables of schema skipmq_views",
        ),
        pytest.param(
            'create role "Odd one"; grant select on skipmq_views.queue to "Odd one"',
            'role "Odd one" has select on table skipmq_views.queue',
            marks=pytest.mark.slow,
        ),
        (
            "alter default privileges in schema skipmq grant select on tables to shopx",
            "role shopx has select on new tables of postgres in schema skipmq",
        ),
    ],
)
def test_right_that_is_granted_later_is_named_and_revoked(
    owner: Connection, grant: str, what: str
) -> None:
    url = url_of(owner)
    owner.execute(grant.encode())

    found = rights.surplus(url)
    by_node = rights.surplus(url_of(owner, "skipmq_node"))
    doctor = roles_by_doctor(url)
    report = run(url, "migrate")

    assert what in "; ".join(right.what for right in found)
    assert all(right.by_owner for right in found)
    assert by_node == found
    assert not doctor["ok"]
    assert what in doctor["detail"]
    assert "revoked: " in report
    assert rights.surplus(url) == rights.missing(url) == []
    assert held(owner) == []


def test_membership_is_no_right_too_much(owner: Connection) -> None:
    url = url_of(owner)
    owner.execute("grant skipmq_reader, skipmq_node to shopx")

    schema.migrate(url)

    assert rights.surplus(url) == []
    with psycopg.connect(url_of(owner, "shopx")) as reader:
        reader.execute("select from skipmq_views.queue")


def test_objects_of_another_owner_are_left_to_an_administrator(administrator: Connection) -> None:
    url = url_of(administrator)
    schema.migrate(url)
    administrator.execute(
        "create role boss login; create role other;"
        " alter schema skipmq owner to boss; alter table skipmq.message owner to other;"
        " grant select on skipmq.message to skipmq_reader"
    )
    own = url_of(administrator, "boss")

    (found,) = rights.surplus(own)
    script = run(own, "migrate", "--print-sql")
    administrator.execute(script.encode())

    assert not found.by_owner
    assert "revoke select on table skipmq.message from skipmq_reader cascade;" in script
    assert rights.surplus(own) == []


def test_object_of_another_owner_keeps_no_right_on_those_of_the_owner(
    administrator: Connection,
) -> None:
    """One statement for both would be refused as a whole."""
    administrator.execute("create role keeper login createrole; create role shopx login")
    database = psycopg.sql.Identifier(administrator.info.dbname)
    administrator.execute(psycopg.sql.SQL("grant create on database {} to keeper").format(database))
    url = url_of(administrator, "keeper")
    schema.migrate(url)
    administrator.execute("create table skipmq.notes (text text)")
    administrator.execute("grant select, delete on skipmq.message, skipmq.notes to shopx")

    schema.migrate(url)

    assert held(administrator) == [("relation", "notes")] * 2


def test_restored_database_has_its_surplus_named(
    administrator: Connection, bare_server: Databases
) -> None:
    """A dump has no list of rights where it is empty, so that default privileges apply."""
    url = url_of(administrator)
    schema.migrate(url)
    # Without the commands of psql, and a setting that only the newer program's server has.
    others = ("\\", "SET transaction_timeout")
    definition = "\n".join(x for x in dump(url).splitlines() if not x.startswith(others))
    restored = bare_server.empty()
    with psycopg.connect(restored, autocommit=True) as connection:
        connection.execute("create role shopx login")
        connection.execute(DEFAULTS.encode())
        connection.execute(definition.encode())
        connection.execute(
            "insert into skipmq.alembic_version values (%s)", (schema.inspect(url).required,)
        )

    before = rights.surplus(restored)
    schema.migrate(restored)

    assert "role shopx has delete, insert, select, update on" in "; ".join(r.what for r in before)
    assert rights.surplus(restored) == []


def test_node_that_starts_names_what_is_too_much(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute("grant select on skipmq.receipt_key to public")

    with NodeProcess(database_url=as_node(database)) as node:
        node.ready()

    assert "every role has select on table skipmq.receipt_key" in node.log

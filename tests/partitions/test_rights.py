"""What the roles of a router may do, and what a router stores."""

import subprocess

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipmq.database import rights
from support.partitions import Partitions, plproxy_server, run
from support.postgres import Connection, as_node

OWNERS = "owner-secret-1"


@pytest.mark.parametrize(
    "statement",
    [
        "alter user mapping for skipmq_node server skipmq options (set user 'postgres')",
        "create user mapping for skipmq_node server skipmq options (user 'postgres')",
        "create user mapping for public server skipmq options (user 'postgres')",
        "alter user mapping for skipmq_router server skipmq options (set user 'postgres')",
        "drop user mapping for skipmq_router server skipmq",
        "alter server skipmq options (set p0 'host=elsewhere')",
        "set role skipmq_router",
        "alter function skipmq_router.has_queue(integer, text, text, text) owner to skipmq_node",
    ],
)
def test_node_cannot_change_where_or_as_whom_a_router_calls(
    router: Connection, statement: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        router.execute(statement.encode())

    # No such mapping of its own, or no right to it.
    assert refused.value.sqlstate in {"42501", "42704"}
    row = router.execute("select skipmq_router.database_state(1)").fetchone()
    assert row == ("writable",)


def test_what_the_routers_functions_evaluate_is_not_the_callers(
    two: Partitions, router: Connection
) -> None:
    """An operator of the caller's would run as the role that has the mapping."""
    with psycopg.connect(two.router, autocommit=True) as owner:
        owner.execute("create schema if not exists lent; grant all on schema lent to skipmq_node")
    router.execute(
        "create function lent.int8shr(bigint, integer) returns bigint language plpgsql as"
        " $$ begin raise exception 'ran as %', current_user; end $$"
    )
    router.execute("set search_path = lent, pg_catalog")
    try:
        name = two.name_at(1)
        row = router.execute("select skipmq.create_queue(%s::text)", (name,)).fetchone()
        assert row is not None
        router.execute("select skipmq.count_messages(%s::bigint)", row)
    finally:
        router.execute("reset search_path")


def test_router_has_the_owners_password_nowhere(two: Partitions) -> None:
    with_password = [make_conninfo(url, password=OWNERS) for url in two.urls]
    assert two.init(*with_password).exit_code == 0

    given = conninfo_to_dict(two.router)
    where = [*(f"--{name}={given[name]}" for name in ("host", "port")), "--username=postgres"]
    dump = ""
    for words in (["pg_dumpall", "--globals-only"], ["pg_dump", given["dbname"]]):
        words[0] = str(plproxy_server() / words[0])
        dump += subprocess.run([*words, *where], check=True, capture_output=True, text=True).stdout

    assert "SERVER skipmq" in dump
    assert OWNERS not in dump
    assert run("rebalance-plan", "--router", two.router).exit_code == 0


@pytest.mark.parametrize("secret", ["sslpassword", "scram_client_key"])
def test_secret_that_a_router_would_show_is_refused(two: Partitions, secret: str) -> None:
    secretive = make_conninfo(two.urls[1], **{secret: "s3cret"})

    refused = two.init(two.urls[0], secretive)

    assert f"{secret} would be stored in the router" in str(refused.exception)
    assert "s3cret" not in str(refused.exception)
    added = run("add", "--router", two.router, "--partition", secretive)
    assert f"{secret} would be stored in the router" in str(added.exception)


def test_router_has_no_rights_but_its_own_and_names_others(fresh: Partitions) -> None:
    with psycopg.connect(fresh.router, autocommit=True) as owner:
        owner.execute("alter default privileges grant execute on functions to public")
        owner.execute("alter default privileges grant all on tables to public")
        assert fresh.init().exit_code == 0
        assert rights.surplus(fresh.router) == []

        owner.execute("grant usage on foreign server skipmq to skipmq_node")
        owner.execute("grant update on skipmq_router.map to skipmq_reader")

    assert [found.what for found in rights.surplus(as_node(fresh.router))] == [
        "role skipmq_node has usage on foreign server skipmq",
        "role skipmq_reader has update on table skipmq_router.map",
    ]

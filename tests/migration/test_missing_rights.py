"""Migrations by an owner who may not make roles: what is missing is named until it is made."""

import json
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from skipmq.database import rights, schema
from support.commands import invoke
from support.http import environment, free_port
from support.postgres import Databases, as_node, as_reader

ROLES = {"skipmq_node", "skipmq_reader", "skipmq_application"}


def owned(server: Databases, options: str = "") -> str:
    """Return the URL of the owner of an empty database, who is no superuser."""
    administer(server, f"create role boss login {options}")
    administer(server, "create database work owner boss")
    return server.url("work").replace("//postgres@", "//boss@")


def administer(server: Databases, statements: str) -> None:
    with psycopg.connect(server.server.url, autocommit=True) as superuser:
        superuser.execute(statements.encode())


def run(url: str, *words: str, code: int = 0) -> tuple[str, str]:
    """Run `skipmq` on a database; return what it printed and what it complained of."""
    done = invoke(words, environment({"database_url": url}))
    assert done.code == code, done.stderr
    return done.stdout, done.stderr


def reported(url: str, *words: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run(url, "migrate", "--json", *words)[0])
    return report


def roles_by_doctor(url: str) -> dict[str, Any]:
    """Return what `skipmq doctor` finds about roles and rights."""
    settings = {"database_url": url, "port": free_port()}
    done = invoke(("doctor", "--json"), environment(settings))
    found: dict[str, Any]
    (found,) = (f for f in json.loads(done.stdout)["checks"] if f["check"] == "roles")
    return found


def state(url: str) -> list[Any]:
    """Return the schemas and privileges of a database, and the roles of its server."""
    with psycopg.connect(url.replace("//boss@", "//postgres@")) as superuser:
        found = superuser.execute(
            "select nspname, nspacl::text, 0 from pg_namespace where nspname !~ '^pg_t'"
            " union all select datname, datacl::text, 0 from pg_database"
            " union all select rolname, rolconfig::text, rolconnlimit from pg_roles"
            " union all select roleid::regrole::text, member::regrole::text, 0 from pg_auth_members"
            " order by 1, 2, 3"
        )
        return found.fetchall()


@pytest.mark.every_server
def test_owner_who_may_not_make_roles_is_told_what_an_administrator_runs_until_nothing_is_missing(
    bare_server: Databases,
) -> None:
    url = owned(bare_server)

    first, complaint = run(url, "migrate")
    script, _ = run(url, "migrate", "--print-sql")
    again = reported(url)
    ill = roles_by_doctor(url)
    administer(bare_server, script)
    between = reported(url, "--dry-run")
    convalescent = roles_by_doctor(url)
    last, silence = run(url, "migrate")

    assert "migrated to 0001_pre_first" in first
    assert complaint.endswith(script)
    assert {role for role in ROLES if f"role {role} does not exist" in complaint} == ROLES
    assert (again["from"], again["migrations"]) == (again["to"], [])
    assert {missing["by"] for missing in again["missing"]} == {"administrator"}
    assert all(missing["sql"] in script for missing in again["missing"])
    # The owner grants the rest, and that is all that is left.
    assert {missing["what"] for missing in between["missing"]} == {
        f"role {role} lacks rights of this release" for role in ROLES
    }
    assert {missing["by"] for missing in between["missing"]} == {"owner"}
    assert not ill["ok"]
    assert "run the SQL of `skipmq migrate --print-sql` as an administrator" in ill["detail"]
    assert not convalescent["ok"]
    assert convalescent["detail"].endswith("run `skipmq migrate` as the schema's owner")
    assert roles_by_doctor(url)["ok"]
    assert "all roles and rights are present" in last
    assert silence == ""
    assert rights.missing(url) == []
    node = url.replace("//boss@", "//skipmq_node@")
    assert json.loads(run(node, "queue", "list", "--json")[0]) == {"queues": []}


@pytest.mark.every_server
def test_owner_who_may_make_roles_lacks_only_what_an_administrator_grants(
    bare_server: Databases,
) -> None:
    url = owned(bare_server, "createrole")

    before = reported(url, "--dry-run")
    done = reported(url)

    assert {m["what"] for m in before["missing"] if m["by"] == "administrator"} == {
        "role boss is not a member of pg_monitor"
    }
    assert {f"role {role} does not exist" for role in ROLES} <= {
        m["what"] for m in before["missing"] if m["by"] == "owner"
    }
    assert [m["sql"] for m in done["missing"]] == ["grant pg_monitor to boss"]


def test_superuser_is_told_that_nothing_is_missing(bare_server: Databases) -> None:
    url = bare_server.empty()

    report = reported(url)
    script, _ = run(url, "migrate", "--print-sql")

    assert (report["from"], report["to"]) == (None, report["migrations"][-1])
    assert report["missing"] == []
    assert script.startswith("-- Nothing is missing")
    administer(bare_server, script)


@pytest.mark.parametrize("words", ["--dry-run", "--print-sql"])
def test_asking_changes_nothing(bare_server: Databases, words: str) -> None:
    url = owned(bare_server, "createrole")
    before = state(url)

    run(url, "migrate", words)

    assert state(url) == before


def test_owner_without_a_place_for_the_schema_gets_it_from_an_administrator(
    bare_server: Databases,
) -> None:
    owned(bare_server)
    administer(bare_server, "create role guest login")
    url = bare_server.url("work").replace("//postgres@", "//guest@")

    _, refused = run(url, "migrate", code=1)
    administer(bare_server, run(url, "migrate", "--print-sql")[0])
    done = reported(url)

    assert "nothing was migrated (permission denied for database work)" in refused
    assert "`skipmq migrate --print-sql`" in refused
    assert len(refused.splitlines()) == 1
    assert done["migrations"] == ["0001_pre_first"]
    assert done["missing"] == []


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        ("revoke execute on function skipmq.send_messages from skipmq_node", "skipmq_node"),
        ("revoke usage on schema skipmq from skipmq_node", "skipmq_node"),
        ("revoke select on skipmq.alembic_version from skipmq_node", "skipmq_node"),
        ("revoke select on skipmq_views.queue from skipmq_reader", "skipmq_reader"),
        ("revoke execute on function skipmq.send_message from skipmq_application", "application"),
    ],
)
def test_right_that_is_taken_away_is_missing_for_every_role_that_asks_and_comes_back(
    database: str, loss: str, what: str
) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(loss.encode())
    node = database.replace("//postgres@", "//skipmq_node@")

    ((missing,), asked_by_a_node) = rights.missing(database), rights.missing(node)
    schema.migrate(database)

    assert what in missing.what
    assert missing.by_owner
    assert asked_by_a_node == [missing]
    assert rights.missing(database) == []


def test_server_that_is_too_old_is_refused_before_anything_is_changed(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = databases.empty()
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990000)

    with pytest.raises(schema.SchemaError, match="SkipMQ needs 15 or newer"):
        schema.migrate(url)

    with psycopg.connect(url) as connection:
        assert connection.execute("select to_regnamespace('skipmq')").fetchone() == (None,)


def test_server_that_is_newer_than_all_tested_ones_is_used_and_reported(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = databases.empty()
    with psycopg.connect(url) as connection:
        server = connection.info.server_version // 10000
    monkeypatch.setattr(schema, "FIRST_UNTESTED_SERVER", server * 10000)
    monkeypatch.setattr(schema, "NEWEST_TESTED", server - 1)

    with capture_logs() as lines:
        assert schema.migrate(url).is_current

    assert {each["event"] for each in lines} == {
        "the server is newer than those that SkipMQ is tested with"
    }
    assert (lines[0]["server"], lines[0]["newest_tested"]) == (server, server - 1)
    settings = {"database_url": as_node(url), "port": free_port()}
    found = json.loads(invoke(("doctor", "--json"), environment(settings)).stdout)["checks"]
    (detail,) = (each["detail"] for each in found if each["check"] == "database")
    assert detail.endswith(f", newer than those that SkipMQ is tested with, up to {server - 1}")


def test_revoke_that_is_offered_keeps_advisory_locks_for_the_owner(bare_server: Databases) -> None:
    """Run it as the administrator, and let the roles of nodes and readers try."""
    url = bare_server.migrated()
    script, _ = run(url, "migrate", "--print-sql")
    offered = script[script.index("-- do $$") :]

    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute("\n".join(line[3:] for line in offered.splitlines()).encode())
        administrator.execute("select skipmq.create_queue('orders.fifo'), skipmq.create_queue('a')")
    with (
        psycopg.connect(as_reader(url), autocommit=True) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("select pg_advisory_lock(1)")
    with psycopg.connect(as_node(url), autocommit=True) as node:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            node.execute("select pg_try_advisory_xact_lock_shared(1, 2)")
        node.execute("select skipmq.send_fifo_message('orders.fifo', 'x', 'g', 'id')")
        node.execute("select skipmq.send_message('a', 'x')")
        node.execute("select skipmq.purge_queue(skipmq.queue_id('orders.fifo'))")
        node.execute("select skipmq.delete_queue(skipmq.queue_id('a'))")
        node.execute("select skipmq.watch_disk()")

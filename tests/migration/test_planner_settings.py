"""The planner settings of functions, which `create or replace function` drops without a word."""

import json
from typing import Any

import psycopg
import pytest

from skipmq.database import condition, files, schema
from support.commands import invoke
from support.http import environment, free_port
from support.postgres import Connection, Databases, as_node

FOUND = """
select proname, array_to_string(proconfig, ' ') from pg_proc
where pronamespace = 'skipmq'::regnamespace and proconfig is not null
"""
SETTINGS = {
    *("plan_cache_mode=force_generic_plan", "enable_seqscan=off", "enable_bitmapscan=off"),
    *("enable_sort=off", "enable_hashjoin=off", "enable_mergejoin=off", "jit=off"),
}


def settings(connection: Connection) -> dict[str, set[str]]:
    """Return the settings of each function that has some."""
    return {name: set(found.split(" ")) for name, found in connection.execute(FOUND)}


def by_doctor(url: str) -> dict[str, Any]:
    """Return what `skipmq doctor` finds about them as a node's role."""
    variables = environment({"database_url": as_node(url), "port": free_port()})
    findings = json.loads(invoke(("doctor", "--json"), variables).stdout)["checks"]
    found: dict[str, Any]
    (found,) = (each for each in findings if each["check"] == "planner")
    return found


@pytest.mark.every_server
def test_functions_that_are_replaced_lose_their_settings_until_the_next_migration(
    databases: Databases,
) -> None:
    url = databases.migrated()
    names = set(condition.planned())
    with psycopg.connect(url, autocommit=True) as owner:
        installed = settings(owner)
        well = by_doctor(url)
        for name in names:
            text = next(f for f in files.functions() if f.stem == name).read_text()
            owner.execute(
                text.replace("\ncreate function", "\ncreate or replace function").encode()
            )
        ill = by_doctor(url)
        schema.migrate(url)

        assert {name for name, found in installed.items() if found >= SETTINGS} == names
        assert settings(owner) == installed
    assert well["ok"]
    assert not ill["ok"]
    assert f": {', '.join(sorted(names))}: run `skipmq migrate`" in ill["detail"]
    assert by_doctor(url) == well

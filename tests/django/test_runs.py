"""The project's own tests, in databases that its test runners make."""

import re
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from support.postgres import Connection
from support.sql import number


def passed(printed: str) -> int:
    """Return how many tests Django has run, all with success."""
    found = re.search(r"^Ran (\d+) tests? in .*\n\nOK$", printed, re.MULTILINE)
    assert found, printed
    return int(found[1])


def test_manage_py_test_has_the_schema_by_itself(manage: Any, tables: Connection) -> None:
    printed = manage.run("test")

    assert passed(printed) == 13
    # In the database of the settings it has done nothing.
    assert not number(tables, "select to_regclass('skipmq.message') is not null")
    name = manage.settings["databases"]["default"]["TEST"]["NAME"]
    assert not number(tables, "select count(*) from pg_database where datname = %s", name)


@pytest.mark.slow
def test_databases_of_parallel_tests_have_it_too(manage: Any) -> None:
    assert passed(manage.run("test", "--parallel", "2", "--shuffle")) == 13


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_database_of_pytest_has_it_too(manage: Any, workers: str) -> None:
    # Of each kind of test case some: all take a second more.
    which = "Outbox or order_is_shipped or nothing_is_left"
    printed = manage.pytest("-n", workers, "-o", "python_files=tests.py", "-k", which, "shop")

    assert re.search(r"^=+ 9 passed, 4 deselected in ", printed, re.MULTILINE), printed


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"migrate": False}, id="without migrations", marks=pytest.mark.slow),
        pytest.param({"managed": False}, id="not managed"),
    ],
)
def test_database_of_tests_has_it_whatever_the_settings_say(
    manage: Any, setting: dict[str, bool]
) -> None:
    if "migrate" in setting:
        manage.settings["databases"]["default"]["TEST"]["MIGRATE"] = False
    else:
        manage.settings["skipmq"]["MANAGED"] = False

    assert passed(manage.run("test", "shop.tests.Outbox")) == 6


def test_flush_of_the_project_s_database_keeps_messages(shop: Any, tables: Connection) -> None:
    shop.place()

    shop.run("flush", "--no-input")

    assert number(tables, "select count(*) from shop_order") == 0
    kept = "select count(*) from skipmq_views.message where queue = 'orders' and not retired"
    assert number(tables, kept) == 1


def test_database_of_tests_that_may_not_be_made_is_an_error(
    manage: Any, tables: Connection
) -> None:
    """The role may use the database, and create no schema in it."""
    name = manage.settings["databases"]["default"]["TEST"]["NAME"]
    tables.execute("create role tester login createdb")
    tables.execute(f'create database "{name}"')
    with psycopg.connect(make_conninfo(manage.url, dbname=name), autocommit=True) as database:
        database.execute("grant all on schema public to tester")
    manage.settings["databases"]["default"]["USER"] = "tester"
    try:
        printed = manage.run("test", "--keepdb", code=1)
    finally:
        tables.execute(f'drop database "{name}" with (force)')
        tables.execute("drop role tester")

    assert "CommandError: SkipMQ cannot be installed into the database 'default': " in printed
    assert "`skipmq migrate --print-sql`" in printed

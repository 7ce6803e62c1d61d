import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory

from skipmq.database import files, schema
from support.forks import Forked
from support.http import SKIPMQ, environment
from support.postgres import Databases, as_node, dump


def comparable(text: str) -> list[str]:
    """Return a dump's lines without partitions of days."""
    text = re.sub(r"history_\d{8}", "history_DAY", text)
    blocks = [b for b in text.split("\n--\n") if "history_DAY" not in b]
    return [
        line
        for line in "\n".join(blocks).splitlines()
        if line and not line.startswith(("--", "\\"))
    ]


def contents(url: str) -> dict[str, list[Any]]:
    """Return what is in the tables, but for times and keys."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select relname from pg_class where relnamespace = 'skipmq'::regnamespace"
            " and relkind = 'r' and not relispartition"
        ).fetchall()
        return {
            table: connection.execute(
                "select t - '{created_at, made_at, key}'::text[] from"  # type: ignore[arg-type]
                f" (select to_jsonb(t) as t from skipmq.{table} t) t order by t::text"
            ).fetchall()
            for (table,) in tables
        }


def test_sql_folder_and_migrations_build_the_same_schema(databases: Databases) -> None:
    by_sql, by_alembic = databases.migrated(), databases.empty()

    schema.upgrade(by_alembic)

    assert comparable(dump(by_sql)) == comparable(dump(by_alembic))
    assert "FUNCTION skipmq.receive_messages" in dump(by_sql)
    assert contents(by_sql) == contents(by_alembic)
    assert contents(by_sql)["alembic_version"] == [({"version_num": "0001_pre_first"},)]


def test_alembic_goes_on_from_a_schema_that_was_installed(databases: Databases) -> None:
    url = databases.migrated()
    steps: list[str] = []

    schema.upgrade(url, steps.append)

    assert steps == []
    assert schema.inspect(url).is_current


def test_database_that_is_empty_or_current_is_migrated_without_alembic(
    databases: Databases,
) -> None:
    url = databases.empty()
    program = (
        "import sys; from skipmq.database import schema; told = []\n"
        "states = [schema.migrate(sys.argv[1], told.append).found for _ in range(2)]\n"
        "print(*states, *told, *{'alembic', 'sqlalchemy', 'mako'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["0001_pre_first"] * 3


def test_migrate_by_two_at_once_does_it_once(databases: Databases) -> None:
    url = databases.empty()
    variables = environment({"database_url": url})
    processes = [
        Forked([*SKIPMQ, "migrate"], env=variables, stdout=subprocess.PIPE) for _ in range(2)
    ]
    for process in processes:
        process.communicate(timeout=120)

    assert [process.returncode for process in processes] == [0] * 2
    assert schema.inspect(url).is_current
    assert len(contents(url)["receipt_key"]) == 1


def test_migrate_tells_each_step_and_nothing_the_second_time(databases: Databases) -> None:
    url = databases.empty()
    first: list[str] = []
    second: list[str] = []

    schema.migrate(url, first.append)
    schema.migrate(url, second.append)

    assert first == ["0001_pre_first"]
    assert second == []


def test_migrate_grants_rights_again(databases: Databases) -> None:
    url = databases.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("revoke all on all functions in schema skipmq from skipmq_node")
        connection.execute("grant execute on function skipmq.settle to skipmq_node")

    schema.migrate(url)

    with psycopg.connect(url) as connection:
        allowed = connection.execute(
            "select proname, has_function_privilege('skipmq_node', oid, 'execute') from pg_proc"
            " where pronamespace = 'skipmq'::regnamespace"
            " and proname in ('send_messages', 'settle') order by proname"
        ).fetchall()
    assert allowed == [("send_messages", True), ("settle", False)]


def test_check_of_an_empty_database_says_to_migrate(databases: Databases) -> None:
    with pytest.raises(schema.SchemaError, match="run `skipmq migrate`"):
        schema.check(databases.empty())


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        ("9999_post_other", True),
        ("unheard-of", True),
        ("{next}_pre_more", False),
        ("{next}_post_less", True),
    ],
)
def test_check_of_a_newer_schema_tolerates_only_the_next_expansion(
    database: str, found: str, refused: bool
) -> None:
    number = int(schema.inspect(database).required.split("_")[0]) + 1
    with psycopg.connect(database) as connection:
        connection.execute(
            "update skipmq.alembic_version set version_num = %s",
            (found.format(next=f"{number:04}"),),
        )

    if refused:
        with pytest.raises(schema.SchemaError, match="install the SkipMQ release"):
            schema.check(database)
    else:
        schema.check(database)


def test_migrations_are_named_and_numbered() -> None:
    scripts = list(ScriptDirectory(str(files.folder("migrations"))).walk_revisions())

    for number, script in enumerate(reversed(scripts), start=1):
        path = Path(script.path)
        assert re.fullmatch(rf"{number:04}_(pre|post)_[a-z_]+", script.revision)
        assert path.stem == script.revision
        # Until it is released, the first runs sql/.
        assert path.with_suffix(".sql").exists() or number == 1


def test_migrate_as_another_role_than_the_owner_says_so(databases: Databases) -> None:
    url = databases.migrated()

    with pytest.raises(schema.SchemaError, match="run `skipmq migrate` as its owner"):
        schema.migrate(as_node(url))

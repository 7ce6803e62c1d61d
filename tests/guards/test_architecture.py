"""Rules of the house that a reader would otherwise have to remember."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from skipmq.actions.sqs.table import ACTIONS
from skipmq.config.settings import Settings
from skipmq.database import files
from skipmq.protocol import shapes
from support.tree import tracked

ROOT = Path(__file__).resolve().parent.parent.parent
APP = ROOT / "app" / "skipmq"
FUNCTIONS = files.functions()
CONTRACT = ["-- Does:", "-- Called by:", "-- Locks, in order:", "-- Raises:", "-- Relies on index:"]
# The packages that may hold SQL.
SQL_FOLDERS = ("analytics/postgres", "broker", "database", "server/ephemeral")
# And the modules.
SQL_MODULES = ("client/statements.py", "django/statements.py")
# And those with SQL of DuckDB's or DataFusion's, on files.
FILE_MODULES = (
    "analytics/reports/engines/duckdb.py",
    "analytics/queue_settings.py",
    "analytics/lake/stored_rows.py",
)
# How a statement begins, or what only a statement has.
STATEMENT = re.compile(
    r"^\s*(select|update|vacuum|listen|notify|set)\s+[a-z_(*{]"
    r"|^\s*with [a-z_]+ as\b|^\s*(begin|commit|rollback)\b"
    r"|\b(insert into|delete from|(create|alter|drop) (table|schema|view|index|role|function))\b"
    r"|\bselect\b.*\bfrom\b",
    re.DOTALL,
)
TOP = {
    *("pyproject.toml", "app", "migrations", "sql", "tests", "deploy", "README.md"),
    *("Makefile", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"),
}


def test_top_level_has_only_what_was_agreed() -> None:
    names = {path.relative_to(ROOT).parts[0] for path in tracked()}

    beyond = {name for name in names if not name.startswith(".")} - TOP
    assert beyond == set(), "into a folder that is there; or an agreed name into TOP"


def test_actions_are_the_twenty_three_of_sqs() -> None:
    remedy = (
        "ACTIONS of actions/sqs/table.py are those that SQS has: own ones are in actions/skipmq"
    )
    assert set(ACTIONS) == set(shapes.ACTIONS), remedy
    assert len(ACTIONS) == 23, remedy


@cache
def callers() -> tuple[dict[Path, str], list[str]]:
    """Return what may call a function: the files of SQL, and the text of modules."""
    sql = {file: file.read_text() for file in [*FUNCTIONS, files.folder("sql") / "partitions.sql"]}
    return sql, [file.read_text() for each in SQL_FOLDERS for file in (APP / each).rglob("*.py")]


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda f: f.stem)
def test_sql_function_has_contract_caller_and_test(file: Path) -> None:
    text = file.read_text()
    positions = [text.find(head) for head in CONTRACT]
    others, python = callers()
    said = re.search(r"-- Called by:(.*?)-- Locks", text, re.DOTALL)

    assert -1 not in positions, f"the file begins with a contract: {', '.join(CONTRACT)}"
    assert positions == sorted(positions), f"in this order: {', '.join(CONTRACT)}"
    assert positions[0] == 0, "the contract is the head of the file"
    assert f"create function skipmq.{file.stem}(" in text, "the file is named after its function"
    assert text.count("create function") == 1, "one function a file"
    called = any(f"skipmq.{file.stem}(" in other for path, other in others.items() if path != file)
    called = called or any(
        f"skipmq.{file.stem}{end}" in module for module in python for end in ("(", '"\n')
    )
    assert called or (said and "SQL users" in said[1]), "call it, say SQL users do, or delete it"
    test = ROOT / "tests" / "sql" / f"test_{file.stem}.py"
    assert test.exists(), f"test it in tests/sql/{test.name}"


def test_every_function_that_python_calls_exists() -> None:
    folders = [APP / folder for folder in ("broker", "client")]
    modules = [module for folder in folders for module in folder.rglob("*.py")]
    called = {
        name
        for module in [*modules, APP / "django" / "statements.py"]
        for name in re.findall(r"(?<!messaging\.)skipmq\.([a-z_]+)[\"(]", module.read_text())
    }

    assert called
    missing = called - {file.stem for file in FUNCTIONS}
    assert missing == set(), (
        "a file sql/functions/FOLDER/NAME.sql, or the right name in the statement"
    )


def test_statements_name_their_columns() -> None:
    found = [
        (module.name, text)
        for folder in ("broker", "client", "django")
        for module in (APP / folder).rglob("*.py")
        for text in texts(module)
        if re.search(r"select\s+\*", text)
    ]

    assert found == [], "name the columns: the function of the next release may return more"


def test_sessions_are_in_utf8_whatever_the_environment_sets() -> None:
    callers = {
        file.relative_to(APP).as_posix()
        for file in APP.rglob("*.py")
        if re.search(r"(psycopg|Connection|kind)\.connect\(", file.read_text(encoding="utf-8"))
    }

    assert callers == {
        "client/connections.py",
        "database/connection.py",
        "database/pooler.py",
        "database/session.py",
    }, "connect by one of these modules, which pin the settings of sessions"


def test_every_setting_stands_in_the_example_environment() -> None:
    example = (ROOT / "deploy" / "env" / "skipmq.env.example").read_text()
    expected = {f"SKIPMQ_{f.name.upper()}" for f in fields(Settings)}

    found = set(re.findall(r"^#?(SKIPMQ_[A-Z_]+)=", example, re.MULTILINE))
    assert found == expected | {"SKIPMQ_CONFIG"}, (
        "deploy/env/skipmq.env.example has #SKIPMQ_NAME=DEFAULT for each setting, and no other"
    )


def texts(module: Path) -> Iterator[str]:
    """Give the strings of a module, without docstrings and with {} for what f-strings insert."""
    skipped: set[ast.AST] = set()
    # A node comes before its parts.
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Expr):
            skipped.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def test_sql_stands_only_where_postgresql_is_spoken_to() -> None:
    found = {
        (str(module.relative_to(APP)), text)
        for module in APP.rglob("*.py")
        if not any(module.is_relative_to(APP / folder) for folder in SQL_FOLDERS)
        and module.relative_to(APP).as_posix() not in SQL_MODULES + FILE_MODULES
        for text in texts(module)
        if STATEMENT.search(text)
    }

    assert found == set(), f"move the statement to one of {', '.join(SQL_FOLDERS + SQL_MODULES)}"


@pytest.mark.parametrize(("pattern", "most"), [("*.py", 400), ("*.sql", 150)])
def test_no_file_is_too_long_to_read(pattern: str, most: int) -> None:
    frozen = ROOT / "migrations" / "versions"
    lengths = {
        path.relative_to(ROOT): len(path.read_text().splitlines())
        for path in tracked()
        if path.match(pattern) and frozen not in path.parents
    }

    too_long = {path: n for path, n in lengths.items() if n > most}
    assert too_long == {}, f"at most {most} lines: divide the file by its subjects"


def test_console_has_little_script_and_style_of_its_own() -> None:
    own = {
        path.name: len(path.read_text().splitlines())
        for path in (APP / "console" / "static").iterdir()
        if path.suffix in {".js", ".css"} and not path.name.endswith(".min.js")
    }

    assert {"console.css", "console.js"} <= own.keys()
    assert sum(own.values()) <= 1_500, f"1,500 lines for all: shorten one of {own}"


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "helpers", "common", "manager", "base", "misc"}

    found = {path for path in tracked() if path.stem in drawers}
    assert found == set(), "name the module after what it holds"


def test_types_are_checked_alike_without_spark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    analytics = project["project"]["optional-dependencies"]["analytics"]
    names = {re.split(r"[^a-z0-9-]", each)[0] for each in analytics}
    names = {name.removesuffix("-python").replace("-", "_") for name in names}
    skipped = {
        module.removesuffix(".*")
        for override in project["tool"]["mypy"]["overrides"]
        if override.get("follow_imports") == "skip"
        for module in override["module"]
    }

    # The server has Jinja with Flask.
    missing = names - {"jinja2", "skipmq"} - skipped
    assert missing == set(), 'add "NAME.*" to the first [[tool.mypy.overrides]] of pyproject.toml'

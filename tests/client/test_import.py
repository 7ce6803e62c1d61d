"""What a program pays for the client: neither the server nor what its own libraries do not need."""

import re
import subprocess
import sys

import pytest

EXPENSIVE = {
    *("alembic", "click", "cryptography", "flask", "prometheus_client", "psycopg", "pydantic"),
    *(
        "rich",
        "sqlalchemy",
        "structlog",
        "skipmq.protocol.errors",
        "skipmq.server",
        "skipmq.database.connection",
    ),
}


def imports(statement: str) -> dict[str, int]:
    """Return the modules that a statement imports, and how many microseconds each takes."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = re.findall(r"^import time:.*\|\s*(\d+) \|\s+(\S+)$", done.stderr, re.MULTILINE)
    return {name: int(cumulative) for cumulative, name in lines}


def test_package_is_imported_in_an_instant() -> None:
    # The shortest of some: others use the processors too.
    found = [imports("import skipmq") for _ in range(5)]

    assert min(each["skipmq"] for each in found) < 60_000
    assert found[0].keys() & {*EXPENSIVE, "asyncio", "msgspec", "skipmq.client"} == set()


@pytest.mark.parametrize("name", ["Queue", "Retry", "Discard", "DeadLetter"])
def test_client_imports_none_of_the_server(name: str) -> None:
    found = imports(f"from skipmq import {name}")

    assert "skipmq.client" in found
    assert found.keys() & EXPENSIVE == set()


def test_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Broker' from 'skipmq'"):
        from skipmq import Broker  # type: ignore[attr-defined] # noqa: F401, PLC0415


@pytest.mark.parametrize("name", ["App", "Context"])
def test_consumers_import_psycopg_and_none_of_the_server(name: str) -> None:
    found = imports(f"from skipmq import {name}")

    assert found.keys() & EXPENSIVE == {"psycopg"}

"""What a program pays for the client: neither the server nor what its own libraries do not need."""

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


PROGRAM = """
import sys
from time import process_time
began = process_time()
{}
print(process_time() - began, *sys.modules)
"""


def imports(statement: str) -> tuple[float, set[str]]:
    """Return the processor's seconds that a statement takes, and what has been imported then."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, *modules = done.stdout.split()
    return float(seconds), {*modules}


def test_package_is_imported_in_an_instant() -> None:
    # The shortest of some: others use the processors too.
    found = [imports("import skipmq") for _ in range(3)]

    assert min(seconds for seconds, _ in found) < 0.06
    assert found[0][1] & {*EXPENSIVE, "asyncio", "msgspec", "skipmq.client"} == set()


@pytest.mark.parametrize("name", ["Queue", "Retry", "Discard", "DeadLetter"])
def test_client_imports_none_of_the_server(name: str) -> None:
    _, found = imports(f"from skipmq import {name}")

    assert "skipmq.client" in found
    assert found & EXPENSIVE == set()


def test_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Broker' from 'skipmq'"):
        from skipmq import Broker  # type: ignore[attr-defined] # noqa: F401, PLC0415


@pytest.mark.parametrize("name", ["App", "Context"])
def test_consumers_import_psycopg_and_none_of_the_server(name: str) -> None:
    _, found = imports(f"from skipmq import {name}")

    assert found & EXPENSIVE == {"psycopg"}

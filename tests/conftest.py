"""Real PostgreSQL servers and databases for all tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from skipmq import embedded
from support.postgres import DEBIAN, Connection, Databases, as_node, debian_servers


@pytest.fixture(scope="session")
def public_folder() -> Iterator[Path]:
    """Give a folder that every account can reach: a server may run under one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_databases(public_folder: Path) -> Iterator[Databases]:
    with embedded.start(public_folder / "embedded", ephemeral=True) as server:
        yield Databases(server)


@pytest.fixture(scope="session", params=["embedded", *debian_servers()])
def databases(
    request: pytest.FixtureRequest, public_folder: Path, embedded_databases: Databases
) -> Iterator[Databases]:
    """Give each PostgreSQL there is in turn."""
    if request.param == "embedded":
        yield embedded_databases
        return
    binaries = DEBIAN / request.param / "bin"
    folder = public_folder / f"debian-{request.param}"
    with embedded.start(folder, ephemeral=True, bin_dir=binaries) as server:
        yield Databases(server)


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a fresh database."""
    url = databases.migrated()
    yield url
    databases.drop(url)


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    """Give a connection of the schema's owner, who may move the clock."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def node(database: str) -> Iterator[Connection]:
    """Give a connection with a node's rights."""
    with psycopg.connect(as_node(database), autocommit=True) as connection:
        yield connection


def pytest_report_header() -> str:
    missing = "" if debian_servers() else " (none of Debian's: install the package postgresql)"
    return f"PostgreSQL: embedded {' '.join(debian_servers())}{missing}"


def pytest_sessionstart() -> None:
    if os.environ.get("CI") == "true" and not debian_servers():  # noqa: TID251 - a switch of the tests.
        pytest.exit("CI needs Debian's PostgreSQL: install the package postgresql", returncode=3)

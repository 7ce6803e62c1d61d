"""Folders for embedded servers, and certificates for nodes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.certificates import Authority
from support.certificates import Files
from support.postgres import Databases, as_node
from support.processes import is_alive, pids_with, until


@pytest.fixture
def place(server_folder: Path) -> Iterator[Path]:
    """Give a folder that every account can pass; nothing runs in it after the test."""
    folder = Path(tempfile.mkdtemp(prefix="place-", dir=server_folder))
    folder.chmod(0o755)
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)


@pytest.fixture
def data(place: Path) -> Path:
    return place / "data"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path, Authority())
    files.ca.write_bytes(files.authority.pem)
    files.put(files.issue())
    return files


@pytest.fixture
def lent(embedded_databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a database that is as new, on the embedded server."""
    with embedded_databases.lend() as url:
        yield url


@pytest.fixture
def node_url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield as_node(url)
    embedded_databases.drop(url)

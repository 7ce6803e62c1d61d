import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skipmq.testing import Account, Server
from support import servers
from support.processes import is_alive, pids_with, until


@contextmanager
def _in_memory(folder: Path) -> Iterator[None]:
    """Have temporary servers put their data there: on a disk a copy takes three times as long."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        yield


@pytest.fixture(scope="module", autouse=True)
def temporary_folder(server_folder: Path) -> Iterator[None]:
    """Name the folder of the servers that programs of the tests start."""
    with _in_memory(server_folder / "temporary"):
        yield


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder for temporary files of any account, of which nothing is left after the test."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-testing-", dir=servers.memory()))
    folder.chmod(0o1777)
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server(server_folder: Path) -> Iterator[Server]:
    with _in_memory(server_folder / "temporary"):
        server = Server().start()
    yield server
    server.stop()


@pytest.fixture
def account(server: Server) -> Iterator[Account]:
    """Give an account of the test's own."""
    account = server.new_account()
    yield account
    account.clear()


@pytest.fixture
def sqs(account: Account) -> Any:
    return account.client()


@pytest.fixture
def queue(sqs: Any) -> str:
    """Give the URL of a new queue, orders."""
    return str(sqs.create_queue(QueueName="orders")["QueueUrl"])

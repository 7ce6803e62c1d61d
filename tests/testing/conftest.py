import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipmq.testing import Account, Server
from support.processes import is_alive, pids_with, until


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder for temporary files of any account, of which nothing is left after the test."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-testing-"))
    folder.chmod(0o1777)
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


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

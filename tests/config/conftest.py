"""Other brokers to compare with and to import from: real servers, on free ports."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bench import peers
from skipmq.testing import Account, Server
from support import programs
from support.places import lent
from support.postgres import as_node

__all__ = ["lent"]


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


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with peers.moto(tmp_path_factory.mktemp("moto")) as broker:
        yield broker.url


@pytest.fixture(scope="session")
def elasticmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JDK_JAVA_OPTIONS", " ".join(programs.SHORT_LIVED))
            broker = stack.enter_context(peers.elasticmq(tmp_path_factory.mktemp("elasticmq")))
        yield broker.url


@pytest.fixture
def url(lent: str) -> str:
    """Return the URL of a database of the test's own."""
    return as_node(lent)

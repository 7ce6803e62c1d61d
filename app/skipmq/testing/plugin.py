"""The pytest plugin: the fixtures `skipmq`, `skipmq_env` and `skipmq_server`.

It imports nothing that takes time before a test asks for a fixture.
"""

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from skipmq.testing import Account, Server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what pytest's configuration file may say."""
    about = "file of queues that each test finds, from the root folder: TOML, or an elasticmq.conf"
    parser.addini("skipmq_queues", about)
    about = "settings of SkipMQ's test server, one NAME=VALUE a line, as `skipmq config` has them"
    parser.addini("skipmq_settings", about, type="linelist")


@pytest.fixture(scope="session")
def skipmq_server(pytestconfig: pytest.Config) -> Iterator["Server"]:
    """Give the server of this process's tests; a worker of pytest-xdist has one of its own."""
    from skipmq.testing.account import is_conf  # noqa: PLC0415 - only for tests that ask for it.
    from skipmq.testing.server import Server  # noqa: PLC0415 - as above.

    queues = pytestconfig.getini("skipmq_queues")
    # ARNs have the region that it names.
    conf = pytestconfig.rootpath / queues if queues and is_conf(queues) else None
    lines = [line.partition("=") for line in pytestconfig.getini("skipmq_settings")]
    server = Server(conf, **{name.strip(): value.strip() for name, _, value in lines})
    try:
        yield server.start(meanwhile=_import_client)
    finally:
        server.stop()


def _import_client() -> None:
    """Import what nearly every test of a queue wants, which takes half as long as the server."""
    with suppress(ImportError):
        import_module("boto3")


@pytest.fixture
def skipmq(skipmq_server: "Server", pytestconfig: pytest.Config) -> Iterator["Account"]:
    """Give an account of the test's own on the session's server."""
    queues = pytestconfig.getini("skipmq_queues")
    account = skipmq_server.new_account(pytestconfig.rootpath / queues if queues else None)
    yield account
    try:
        account.check_faults()
    finally:
        account.clear()


@pytest.fixture
def skipmq_env(skipmq: "Account") -> Iterator["Account"]:
    """Give the account of `skipmq`, which clients that the tested code makes find by themselves."""
    with skipmq.environment():
        yield skipmq

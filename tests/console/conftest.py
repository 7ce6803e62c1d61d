from collections.abc import Iterator

import pytest

from support.http import NodeProcess, WsgiProcess
from support.key_commands import MASTER_KEY, Keys
from support.postgres import Databases, as_node


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest, embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node that checks no signatures, on a database of its own."""
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    url = embedded_databases.migrated()
    with door(database_url=as_node(url), workers=1, purge_cooldown=0, name_cooldown=0) as process:
        process.owner_url = url
        yield process.ready()


@pytest.fixture(scope="session")
def keys(embedded_databases: Databases) -> Keys:
    return Keys(embedded_databases.migrated())


@pytest.fixture(scope="session")
def signing(request: pytest.FixtureRequest, keys: Keys) -> Iterator[NodeProcess]:
    """Give a node that checks signatures."""
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    settings = {"auth": "on", "master_key": MASTER_KEY, "trusted_proxies": "127.0.0.1"}
    with door(database_url=as_node(keys.url), workers=1, **settings) as process:
        yield process.ready()

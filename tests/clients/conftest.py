"""One node for all programs that come with an SQS client of their own."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from support.http import NodeProcess
from support.key_commands import MASTER_KEY, Keys
from support.postgres import Databases, as_node


@pytest.fixture(scope="session")
def endpoint(embedded_databases: Databases) -> Iterator[str]:
    """Give the URL of a node that many tests use: each names its queues by itself."""
    with NodeProcess(database_url=as_node(embedded_databases.migrated())) as node:
        yield node.ready().url


class SignedEndpoint(NamedTuple):
    """A node that takes signed requests only, and variables with a key for it."""

    url: str
    key: dict[str, str]


@pytest.fixture(scope="session")
def signed_endpoint(embedded_databases: Databases) -> Iterator[SignedEndpoint]:
    url = embedded_databases.migrated()
    made = Keys(url).create()
    key = {"AWS_ACCESS_KEY_ID": made["key"], "AWS_SECRET_ACCESS_KEY": made["secret"]}
    with NodeProcess(database_url=as_node(url), auth="on", master_key=MASTER_KEY) as node:
        yield SignedEndpoint(node.ready().url, key)

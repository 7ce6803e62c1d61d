"""One node for all programs that come with an SQS client of their own."""

from collections.abc import Iterator

import pytest

from support.http import NodeProcess
from support.postgres import Databases, as_node


@pytest.fixture(scope="session")
def endpoint(embedded_databases: Databases) -> Iterator[str]:
    """Give the URL of a node that many tests use: each names its queues by itself."""
    with NodeProcess(database_url=as_node(embedded_databases.migrated())) as node:
        yield node.ready().url

"""Two partitions, and a router on Debian's PostgreSQL."""

from collections.abc import Iterator

import psycopg
import pytest

from support.partitions import Partitions
from support.postgres import Connection, Databases, as_node


@pytest.fixture(scope="module")
def two(embedded_databases: Databases, router_server: Databases) -> Iterator[Partitions]:
    """Give two partitions, on one server, behind a router: the tests of a file share them."""
    made = Partitions.copied(embedded_databases, router_server, 2)
    yield made
    made.drop()


@pytest.fixture
def fresh(embedded_databases: Databases, router_server: Databases) -> Iterator[Partitions]:
    """Give two partitions of the test's own."""
    made = Partitions.copied(embedded_databases, router_server, 2)
    yield made
    made.drop()


@pytest.fixture
def router(two: Partitions) -> Iterator[Connection]:
    """Give a connection of a node to the router."""
    with psycopg.connect(as_node(two.router), autocommit=True) as connection:
        yield connection

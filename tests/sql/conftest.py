from collections.abc import Iterator

import pytest

from support.applications import Applications, applications_of
from support.fifo import FifoQueue
from support.postgres import Connection
from support.sql import Queue


@pytest.fixture
def orders(owner: Connection) -> Queue:
    """Give a standard queue with all defaults, on the owner's connection."""
    return Queue(owner)


@pytest.fixture
def fifo(owner: Connection) -> FifoQueue:
    """Give a FIFO queue with all defaults, on the owner's connection."""
    return FifoQueue(owner)


@pytest.fixture
def applications(database: str) -> Iterator[Applications]:
    """Give what makes roles of applications, which go at the end."""
    with applications_of(database) as made:
        yield made

from collections.abc import Iterator

import psycopg
import pytest

from skipmq import App
from support.applications import Applications, applications_of
from support.postgres import Connection
from support.sql import Queue


@pytest.fixture
def applications(database: str) -> Iterator[Applications]:
    """Give what makes roles of applications, which go at the end."""
    with applications_of(database) as made:
        yield made


@pytest.fixture
def shop(owner: Connection, applications: Applications) -> str:
    """Give the URL of an application that may send to two queues, and receive from them."""
    names = ["orders", "orders.fifo"]
    for name in names:
        Queue(owner, name)
    owner.execute("create table public.bought (item text)")
    owner.execute("grant all on public.bought to public")
    applications.create("shop").grant("shop", send=names, receive=names)
    return applications.url("shop")


@pytest.fixture
def app(shop: str) -> App:
    return App(shop)


@pytest.fixture
def sender(shop: str) -> Iterator[Connection]:
    """Give a connection of the application, in autocommit mode."""
    with psycopg.connect(shop, autocommit=True) as connection:
        yield connection

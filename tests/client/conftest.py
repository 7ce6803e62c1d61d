from collections.abc import Iterator

import psycopg
import pytest

from skipmq import App
from support.applications import Applications
from support.postgres import Connection, Databases
from support.sql import Queue

# What handlers write to. A database with tables that a test made goes to no other test.
_TABLES = """
create table public.bought (item text);
create table public.effect (id bigserial primary key, queue text, name text);
create table public.elsewhere (id bigserial primary key, queue text, name text);
grant all on public.bought, public.effect, public.elsewhere to public;
grant all on public.effect_id_seq, public.elsewhere_id_seq to public;
"""


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a database with tables of an application."""
    with databases.lend(_TABLES) as url:
        yield url


@pytest.fixture
def applications(database: str, owner: Connection) -> Iterator[Applications]:
    """Give what makes roles of applications, which go at the end."""
    made = Applications(database, owner)
    yield made
    made.close()


@pytest.fixture
def shop(owner: Connection, applications: Applications) -> str:
    """Give the URL of an application that may send to two queues, and receive from them."""
    names = ["orders", "orders.fifo"]
    for name in names:
        Queue(owner, name)
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

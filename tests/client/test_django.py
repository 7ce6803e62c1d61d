"""Django: what is sent under an alias is part of its transaction."""

import re
from collections.abc import Iterator
from typing import Any

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction

from skipmq import App, Context, Queue, Retry
from skipmq.client import ClientError
from support.postgres import Connection
from support.sql import Queue as Table
from support.sql import number

ORDERS = Queue("orders", dict)
BOUGHT = "insert into public.bought values ('tea')"


class UndoneError(Exception):
    pass


@pytest.fixture
def alias(shop: str) -> Iterator[str]:
    """Give the alias of the database, set up as in a project."""
    given = psycopg.conninfo.conninfo_to_dict(shop)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
        "PORT": given["port"],
    }
    lite = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    if not settings.configured:
        settings.configure(DATABASES={"default": {}}, USE_TZ=True)
        django.setup()
    connections.databases.clear()
    connections.databases.update(
        connections.configure_settings({"default": database, "lite": lite})
    )
    yield "default"
    for name in ("default", "lite"):
        connections[name].close()
        del connections[name]


def execute(alias: str, statement: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)


def items(owner: Connection) -> int:
    return len(owner.execute("select from public.bought").fetchall())


def test_message_is_sent_on_commit_because_it_is_the_transaction(
    alias: str, owner: Connection
) -> None:
    with transaction.atomic():
        execute(alias, BOUGHT)
        ORDERS.send_many([{"n": 1}, {"n": 2}], using=alias, group="customer-7")
        assert number(owner, "select count(*) from skipmq.message where queue_id > 0") == 0

    assert (Table(owner).counts(), items(owner)) == ((2, 0, 0), 1)


def test_message_of_a_block_that_is_rolled_back_is_not_sent(alias: str, owner: Connection) -> None:
    with transaction.atomic():
        ORDERS.send({"n": 1}, using=alias)
        with pytest.raises(UndoneError), transaction.atomic():  # noqa: PT012
            ORDERS.send({"n": 2}, using=alias)
            raise UndoneError

    assert Table(owner).bodies() == ['{"n":1}']


def test_refusal_is_one_sentence_and_the_block_goes_on_after_it(
    alias: str, owner: Connection
) -> None:
    with transaction.atomic():
        with (
            pytest.raises(ClientError, match="role shop may not send to the queue nowhere"),
            transaction.atomic(),
        ):
            Queue("nowhere").send("x", using=alias)
        ORDERS.send({"n": 1}, using=alias)

    assert Table(owner).counts() == (1, 0, 0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("other", "Django's DATABASES has no 'other', but default, lite"),
        ("lite", "Django's 'lite' is of sqlite: a message is sent in a transaction of PostgreSQL"),
    ],
)
@pytest.mark.usefixtures("alias")
def test_alias_that_has_no_postgresql_is_refused(name: str, text: str) -> None:
    with pytest.raises(ClientError, match=re.escape(text)):
        ORDERS.send({}, using=name)


def test_handler_deletes_its_message_with_what_the_orm_writes(
    alias: str, app: App, owner: Connection, sender: Any
) -> None:
    @app.consumer(ORDERS, retry=Retry.backoff(0, most=0))
    def handle(_: dict[str, Any], context: Context) -> None:
        with transaction.atomic():
            execute(alias, BOUGHT)
            context.delete(using=alias)
            if context.message.receive_count == 1:
                raise UndoneError

    ORDERS.send({"n": 1}, using=sender)

    assert app.run(once=True) == {"retried": 1, "done": 1}
    assert (Table(owner).counts(), items(owner)) == ((0, 0, 0), 1)

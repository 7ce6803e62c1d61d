"""What a sender can do wrong: one sentence, with the remedy."""

import re
import subprocess
import sys
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy import NullPool
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from skipmq import Queue
from skipmq.client import ClientError
from support.applications import Applications
from support.postgres import Databases

orders = Queue("orders", str)


@pytest.mark.parametrize(
    ("queue", "options", "text"),
    [
        ("nowhere", {}, "role shop may not send to the queue nowhere: the owner of the schema"),
        ("orders.fifo", {}, "'orders.fifo' is a FIFO queue: name the group"),
        ("orders.fifo", {"group": "g", "delay": 5}, "has one delay for all messages"),
        ("orders", {"deduplication_id": "x"}, "The queue has no DeduplicationSeconds"),
        ("orders", {"delay": 901}, "DelaySeconds must be >= 0 and <= 900"),
        ("orders", {"delay": -1}, "delay=-1 is too little"),
        ("orders", {"delay": True}, "delay=True is no whole number: write 0 or more"),
        ("orders", {"delay": "5"}, "delay='5' is no whole number"),
        ("orders", {"delay": 1.5}, "delay=1.5 is no whole number"),
        ("orders", {"delay": timedelta(minutes=1)}, "is in seconds: write 60"),
        ("orders", {"body": "a\0b"}, "Invalid characters found: the body has '\\x00'"),
        ("orders", {"body": "a\ud800b"}, "Invalid characters found: the body has '\\ud800'"),
        ("orders", {"body": {"a": "\udfff"}}, "a dict cannot be a body of the queue 'orders' ("),
        ("orders", {"body": {"a": object()}}, "a dict cannot be a body of the queue 'orders' ("),
        (
            "orders",
            {"body": slice(1)},
            "a slice cannot be a body of the queue 'orders' (its type has no JSON): send a data",
        ),
        ("orders", {"body": {"a": [1, float("nan")]}}, "a number that is NaN or infinite"),
        ("orders", {"body": -float("inf")}, "a number that is NaN or infinite"),
        ("orders", {"group": "a\0b"}, "Invalid characters found: group has '\\x00'"),
        ("orders", {"group": 5}, "group is 5: write a text"),
        ("orders.fifo", {"group": "\udcff"}, "Invalid characters found: group has '\\udcff'"),
        ("orders.fifo", {"group": "g", "deduplication_id": "\0"}, "a deduplication id has '\\x00'"),
        ("orders.fifo", {"group": "g", "deduplication_id": 7}, "a deduplication id is 7: write a"),
        ("orders", {"attributes": {"a": "\0"}}, "the attribute 'a' has '\\x00'"),
        ("orders", {"attributes": {"a\ud900": "x"}}, "the name of an attribute has '\\ud900'"),
        ("orders", {"attributes": {5: "x"}}, "the name of an attribute is 5: write a text"),
        ("orders", {"attributes": ["a"]}, "attributes=['a'] is no dict"),
        ("orders", {"attributes": {"a": None}}, "the attribute 'a' is None: an attribute is a"),
        ("orders", {"attributes": {"a": True}}, "the attribute 'a' is True"),
        ("orders", {"attributes": {"a": float("nan")}}, "the attribute 'a' is nan"),
        ("orders", {"attributes": {"AWS.a": "x"}}, "AWS"),
        ("orders", {"body": ""}, "must contain the parameter MessageBody"),
        ("orders", {"body": "\x01"}, "Invalid characters found"),
        ("orders", {"body": "ü" * 550_000}, "a body of 1,100,000 bytes is more than the 1,048,576"),
    ],
)
def test_message_that_no_queue_takes_is_refused(
    shop: str, queue: str, options: dict[str, Any], text: str
) -> None:
    with (
        psycopg.connect(shop) as tx,
        pytest.raises(ClientError, match=re.escape(text)) as caught,
    ):
        Queue(queue).send(**{"body": "x", "using": tx, **options})

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"body": "a\0b"},
        {"body": "\x01"},
        {"body": {"total": float("nan")}},
        {"delay": 31_536_001},
        {"group": "\ud800"},
        {"attributes": {"a": "\0"}},
    ],
    ids=str,
)
def test_transaction_goes_on_after_a_value_that_no_message_has(
    shop: str, options: dict[str, Any]
) -> None:
    with psycopg.connect(shop) as tx:
        with pytest.raises(ClientError):
            Queue("orders").send(**{"body": "x", "using": tx, **options})

        assert orders.send("the next", using=tx)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({"name": "a\0"}, "the name of a queue has '\\x00'"),
        ({"name": "a\ud800"}, "the name of a queue has '\\ud800'"),
        ({"name": 5}, "the name of a queue is 5: write a text"),
        ({"name": "orders", "account": 111122223333}, "the account of a queue is 111122223333"),
        ({"name": "orders", "region": "\0"}, "the region of a queue has '\\x00'"),
    ],
)
def test_queue_that_no_text_names_is_refused(place: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError, match=re.escape(text)):
        Queue(**place)


def test_queue_that_does_not_exist_is_named_with_account_and_region(
    shop: str, applications: Applications
) -> None:
    applications.grant("shop", send=["gone"])

    with psycopg.connect(shop) as tx, pytest.raises(ClientError) as caught:
        Queue("gone").send("x", using=tx)

    assert str(caught.value) == (
        "queue gone does not exist in account 000000000000, region us-east-1: create it with"
        " `skipmq queue create gone`"
    )
    assert caught.value.sqlstate == "SQ001"


def test_queue_of_another_account_that_does_not_exist_is_named_with_it(
    shop: str, applications: Applications
) -> None:
    account = "000000000001"
    applications.grant("shop", send=["gone"], account=account, region="eu-west-1")

    with psycopg.connect(shop) as tx, pytest.raises(ClientError) as caught:
        Queue("gone", account=account, region="eu-west-1").send("x", using=tx)

    text = "queue gone does not exist in account 000000000001, region eu-west-1: create it"
    assert str(caught.value).startswith(text)


def test_same_text_comes_by_sqlalchemy_and_asyncpg(shop: str) -> None:
    text = "role shop may not send to the queue nowhere"
    engine = sqlalchemy.create_engine(
        shop.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool
    )

    with engine.connect() as connection, pytest.raises(ClientError, match=text):
        Queue("nowhere").send("x", using=connection)


async def test_same_text_comes_by_asyncpg(shop: str) -> None:
    text = "role shop may not send to the queue nowhere"
    engine = sqlalchemy_asyncio.create_async_engine(
        shop.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool
    )

    async with engine.connect() as connection:
        with pytest.raises(ClientError, match=text):
            await Queue("nowhere").asend("x", using=connection)
    connection = await asyncpg.connect(shop)
    with pytest.raises(ClientError, match=text):
        await Queue("nowhere").asend("x", using=connection)
    await connection.close()
    with pytest.raises(ClientError, match="that is closed sends nothing: open another"):
        await orders.asend("x", using=connection)


def test_database_without_a_schema_says_what_to_do(databases: Databases) -> None:
    url = databases.empty()
    try:
        with psycopg.connect(url) as tx, pytest.raises(ClientError, match="has no schema of Ski"):
            orders.send("x", using=tx)
    finally:
        databases.drop(url)


def test_role_without_any_grant_is_named_the_command(applications: Applications) -> None:
    stranger = applications.create("stranger").connect("stranger")

    with pytest.raises(ClientError, match="grants it by `skipmq sql grant ROLE --send orders"):
        orders.send("x", using=stranger)


def test_transaction_that_only_reads_is_refused(shop: str) -> None:
    with psycopg.connect(shop) as tx:
        tx.execute("set transaction read only")
        with pytest.raises(ClientError, match="this connection only reads: connect to the pri"):
            orders.send("x", using=tx)


def test_connection_that_is_closed_is_refused(shop: str) -> None:
    connection = psycopg.connect(shop)
    connection.close()

    with pytest.raises(ClientError, match="a Connection that is closed sends nothing"):
        orders.send("x", using=connection)


@pytest.mark.parametrize(
    ("using", "text"),
    [
        (sqlalchemy.create_engine("postgresql+psycopg://"), "`with engine.begin() as tx:`"),
        (None, "a NoneType has no transaction to send in: pass a connection"),
        ("postgresql://shop:secret@localhost/x", "a URL of a database has no transaction: connect"),
    ],
)
def test_what_has_no_transaction_is_refused_with_what_has(using: Any, text: str) -> None:
    with pytest.raises(ClientError, match=re.escape(text)):
        orders.send("x", using=using)


def test_alias_without_django_set_up_is_refused() -> None:
    program = "from skipmq import Queue; Queue('orders').send('x', using='default')"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert "using='default' names a database of Django, which is not set up here" in done.stderr


def test_connection_of_another_database_is_refused() -> None:
    with (
        sqlalchemy.create_engine("sqlite://", poolclass=NullPool).connect() as connection,
        pytest.raises(ClientError, match="this connection is of sqlite: a message is sent in a"),
    ):
        orders.send("x", using=connection)


async def test_synchronous_and_asynchronous_are_told_apart(shop: str) -> None:
    async with await psycopg.AsyncConnection.connect(shop) as connection:
        with pytest.raises(ClientError, match=re.escape("`await queue.asend(…)`")):
            orders.send("x", using=connection)
    with psycopg.connect(shop) as tx:
        for using in (tx, "default"):
            with pytest.raises(ClientError, match=re.escape("as in `queue.send(…)`")):
                await orders.asend("x", using=using)


def test_serialization_failure_stays_what_retries_look_for(shop: str, owner: Any) -> None:
    with psycopg.connect(shop) as tx:
        tx.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tx.execute("select 1")
        owner.execute("select skipmq.purge_queue(skipmq.queue_id('orders'))")

        with pytest.raises(psycopg.errors.SerializationFailure):
            orders.send("x", using=tx)

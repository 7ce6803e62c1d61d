"""What is sent within a transaction: by each library, there when it has committed."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy import NullPool, orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from skipmq import Queue
from skipmq.client import ClientError
from support.postgres import Connection
from support.sql import Queue as Table
from support.sql import number

BOUGHT = "insert into public.bought values ('tea')"
orders = Queue("orders", dict)


def driver(url: str, name: str) -> str:
    return url.replace("postgresql://", f"postgresql+{name}://")


@contextmanager
def psycopg_connection(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    with psycopg.connect(url) as connection:
        yield connection, connection.execute


@contextmanager
def psycopg_cursor(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        yield cursor, cursor.execute


@contextmanager
def psycopg_of_raw_cursors(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    rows = psycopg.rows.dict_row
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor, row_factory=rows) as connection:
        yield connection, connection.execute


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(driver(url, "psycopg"), poolclass=NullPool)
    with engine.begin() as connection:
        yield connection, connection.exec_driver_sql


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(driver(url, "psycopg"), poolclass=NullPool)
    with orm.Session(engine) as session, session.begin():
        yield session, lambda text: session.execute(sqlalchemy.text(text))


@contextmanager
def sqlalchemy_scoped_session(url: str) -> Iterator[tuple[Any, Callable[[str], Any]]]:
    engine = sqlalchemy.create_engine(driver(url, "psycopg"), poolclass=NullPool)
    session = orm.scoped_session(orm.sessionmaker(engine))
    with session.begin():
        yield session, lambda text: session.execute(sqlalchemy.text(text))
    session.remove()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection, connection.execute


@asynccontextmanager
async def psycopg_async_cursor(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    connection = await psycopg.AsyncConnection.connect(url)
    async with connection, connection.cursor() as cursor:
        yield cursor, cursor.execute


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    connection = await asyncpg.connect(url)
    # As programs have it that work with JSON.
    await connection.set_type_codec(
        "jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
    )
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_of_a_pool(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
    async with (
        asyncpg.create_pool(url, min_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


def asynchronous(kind: str, name: str) -> Any:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[tuple[Any, Callable[[str], Any]]]:
        engine = sqlalchemy_asyncio.create_async_engine(driver(url, name), poolclass=NullPool)
        if kind == "connection":
            async with engine.begin() as connection:
                yield connection, connection.exec_driver_sql
        else:
            async with sqlalchemy_asyncio.AsyncSession(engine) as session, session.begin():
                yield session, lambda text: session.execute(sqlalchemy.text(text))

    opened.__name__ = f"sqlalchemy_{kind}_on_{name}"
    return opened


SYNCHRONOUS = [
    psycopg_connection,
    psycopg_cursor,
    psycopg_of_raw_cursors,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped_session,
]
ASYNCHRONOUS = [
    psycopg_async,
    psycopg_async_cursor,
    asyncpg_connection,
    asyncpg_of_a_pool,
    *(
        asynchronous(kind, name)
        for kind in ("connection", "session")
        for name in ("psycopg", "asyncpg")
    ),
]
Opener = Callable[[str], AbstractContextManager[tuple[Any, Callable[[str], Any]]]]
AsyncOpener = Callable[[str], AbstractAsyncContextManager[tuple[Any, Callable[[str], Any]]]]


class UndoneError(Exception):
    pass


def stored(owner: Connection) -> list[tuple[str, Any]]:
    """Return the messages that wait, in order, and how many items were bought."""
    rows = owner.execute(
        "select body, attributes from skipmq.message where queue_id > 0 order by id"
    ).fetchall()
    return [(body, json.loads(attributes or "{}")) for body, attributes in rows]


def bought(owner: Connection) -> int:
    return len(owner.execute("select from public.bought").fetchall())


@pytest.mark.parametrize("opened", SYNCHRONOUS, ids=lambda f: f.__name__)
def test_message_is_sent_when_the_transaction_commits(
    shop: str, owner: Connection, opened: Opener
) -> None:
    with opened(shop) as (tx, execute):
        execute(BOUGHT)
        message_id = orders.send({"n": 1}, using=tx, attributes={"trace": "x"})
        ids = orders.send_many([{"n": n} for n in range(2, 1_203)], using=tx)
        assert stored(owner) == []

    found = stored(owner)
    assert bought(owner) == 1
    assert [json.loads(body)["n"] for body, _ in found] == list(range(1, 1_203))
    assert found[0][1] == {"trace": {"DataType": "String", "StringValue": "x"}}
    assert len({message_id, *ids}) == 1_202
    assert message_id == str(Table(owner).receive()[0]["message_id"])


@pytest.mark.parametrize("opened", SYNCHRONOUS, ids=lambda f: f.__name__)
def test_message_of_a_transaction_that_is_rolled_back_is_not_sent(
    shop: str, owner: Connection, opened: Opener
) -> None:
    with pytest.raises(UndoneError), opened(shop) as (tx, execute):  # noqa: PT012
        execute(BOUGHT)
        orders.send({"n": 1}, using=tx)
        raise UndoneError

    assert (stored(owner), bought(owner)) == ([], 0)


@pytest.mark.parametrize("opened", ASYNCHRONOUS, ids=lambda f: f.__name__)
async def test_message_is_sent_when_the_asynchronous_transaction_commits(
    shop: str, owner: Connection, opened: AsyncOpener
) -> None:
    async with opened(shop) as (tx, execute):
        await execute(BOUGHT)
        await orders.asend({"n": 1}, using=tx, attributes={"trace": "x"})
        await orders.asend_many([{"n": n} for n in range(2, 1_203)], using=tx)
        assert stored(owner) == []

    found = stored(owner)
    assert bought(owner) == 1
    assert [json.loads(body)["n"] for body, _ in found] == list(range(1, 1_203))
    assert found[0][1] == {"trace": {"DataType": "String", "StringValue": "x"}}


@pytest.mark.parametrize("opened", ASYNCHRONOUS, ids=lambda f: f.__name__)
async def test_message_of_an_asynchronous_transaction_that_is_rolled_back_is_not_sent(
    shop: str, owner: Connection, opened: AsyncOpener
) -> None:
    with pytest.raises(UndoneError):  # noqa: PT012
        async with opened(shop) as (tx, execute):
            await execute(BOUGHT)
            await orders.asend({"n": 1}, using=tx)
            raise UndoneError

    assert (stored(owner), bought(owner)) == ([], 0)


def test_delay_hides_a_message(shop: str, owner: Connection) -> None:
    with psycopg.connect(shop) as tx:
        orders.send({}, using=tx, delay=30)
        orders.send_many([{}, {}], using=tx, delay=900)

    assert Table(owner).counts() == (0, 0, 3)


def test_group_of_a_standard_queue_is_the_tenant_of_a_fair_queue(
    shop: str, owner: Connection
) -> None:
    with psycopg.connect(shop) as tx:
        orders.send_many([{}, {}], using=tx, group="customer-7")

    assert {row["group_id"] for row in Table(owner).receive()} == {"customer-7"}


def test_standard_queue_deduplicates_for_as_long_as_it_says(shop: str, owner: Connection) -> None:
    owner.execute(
        "select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)",
        ('{"DeduplicationSeconds": "60"}',),
    )
    with psycopg.connect(shop) as tx:
        ids = orders.send_many([{}, {}, {}], using=tx, deduplication_ids=["a", "a", "b"])
        again = orders.send({}, using=tx, deduplication_id="b")

    assert ids[0] == ids[1]
    assert again == ids[2]
    assert owner.execute("select count(*) from skipmq_views.message").fetchone() == (2,)


def test_fifo_queue_keeps_the_order_of_what_is_sent(shop: str, owner: Connection) -> None:
    queue = Queue("orders.fifo", int)

    with psycopg.connect(shop) as tx:
        ids = [str(n) for n in range(1_200)]
        queue.send_many(range(1_200), using=tx, group="g", deduplication_ids=ids)
        first = queue.send(7, using=tx, group="g", deduplication_id="once")
        assert queue.send(8, using=tx, group="g", deduplication_id="once") == first

    rows = owner.execute(
        "select body from skipmq.message where group_no is not null order by sequence_number"
    ).fetchall()
    assert [int(body) for (body,) in rows] == [*range(1_200), 7]


def test_cursor_of_the_caller_keeps_its_rows(shop: str) -> None:
    with psycopg.connect(shop) as connection, connection.cursor() as cursor:
        cursor.execute("select generate_series(1, 3)")
        orders.send({}, using=cursor)

        assert cursor.fetchall() == [(1,), (2,), (3,)]


def test_queue_of_another_account_and_region_is_found(
    shop: str, owner: Connection, applications: Any
) -> None:
    owner.execute(
        "select skipmq.create_queue('orders', p_account => '000000000001', p_region => 'eu-west-1')"
    )
    applications.grant("shop", send=["orders"], account="000000000001", region="eu-west-1")
    queue = Queue("orders", str, account="000000000001", region="eu-west-1")

    with psycopg.connect(shop) as tx:
        queue.send("x", using=tx)

    assert queue.arn == "arn:aws:sqs:eu-west-1:000000000001:orders"
    assert Table(owner).counts() == (0, 0, 0)
    assert [body for body, _ in stored(owner)] == ["x"]


def test_message_is_delivered_at_a_time(owner: Connection, shop: str) -> None:
    longest = '{"MaximumDelaySeconds": "86400"}'
    owner.execute("select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)", (longest,))
    later = number(owner, "select skipmq.clock() + interval '20 hours'")

    with psycopg.connect(shop) as tx:
        orders.send({"n": 1}, using=tx, deliver_at=later)
        orders.send({"n": 2}, using=tx, delay=86_000)

    rows = owner.execute("select visible_at from skipmq.message where queue_id > 0 order by id")
    (first,), (second,) = rows.fetchall()
    assert timedelta() <= first - later < timedelta(seconds=2)
    assert second > first


def test_messages_have_the_priority_that_they_are_sent_with(owner: Connection, shop: str) -> None:
    strict = '{"PriorityMode": "strict"}'
    owner.execute("select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)", (strict,))

    with psycopg.connect(shop) as tx:
        orders.send_many([{"n": 1}, {"n": 2}], using=tx, priority=0, attributes={"a": 1})
        orders.send({"n": 3}, using=tx, priority=9)

    rows = owner.execute("select body from skipmq.receive_message('orders', 10)").fetchall()
    assert rows[0] == ('{"n":3}',)
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("queue", "priority"), [("orders", 10), ("orders", -1), ("orders", "9"), ("orders.fifo", 1)]
)
def test_priority_that_cannot_be_is_refused(queue: str, priority: Any) -> None:
    with pytest.raises(ClientError, match="priority="):
        Queue(queue, str).send("x", using=None, group="g", priority=priority)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"deliver_at": datetime(2026, 1, 1)}, "use a datetime with a time zone"),  # noqa: DTZ001
        ({"deliver_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 1}, "leave one out"),
        ({"delay": 31_536_001}, "DelaySeconds must be >= 0 and <= 31536000"),
    ],
)
def test_time_of_delivery_that_cannot_be_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ClientError, match=error):
        orders.send({"n": 1}, using=None, **given)

"""Consumers that a test runs until the queues are empty: functions, coroutines, apps."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skipmq import App, Context, Queue, Retry
from skipmq.testing import Account, Server, TestingError
from support.http import ROOT, SKIPMQ
from support.processes import ask

orders = Queue("orders", dict[str, Any])
mails = Queue("mails", str)


@pytest.fixture
def tables(server: Server) -> Iterator[str]:
    """Give the URL of a database in which handlers write."""
    ask(server.database_url, "create table sold (item text)")
    yield server.database_url
    ask(server.database_url, "drop table sold")


@pytest.fixture
def account(account: Account) -> Account:
    for name in ("orders", "mails", "lines.fifo"):
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        account.client().create_queue(QueueName=name, Attributes=attributes)
    return account


def send(account: Account, *items: str) -> None:
    with psycopg.connect(account.database_url) as tx:
        orders.send_many([{"item": item} for item in items], using=tx)


def test_app_runs_its_handlers_in_the_account_of_the_test(account: Account, tables: str) -> None:
    shop = App()

    @shop.consumer(orders, concurrency=2)
    def sell(order: dict[str, Any], context: Context) -> None:
        with context.transaction() as tx:
            tx.execute("insert into sold values (%s)", (order["item"],))
            mails.send(f"sold {order['item']}", using=tx)

    send(account, "tea", "milk")
    assert sorted(each["item"] for each in account.messages("orders").json()) == ["milk", "tea"]

    account.drain(shop)

    assert account.messages("orders") == []
    # Of a queue of others, for which nothing waits.
    assert sorted(account.messages("mails").bodies()) == ["sold milk", "sold tea"]
    assert ask(tables, "select array_agg(item order by item) from sold") == ["milk", "tea"]
    assert shop.dsn is None


def test_app_of_coroutines_and_of_groups_runs_too(account: Account) -> None:
    lines, shop, seen = Queue("lines.fifo", str), App("postgresql://nowhere.invalid/shop"), []

    @shop.consumer(orders, batch=10)
    async def index(batch: list[dict[str, Any]]) -> None:
        await asyncio.sleep(0)
        seen.extend(order["item"] for order in batch)

    @shop.consumer(lines)
    def line(text: str) -> None:
        seen.append(text)

    send(account, "tea")
    with psycopg.connect(account.database_url) as tx:
        lines.send_many("abc", using=tx, group="g", deduplication_ids="abc")

    account.drain(shop)

    assert sorted(seen) == ["a", "b", "c", "tea"]
    assert [each for each in seen if each != "tea"] == ["a", "b", "c"]


def test_error_of_a_handler_is_raised(account: Account) -> None:
    shop = App()

    @shop.consumer(orders)
    def sell(order: dict[str, Any]) -> None:
        raise KeyError(order["item"])

    send(account, "tea")
    with pytest.raises(KeyError, match="tea"):
        account.drain(shop)
    assert account.messages("orders")[0].attributes["FailureReason"] == "KeyError: 'tea'"


def test_message_that_is_to_be_retried_later_is_named_and_is_there_later(account: Account) -> None:
    shop, tries = App(), []

    @shop.consumer(orders)
    def sell(_order: dict[str, Any]) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Retry("closed", after=600)

    send(account, "tea")
    with pytest.raises(TestingError, match=r"after 3 s there are still messages: 1 in-flight in"):
        account.drain(shop, timeout=3)

    account.clock.advance(minutes=10)
    account.drain(shop)

    assert len(tries) == 2
    account.reset()


def test_handler_that_does_not_end_is_cut_off(account: Account) -> None:
    shop = App()

    @shop.consumer(orders)
    async def sell(_order: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    send(account, "tea")
    with pytest.raises(TestingError, match="1 visible in orders"):
        account.drain(shop, timeout=3)


def test_queue_of_a_consumer_that_is_not_there_is_named(account: Account) -> None:
    shop = App()
    shop.consumer(Queue("absent", str))(lambda text: text)

    with pytest.raises(TestingError, match="absent: The specified queue does not exist"):
        account.drain(shop)


def test_queue_with_an_account_of_its_own_keeps_it(server: Server, account: Account) -> None:
    server.client().create_queue(QueueName="orders")
    own = Queue("orders", dict[str, Any], account="000000000000", region="us-east-1")
    with psycopg.connect(account.database_url) as tx:
        own.send({"item": "tea"}, using=tx)

    assert (len(server.messages("orders")), len(account.messages("orders"))) == (1, 0)
    server.reset()


def test_asynchronous_test_drains_on_its_loop(account: Account) -> None:
    shop, loops = App(), []

    @shop.consumer(orders)
    async def sell(_order: dict[str, Any]) -> None:
        loops.append(asyncio.get_running_loop())

    async def test() -> asyncio.AbstractEventLoop:
        send(account, "tea")
        with pytest.raises(TestingError, match=r"`await skipmq.adrain\(…\)`"):
            account.drain(shop)
        await account.adrain(shop)
        return asyncio.get_running_loop()

    assert loops == [asyncio.run(test())]


def test_asynchronous_test_drains_with_coroutines_and_functions(account: Account) -> None:
    sqs = account.client()
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]

    def consume() -> None:
        for message in sqs.receive_message(QueueUrl=url).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    async def test() -> None:
        send(account, "tea")
        await account.adrain(lambda: asyncio.to_thread(consume))
        send(account, "milk")
        await account.adrain(consume)

    asyncio.run(test())
    assert account.messages("orders") == []


def test_worker_in_a_process_of_its_own_works_in_the_account(
    account: Account, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "from skipmq import App, Queue\nshop = App()\n"
        "@shop.consumer(Queue('orders', dict))\ndef sell(order):\n    print(order['item'])\n"
    )
    send(account, "tea")

    done = subprocess.run(
        [*SKIPMQ, "work", "shop:shop", "--once", "--dsn", account.env["SKIPMQ_DATABASE_URL"]],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "app")},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "tea\n"), done.stderr
    assert account.messages("orders") == []


def test_name_of_a_queue_is_no_consumer(account: Account) -> None:
    with pytest.raises(TypeError, match=r"or a skipmq\.App.*, and no str: 'orders'"):
        account.drain("orders")  # type: ignore[arg-type]

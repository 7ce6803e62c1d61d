"""The apps of the workers in these tests, which run in processes of their own."""

import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from skipmq import App, Context, Queue, Retry
from skipmq.client import claiming

ORDERS = Queue("orders", dict)
GROUPS = Queue("orders.fifo", dict)
EFFECT = "insert into public.effect (queue, name) values (%s, %s)"
ELSEWHERE = "insert into public.elsewhere (queue, name) values (%s, %s)"

QUICK = claiming._QUICK_SECONDS  # noqa: SLF001 - as below.

effects = App()
gated = App()
failing = App()
remote = App()
quick = App()
stuck = App()
plain = App()
long = App()
_handled = itertools.count(1)
_of_thread = threading.local()


def _work(queue: str, body: dict[str, Any], context: Context) -> None:
    with context.transaction() as tx:
        tx.execute(EFFECT, (queue, body["name"]))
        # Another system, which knows nothing of the transaction.
        _other().execute(ELSEWHERE, (queue, body["name"]))
        time.sleep(0.005)


def _other() -> psycopg.Connection:
    """Return this thread's connection to another system: to open one costs more than to write."""
    kept: psycopg.Connection | None = getattr(_of_thread, "other", None)
    if kept is None or kept.closed:
        kept = _of_thread.other = psycopg.connect(str(effects.dsn), autocommit=True)
    return kept


@effects.consumer(ORDERS, concurrency=4, visibility=2, retry=Retry.backoff(0.1, most=1))
def standard(body: dict[str, Any], context: Context) -> None:
    _work("orders", body, context)


@effects.consumer(GROUPS, concurrency=4, visibility=2, retry=Retry.backoff(0.1, most=1))
def fifo(body: dict[str, Any], context: Context) -> None:
    _work("orders.fifo", body, context)


@gated.consumer(ORDERS, concurrency=2)
def wait_for_gate(body: dict[str, Any], context: Context) -> None:
    """Begin, and end when the file that the body names is gone."""
    with context.transaction() as tx:
        tx.execute(EFFECT, ("orders", "begun"))
        with psycopg.connect(str(gated.dsn), autocommit=True) as other:
            other.execute(ELSEWHERE, ("orders", str(os.getpid())))
        while Path(body["gate"]).exists():
            time.sleep(0.01)


@gated.consumer(GROUPS, batch=5, seconds=600)
async def never_full(batch: list[dict[str, Any]]) -> None:
    del batch


@failing.consumer(ORDERS, retry=Retry.backoff(60, most=60), attempts=2)
def fail(body: dict[str, Any]) -> None:
    raise ValueError(body["name"])


@long.consumer(ORDERS)
def wait_in_a_statement(body: dict[str, Any], context: Context) -> None:
    with context.transaction() as tx:
        tx.execute("select pg_sleep(%s)", (body["seconds"],))


@quick.consumer(ORDERS)
def wait_at_last(body: dict[str, Any], context: Context) -> None:
    """Be quick until message 60, and then wait until the file that the body names is gone."""
    # On a machine that stands still now and then, too.
    claiming._QUICK_SECONDS = 1_000 * QUICK  # noqa: SLF001 - a matter of the machine.
    with context.transaction() as tx:
        tx.execute(EFFECT, ("orders", "done"))
    while next(_handled) >= 60 and Path(body["gate"]).exists():
        time.sleep(0.01)


@stuck.consumer(ORDERS, visibility=3)
def wait_at_one(body: dict[str, Any]) -> None:
    """Be quick but for message 30, which waits until the file that the body names is gone."""
    number = next(_handled)
    claiming._QUICK_SECONDS = 1_000 * QUICK if number < 30 else QUICK  # noqa: SLF001 - as above.
    while number == 30 and Path(body["gate"]).exists():
        time.sleep(0.01)


@plain.consumer(ORDERS, visibility=2)
def write_elsewhere(body: dict[str, Any]) -> None:
    """Write down that the message is there, and end when the file that it names is gone."""
    with psycopg.connect(str(plain.dsn), autocommit=True) as other:
        other.execute(ELSEWHERE, ("orders", body["name"]))
    while Path(body["gate"]).exists():
        time.sleep(0.01)


@remote.consumer(ORDERS, concurrency=4)
def note(body: dict[str, Any]) -> None:
    """Write the message down, in a line of a file; after 24 only when the gate is gone."""
    while next(_handled) > 24 and Path(body["gate"]).exists():
        Path(body["gate"]).with_suffix(".held").touch()
        time.sleep(0.01)
    with Path(body["file"]).open("a", encoding="utf-8") as file:
        file.write(body["name"] + "\n")

"""Workers of a server, or of sessions, that acknowledge what they are sent and answer nothing."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from skipmq import Queue
from support import partitions, servers
from support.applications import applications_of
from support.http import eventually, free_port
from support.postgres import Connection, Databases
from support.sql import Queue as Made
from support.sql import number
from support.trees import frozen
from support.worker import WorkerProcess

ORDERS = Queue("orders", dict)
SESSIONS = "from pg_stat_activity where usename = 'shop' and datname = current_database()"
LEFT = "select count(*) from skipmq.message where queue_id > 0"
SILENT = "the server did not answer within 5 s"


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[Databases]:
    """Give a server that these tests alone use."""
    with servers.start(server_folder / "frozen", ephemeral=True, migrated=True) as started:
        yield Databases(started)


@pytest.fixture
def owner(server: Databases) -> Iterator[Connection]:
    url = server.migrated()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    server.drop(url)


@pytest.fixture
def shop(server: Databases, owner: Connection) -> Iterator[str]:
    names = [ORDERS.name, "orders.fifo"]
    for name in names:
        Made(owner, name)
    for table in ("effect", "elsewhere"):
        owner.execute(f"create table public.{table} (queue text, name text)")
        owner.execute(f"grant all on public.{table} to public")
    with applications_of(server.url(owner.info.dbname)) as made:
        made.create("shop").grant("shop", send=names, receive=names)
        yield f"{made.url('shop')}&connect_timeout=2"


def status(port: int) -> int:
    """Return what a worker answers that is asked whether it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_worker_is_not_ready_while_its_server_is_frozen(
    server: Databases, owner: Connection, shop: str
) -> None:
    port = free_port()
    with WorkerProcess("worker_apps:effects", "--dsn", shop, "--health-port", str(port)) as worker:
        eventually(lambda: number(owner, f"select count(*) {SESSIONS}") == 2, why="it works")
        assert status(port) == 200

        with partitions.frozen(server):
            eventually(lambda: status(port) == 503, why="it is not ready")
            eventually(lambda: SILENT in worker.log, why="it says so")
        eventually(lambda: status(port) == 200, why="it is ready again")

        ORDERS.send({"name": "tea"}, using=owner)
        eventually(lambda: number(owner, LEFT) == 0, why="it works again")


def test_worker_leaves_sessions_that_are_frozen(owner: Connection, shop: str) -> None:
    with WorkerProcess("worker_apps:effects", "--dsn", shop) as worker:
        eventually(lambda: number(owner, f"select count(*) {SESSIONS}") == 2, why="it works")
        pids = [pid for (pid,) in owner.execute(f"select pid {SESSIONS}")]  # type: ignore[arg-type]

        with frozen(*pids):
            ORDERS.send({"name": "tea"}, using=owner)
            eventually(lambda: number(owner, LEFT) == 0, why="another session has it")

    assert SILENT in worker.log
    assert number(owner, "select count(*) from public.effect") == 1


def test_deletion_in_the_transaction_of_a_handler_is_given_up_with_its_session(
    owner: Connection, shop: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    ORDERS.send({"gate": str(gate)}, using=owner)
    with WorkerProcess("worker_apps:gated", "--dsn", shop) as worker:
        begun = "select count(*) from public.elsewhere"
        eventually(lambda: number(owner, begun) == 1, why="the handler waits")
        handlers = f"select pid {SESSIONS} and state = 'idle in transaction'"
        (pid,) = owner.execute(handlers).fetchone() or ()  # type: ignore[arg-type]

        with frozen(pid):
            gate.unlink()
            eventually(lambda: number(owner, LEFT) == 0, why="it is done again, in another session")

    assert SILENT in worker.log
    assert number(owner, "select count(*) from public.effect") == 1


def test_transaction_of_a_handler_may_take_longer_than_a_statement_of_the_worker(
    owner: Connection, shop: str
) -> None:
    ORDERS.send({"seconds": 7}, using=owner)
    with WorkerProcess("worker_apps:long", "--dsn", shop) as worker:
        eventually(lambda: number(owner, LEFT) == 0, why="it is done")

    assert "did not answer" not in worker.log

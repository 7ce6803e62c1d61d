"""Workers as processes: killed, cut off and stopped, they lose nothing and commit nothing twice."""

import re
import signal
import socket
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from skipmq import Queue
from support.applications import Applications, receive
from support.consumers import dead
from support.http import eventually, free_port
from support.postgres import Connection
from support.sql import number
from support.worker import WorkerProcess

MESSAGES = 50
GROUPS, GROUPED_MESSAGES = "abcdefghij", 5
ALL = MESSAGES + GROUPED_MESSAGES * len(GROUPS)
ORDERS, FIFO = Queue("orders", dict), Queue("orders.fifo", dict)
WAITING = "select count(*) from skipmq.message where queue_id > 0"
GROUPED = "select count(*) from skipmq.message where group_no is not null"
SESSIONS = "from pg_stat_activity where usename = 'shop' and datname = current_database()"


def fill(shop: str) -> None:
    with psycopg.connect(shop) as tx:
        ORDERS.send_many([{"name": str(n)} for n in range(MESSAGES)], using=tx)
        for group in GROUPS:
            FIFO.send_many(
                [{"name": f"{group}{n}"} for n in range(GROUPED_MESSAGES)],
                using=tx,
                group=group,
                deduplication_ids=[f"{group}{n}" for n in range(GROUPED_MESSAGES)],
            )


def assert_done_once(owner: Connection) -> None:
    """Every message has its effect once, and those of a group have theirs in order."""
    rows = owner.execute("select queue, name from public.effect order by id").fetchall()
    standard = Counter(name for queue, name in rows if queue == "orders")
    assert standard == Counter(str(n) for n in range(MESSAGES))
    for group in GROUPS:
        done = [name for queue, name in rows if queue == "orders.fifo" and name[0] == group]
        assert done == [f"{group}{n}" for n in range(GROUPED_MESSAGES)]
    elsewhere = "select count(distinct (queue, name)) from public.elsewhere"
    assert number(owner, elsewhere) == ALL


def done(owner: Connection) -> int:
    return int(number(owner, "select count(*) from public.effect"))


def has_done(owner: Connection, more: int) -> bool:
    """Say whether there are more effects than that, or all."""
    return done(owner) > more or number(owner, WAITING) == 0


def cut_off(owner: Connection) -> bool:
    """End all sessions of the shop, also new ones, and say whether none is left."""
    owner.execute(f"select pg_terminate_backend(pid) {SESSIONS}")
    return not number(owner, f"select count(*) {SESSIONS}")


def test_effects_of_workers_that_are_killed_are_exactly_once(shop: str, owner: Connection) -> None:
    fill(shop)
    workers: list[WorkerProcess] = []
    try:
        for _ in range(2):
            before = done(owner)
            workers += [WorkerProcess("worker_apps:effects", "--dsn", shop) for _ in range(2)]
            eventually(lambda before=before: has_done(owner, before + 15), why="work")
            for worker in workers:
                worker.kill()
        workers.append(WorkerProcess("worker_apps:effects", "--dsn", shop))
        eventually(lambda: number(owner, WAITING) == 0, seconds=60, why="all messages are done")
    finally:
        for worker in workers:
            worker.__exit__()

    assert_done_once(owner)


def test_worker_goes_on_after_its_connections_are_cut(shop: str, owner: Connection) -> None:
    fill(shop)
    with WorkerProcess("worker_apps:effects", "--dsn", shop) as worker:
        for _ in range(3):
            before = done(owner)
            eventually(lambda before=before: has_done(owner, before + 10), why="work")
            owner.execute("alter role shop nologin")
            eventually(lambda: cut_off(owner), why="cut off")
            owner.execute("alter role shop login")
        eventually(lambda: number(owner, WAITING) == 0, seconds=60, why="all messages are done")
        assert worker.process.poll() is None

    assert_done_once(owner)
    assert "the database is unavailable, trying again" in worker.log


def test_worker_is_stopped_while_the_database_is_unavailable(shop: str, owner: Connection) -> None:
    with WorkerProcess("worker_apps:effects", "--dsn", shop) as worker:
        # The second session listens, and begins when the first is of use: before, it would give up.
        eventually(lambda: number(owner, f"select count(*) {SESSIONS}") > 1, why="it has begun")
        owner.execute("alter role shop nologin")

        def has_noticed() -> bool:
            # Again and again: a session may have been about to begin.
            owner.execute(f"select pg_terminate_backend(pid) {SESSIONS}")
            return "unavailable, trying again" in worker.log

        eventually(has_noticed)

        worker.signal()

        assert worker.ended() == 0


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    file = tmp_path / "gate"
    file.touch()
    return file


def begin(shop: str, owner: Connection, gate: Path, *options: str) -> WorkerProcess:
    """Start a worker with two handlers that wait, two messages behind them, and half a batch."""
    with psycopg.connect(shop) as tx:
        ORDERS.send_many([{"gate": str(gate)}] * 4, using=tx)
        FIFO.send_many([{"n": n} for n in range(3)], using=tx, group="g", deduplication_ids="abc")
    worker = WorkerProcess("worker_apps:gated", "--dsn", shop, *options)
    begun = "select count(*) from public.elsewhere"
    eventually(lambda: number(owner, begun) == 2, why="handlers begin")
    eventually(
        lambda: number(owner, f"{GROUPED} and receive_count = 1") == 3,
        why="half a batch is claimed",
    )
    return worker


def uncounted(owner: Connection) -> list[int]:
    """Return how often what waits was received, for its count, once all of it is visible."""
    rows = receive(owner, "orders", timeout=0) + receive(owner, "orders.fifo", timeout=0)
    return [row["approximate_receive_count"] - 1 for row in rows]


def test_worker_that_is_stopped_ends_what_runs_and_returns_the_rest(
    shop: str, owner: Connection, gate: Path
) -> None:
    with begin(shop, owner, gate) as worker:
        worker.signal(signal.SIGTERM)
        eventually(
            lambda: number(owner, f"{GROUPED} and receive_base = 1") == 3,
            why="the batch is returned",
        )
        assert worker.process.poll() is None
        gate.unlink()

        assert worker.ended() == 0

    assert done(owner) == 2
    assert uncounted(owner) == [0] * 5
    assert worker.lines[-1] == "skipmq: stopped (2 done, 3 returned)"


def test_messages_are_claimed_ahead_of_quick_handlers_and_returned_at_the_end(
    shop: str, owner: Connection, gate: Path
) -> None:
    with psycopg.connect(shop) as tx:
        ORDERS.send_many([{"gate": str(gate)}] * 100, using=tx)
    with WorkerProcess("worker_apps:quick", "--dsn", shop) as worker:
        eventually(lambda: done(owner) == 60, why="a handler waits")
        claimed = f"{WAITING} and receive_count = 1"
        eventually(lambda: 10 < number(owner, claimed) <= 20, why="the next are claimed")
        worker.signal(signal.SIGTERM)
        eventually(lambda: number(owner, f"{claimed} and receive_base = 0") == 0, why="returned")
        gate.unlink()

        assert worker.ended() == 0

    assert (done(owner), number(owner, WAITING)) == (60, 40)
    assert number(owner, f"{WAITING} and receive_count > receive_base") == 0


def test_messages_ahead_of_a_handler_that_takes_long_are_returned_to_others(
    shop: str, owner: Connection, gate: Path
) -> None:
    with psycopg.connect(shop) as tx:
        ORDERS.send_many([{"gate": str(gate)}] * 100, using=tx)
    with WorkerProcess("worker_apps:stuck", "--dsn", shop) as worker:
        held = f"{WAITING} and receive_count > receive_base"
        eventually(lambda: number(owner, held) > 10, why="messages are claimed ahead")
        returned = f"{WAITING} and receive_count > 0 and receive_count = receive_base"
        eventually(lambda: number(owner, returned) > 10, why="what is ahead is returned")
        assert number(owner, held) == 1  # What the handler has, and no more is claimed.
        assert gate.exists()
        gate.unlink()
        eventually(lambda: number(owner, WAITING) == 0, why="all messages are done")
        worker.signal()

        assert worker.ended() == 0


def test_message_that_was_handled_and_not_deleted_when_its_worker_is_killed_comes_again(
    shop: str, owner: Connection, database: str, gate: Path
) -> None:
    handled = "select count(*) from public.elsewhere"
    ORDERS.send({"name": "tea", "gate": str(gate)}, using=owner)
    with WorkerProcess("worker_apps:plain", "--dsn", shop) as worker:
        eventually(lambda: number(owner, handled) == 1, why="the handler runs")
        with psycopg.connect(database) as other:
            other.execute("select from skipmq.message where queue_id > 0 for update")
            gate.unlink()
            deletes = f"select count(*) {SESSIONS} and wait_event_type = 'Lock'"
            eventually(lambda: number(owner, deletes) == 1, why="its message is being deleted")
            worker.kill()
            eventually(lambda: cut_off(owner), why="its sessions end")
    assert number(owner, WAITING) == 1

    with WorkerProcess("worker_apps:plain", "--dsn", shop) as worker:
        eventually(lambda: number(owner, WAITING) == 0, why="it is done")

    assert number(owner, handled) == 2


@pytest.mark.parametrize("options", [["--grace", "0.2"], []])
def test_handlers_that_do_not_end_are_cut_off_and_their_messages_returned(
    shop: str, owner: Connection, gate: Path, options: list[str]
) -> None:
    with begin(shop, owner, gate, *options) as worker:
        worker.signal(signal.SIGINT)
        if not options:
            returned = f"{GROUPED} and receive_base = 1"
            eventually(lambda: number(owner, returned) == 3, why="it stops")
            worker.signal(signal.SIGINT)

        assert worker.ended() == 1

    assert done(owner) == 0
    assert uncounted(owner) == [0] * 7
    assert "2 handlers did not end within 0" in worker.log


def test_worker_says_how_it_is(shop: str, owner: Connection, gate: Path) -> None:
    port = free_port()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""

    with begin(shop, owner, gate, "--health-port", str(port)) as worker:
        assert get("/health/live")[0] == get("/health/ready")[0] == 200
        assert get("/else")[0] == 404
        assert 'skipmq_work_running{queue="orders"} 2\n' in get("/metrics")[1]
        gate.unlink()
        total = 'skipmq_work_messages_total{queue="orders",outcome="done"} 4\n'
        eventually(lambda: total in get("/metrics")[1], why="all are counted")
        owner.execute("alter role shop nologin")
        owner.execute(f"select pg_terminate_backend(pid) {SESSIONS}")
        eventually(lambda: get("/health/ready")[0] == 503, why="not ready")
        assert get("/health/live")[0] == 200
        owner.execute("alter role shop login")
        eventually(lambda: get("/health/ready")[0] == 200, why="ready")
        worker.signal()
        assert worker.ended() == 0


def test_health_is_of_this_machine_and_bounded(shop: str, owner: Connection, gate: Path) -> None:
    port = free_port()

    def get(**headers: str) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/health/live", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    with begin(shop, owner, gate, "--health-port", str(port)) as worker, ExitStack() as stack:
        for own in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert get(Host=own) == 200
        for other in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
            assert get(Host=other) == 403
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port)).close()
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(32)
        ]
        for each in idle:
            each.sendall(b"GET /health/live HTTP/1.1\r\n")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as beyond:
            assert beyond.recv(1) == b""
        for each in idle:
            each.sendall(b"\r\n")
            assert each.recv(12) == b"HTTP/1.1 200"
        eventually(lambda: get() == 200, why="places are free again")
        gate.unlink()
        worker.signal()
        assert worker.ended() == 0


def test_health_listens_where_it_is_asked_to(shop: str, owner: Connection, gate: Path) -> None:
    port = free_port()

    with begin(
        shop, owner, gate, *("--health-port", str(port), "--health-host", "127.0.0.2")
    ) as worker:
        with urllib.request.urlopen(f"http://127.0.0.2:{port}/health/live", timeout=10) as answer:
            assert answer.status == 200
        gate.unlink()
        worker.signal()
        assert worker.ended() == 0


def test_once_ends_when_the_queues_are_empty(shop: str, owner: Connection) -> None:
    fill(shop)

    with WorkerProcess("worker_apps:effects", "--once", "--dsn", shop) as worker:
        assert worker.ended(60) == 0

    assert_done_once(owner)
    # Claims of two seconds may run out on the way; who loses one has done nothing.
    assert worker.lines[-1].startswith(f"skipmq: stopped ({ALL} done")


def test_once_ends_with_1_when_a_handler_failed_also_for_the_last_time(
    shop: str, owner: Connection
) -> None:
    with psycopg.connect(shop) as tx:
        ORDERS.send({"name": "broken"}, using=tx)

    with WorkerProcess("worker_apps:failing", "--once", "--dsn", shop) as worker:
        assert worker.ended() == 1

    text = r"fail failed: queue orders, message \S+, attempt 1 of 2, again in \d+ s: ValueError: br"
    assert re.search(text, worker.log)
    # The traceback begins with the handler.
    assert worker.log.count("  File ") == 1
    assert worker.lines[-1] == "skipmq: stopped (1 retried)"
    assert number(owner, WAITING) == 1

    dead(owner)
    owner.execute("update skipmq.message set visible_at = now() where queue_id > 0")
    with WorkerProcess("worker_apps:failing", "--once", "--dsn", shop) as worker:
        assert worker.ended() == 1

    assert "attempt 2 of 2, for the last time: ValueError: broken" in worker.log
    assert worker.lines[-1] == "skipmq: stopped (1 dead-lettered)"


def test_queue_that_may_not_be_received_from_is_an_error(
    shop: str, applications: Applications
) -> None:
    applications.revoke("shop", receive=["orders"])

    with WorkerProcess("worker_apps:effects", "--dsn", shop) as worker:
        assert worker.ended() == 1

    assert "role shop may not receive from the queue orders: the owner of the schema" in worker.log
    assert "Traceback" not in worker.log

"""The one PostgreSQL of a run, and databases on it: real settings, data on disk, synced."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import psycopg

from bench import machine
from bench.machine import Unavailable
from skipmq.database import embedded
from support import standby
from support.http import SKIPMQ, environment, eventually
from support.postgres import Databases

PGMQ_QUEUE = "bench"
_STOP_SECONDS = 60
_SYNCHRONOUS = "select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')"
_CHUNK = 20_000


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Give a folder on disk that every account can reach; it is removed at the end."""
    # Not /tmp, which may be memory: this place outlives a restart of the machine.
    folder = Path(tempfile.mkdtemp(prefix="skipmq-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Databases]:
    """Run the server that SkipMQ brings along, with the settings that it gives it."""
    with embedded.start(folder / "postgresql") as running:
        postgresql = psutil.Process(postmaster(running.url))
        yield Databases(running)
    postgresql.wait(_STOP_SECONDS)


@contextlib.contextmanager
def replicated(folder: Path) -> Iterator[Databases]:
    """Run a server that waits for a standby, on this machine too, to have what is committed."""
    with server(folder / "primary") as primary:
        standby.copy(primary.server.url, folder / "standby" / "postgresql")
        with server(folder / "standby"), psycopg.connect(primary.server.url) as connection:
            connection.autocommit = True
            connection.execute("alter system set synchronous_standby_names = 'any 1 (*)'")
            connection.execute("select pg_reload_conf()")
            eventually(
                lambda: ask(primary.server.url, _SYNCHRONOUS) != "0", why="a standby is waited for"
            )
            yield primary
            connection.execute("alter system reset synchronous_standby_names")
            connection.execute("select pg_reload_conf()")


def postmaster(url: str) -> int:
    """Return the process that all processes of this database's server descend from."""
    with psycopg.connect(url) as connection:
        return psutil.Process(connection.info.backend_pid).ppid()


@contextlib.contextmanager
def migrated(databases: Databases, program: Sequence[str] = SKIPMQ) -> Iterator[str]:
    """Give the owner's URL of a fresh database with SkipMQ in it, of this checkout or another."""
    ours = program == SKIPMQ
    url = databases.migrated() if ours else databases.empty()
    try:
        if not ours:
            command(url, program, "migrate")
        yield url
    finally:
        databases.drop(url)


def command(database: str, program: Sequence[str], *words: str, **settings: str) -> str:
    """Run a command of a checkout on a database; return what it prints. Raises Unavailable."""
    done = subprocess.run(
        [*program, *words],
        env=environment({"database_url": database, **settings}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"skipmq {words[0]}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


@contextlib.contextmanager
def with_pgmq(databases: Databases) -> Iterator[str]:
    """Give the URL of a fresh database with PGMQ and one queue of it."""
    text = machine.pgmq_sql().read_text()
    url = databases.empty()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text.encode())
            connection.execute("select pgmq.create(%s)", (PGMQ_QUEUE,))
        yield url
    finally:
        databases.drop(url)


def create_queue(url: str, name: str, history: str = "metadata", attributes: str = "{}") -> int:
    given = f"'{name}', '{attributes}', p_history_mode => '{history}'"
    return int(ask(url, f"select skipmq.create_queue({given})"))


def waiting(url: str, queue: int) -> int:
    """Count the messages of a queue by looking at them."""
    return int(ask(url, f"select count(*) from skipmq.message where queue_id = {queue}"))


def waiting_in_pgmq(url: str) -> int:
    return int(ask(url, f"select count(*) from pgmq.q_{PGMQ_QUEUE}"))


def ask(url: str, statement: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return str(row[0]) if row else ""


def fill(url: str, name: str, messages: int, groups: int, progress: Callable[[int], None]) -> None:
    """Send a backlog through the SQL functions, 256 bytes each, then vacuum and checkpoint."""
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(0, messages, _CHUNK):
            size = min(_CHUNK, messages - first)
            connection.execute(
                _fill_fifo(name, first, size, groups) if groups else _fill_standard(name, size)
            )
            progress(size)
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def _fill_standard(name: str, size: int) -> bytes:
    return f"""
      select skipmq.send_messages(
        skipmq.queue_id('{name}'), array_agg(gen_random_uuid()), array_agg(rpad('1 ', 256, 'x')),
        null, null, null, null, null, 'on')
      from generate_series(1, {size})""".encode()


def _fill_fifo(name: str, first: int, size: int, groups: int) -> bytes:
    return f"""
      select count(*) from skipmq.send_fifo_messages(
        skipmq.queue_id('{name}'),
        array(select gen_random_uuid() from generate_series(1, {size})),
        array_fill(rpad('1 ', 256, 'x'), array[{size}]),
        null,
        array(select 'group-' || n % {groups} from generate_series(1, {size}) n),
        array(select 'backlog-' || n + {first} from generate_series(1, {size}) n),
        null, null, 'on')""".encode()


@contextlib.contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot open, as a long report or a backup does."""
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        yield
        connection.rollback()

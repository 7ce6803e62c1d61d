"""Workers of the Python client, and a producer that sends in transactions of its own.

What was sent and what was worked are rows, written in the transactions that send and that delete:
so they say what is true of both, also where the outcome of a commit is unknown.
"""

import os
import random
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from cluster.history import History, Op
from skipmq import Queue
from skipmq.client import ClientError
from support.forks import Forked

HERE = Path(__file__).resolve().parent
# Messages a second to both queues together, and workers that share them.
RATE, WORKERS = 20.0, 2
GROUPS = 4
# Seconds between what is done to a worker; those of its handlers after SIGTERM, and then its own.
PAUSES, GRACE, SLACK = (2.0, 5.0), 10, 30
_TABLES = """
create table if not exists public.offered (run text, queue text, grp text, number bigint);
create table if not exists public.worked
  (id bigint generated always as identity, run text, queue text, grp text, number bigint);
grant select, insert on public.offered, public.worked to skipmq_node;
"""
_OFFER = "insert into public.offered (run, queue, grp, number) values (%s, %s, %s, %s)"
_OFFERED = "select queue, grp, number from public.offered where run = %s order by number"
_WORKED = "select queue, grp, number from public.worked where run = %s order by id"
_LEFT = """
select count(*) from skipmq.message m join skipmq.queue q using (queue_id) where q.name = any(%s)
"""


class Workers:
    """Workers that are killed and stopped now and then, from the start of the block on."""

    def __init__(
        self,
        owner_url: str,
        node_url: str,
        history: History,
        folder: Path,
        *,
        seed: int,
        prefix: str = "",
    ) -> None:
        self._owner_url, self._url, self._history = owner_url, node_url, history
        self._run, self._seed = prefix, seed
        self._elsewhere = folder / f"{prefix}elsewhere.txt"
        self._log = folder / f"{prefix}workers.log"
        self._queues = [Queue(f"{prefix}worked", dict), Queue(f"{prefix}worked.fifo", dict)]
        self._stop, self._done = threading.Event(), threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._offer, self._hurt)]

    def drain(self, seconds: float) -> None:
        """Send no more, hurt nobody, and wait until nothing is left; then stop the workers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        deadline = time.monotonic() + seconds
        while self._left() and time.monotonic() < deadline:
            time.sleep(0.2)
        self._end()

    def note(self) -> None:
        """Note what was sent, what was worked here, and what elsewhere."""
        now = time.monotonic()
        with psycopg.connect(self._owner_url) as connection:
            kinds = {
                kind: connection.execute(statement, (self._run,)).fetchall()
                for kind, statement in (("offered", _OFFERED), ("worked", _WORKED))
            }
        lines = self._elsewhere.read_text().splitlines() if self._elsewhere.exists() else []
        kinds["elsewhere"] = [tuple(line.split(" ")) for line in lines]
        for kind, rows in kinds.items():
            self._history.add(
                *(
                    Op(kind, "ok", "workers", now, now, queue, group, str(number), place=place)
                    for place, (queue, group, number) in enumerate(rows)
                )
            )

    def _offer(self) -> None:
        """Send, each message with a row in one transaction, until the load ends."""
        numbers, chance = count(1), random.Random(self._seed)  # noqa: S311 - no secret.
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._url, connect_timeout=5, autocommit=True) as connection:
                    while not self._stop.wait(1 / RATE):
                        self._send(connection, next(numbers), f"g{chance.randrange(GROUPS)}")
            except (psycopg.Error, ClientError):
                # Whatever became of the message became of its row.
                self._stop.wait(0.2)

    def _send(self, connection: psycopg.Connection, number: int, group: str) -> None:
        queue = self._queues[number % 2]
        with connection.transaction():
            connection.execute(_OFFER, (self._run, queue.name, group, number))
            body = {"group": group, "number": number}
            queue.send(body, using=connection, group=group if queue.fifo else None,
                       deduplication_id=f"{number}" if queue.fifo else None)  # fmt: skip

    def _hurt(self) -> None:
        """Kill or stop one worker after the other, and start another in its place."""
        chance = random.Random(self._seed)  # noqa: S311 - no secret.
        while not self._stop.wait(chance.uniform(*PAUSES)):
            place = chance.randrange(WORKERS)
            process, begun = self._processes[place], time.monotonic()
            how = chance.choice(("kill", "stop"))
            if how == "kill":
                process.kill()
            else:
                process.terminate()
            _ended(process)
            self._processes[place] = self._started()
            now = time.monotonic()
            self._history.add(Op(how, "ok", f"worker-{place}", begun, now))

    def _started(self) -> subprocess.Popen[bytes]:
        words = [
            "-m",
            "skipmq",
            "work",
            "worker_app:app",
            "--grace",
            str(GRACE),
            "--dsn",
            self._url,
        ]
        variables = os.environ | {  # noqa: TID251 - a worker's own words.
            "WORKED_RUN": self._run,
            "WORKED_ELSEWHERE": str(self._elsewhere),
        }
        with self._log.open("ab") as log:
            # As a fork: a worker is started every few seconds, and most of its start are imports.
            return Forked([sys.executable, *words], cwd=HERE, env=variables, stdout=log, stderr=log)

    def _left(self) -> bool:
        names = [queue.name for queue in self._queues]
        try:
            with psycopg.connect(self._owner_url) as connection:
                row = connection.execute(_LEFT, (names,)).fetchone()
        except psycopg.OperationalError:
            return True
        return row is None or row[0] > 0

    def _end(self) -> None:
        self._stop.set()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            _ended(process)

    def __enter__(self) -> Self:
        self._elsewhere.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)
        with psycopg.connect(self._owner_url) as connection:
            connection.execute(_TABLES)
            for queue in self._queues:
                fifo = '{"FifoQueue": "true"}' if queue.fifo else "{}"
                connection.execute("select skipmq.create_queue(%s, %s)", (queue.name, fifo))
        self._processes = [self._started() for _ in range(WORKERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._end()


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process; one that does not end is killed."""
    try:
        process.wait(GRACE + SLACK)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""The case of consumers: what a job costs by the libraries that a Python team would choose."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from bench import databases, machine, peers
from bench.load import Failed, Outcome
from bench.record import Pair
from bench.run import PGMQ, Measure, Run
from bench.usage import processor_seconds

CLIENT = f"{peers.SKIPMQ_NAME}'s client"
PROCRASTINATE, CELERY = "procrastinate", f"Celery on {peers.SKIPMQ_NAME}"
_QUEUE = "jobs"
_LONGEST = 600


def consumers(run: Run) -> None:
    """Jobs that insert a row each, eight at a time in one process, against peers."""
    run.absent = {}
    with ExitStack() as stack:
        measures = {CLIENT: _measure(run, "skipmq_client", _skipmq(run, stack))}
        for name, program, start in (
            (PGMQ, "pgmq_client", _pgmq),
            (PROCRASTINATE, "procrastinate_worker", _procrastinate),
        ):
            with run.noting(name):
                measures[name] = _measure(run, program, start(run, stack))
        database = _skipmq(run, stack)
        node = stack.enter_context(peers.skipmq(database, workers=1))
        url = f"{node.url} {database}"
        measures[CELERY] = _measure(run, "celery_worker", database, url, node.pid)
        pairs = [Pair(CLIENT, name) for name in measures if name != CLIENT]
        found = run.compare("consumers", "jobs/s", measures, CLIENT, pairs=pairs)
        for key, title in (
            ("job_us", "processor time a job, of all processes"),
            ("worker_us", "processor time a job, of the worker"),
        ):
            run.derive(found, key, title, "µs", CLIENT)


def _measure(run: Run, program: str, database: str, url: str = "", node: int = 0) -> Measure:
    """Return a measure that fills a queue, and times a worker from its first job to its last."""

    def measured(_: int) -> Outcome:
        number = run.form.sizes["jobs"]
        _program(program, "fill", url or database, number)
        pids = [databases.postmaster(database), *([node] if node else [])]
        before = [processor_seconds(pid) for pid in pids]
        done = int(databases.ask(database, "select count(*) from public.effect"))
        lines = _program(program, "work", url or database, number).splitlines()
        found = json.loads(next(line for line in lines if line.startswith("{")))
        used = [processor_seconds(pid) - spent for pid, spent in zip(pids, before, strict=True)]
        if int(databases.ask(database, "select count(*) from public.effect")) - done != number:
            raise Failed(f"{program} did not do each job once")
        worker = found["processor"] / number * 1e6
        return Outcome(
            number / found["seconds"],
            {"worker_us": worker, "job_us": worker + sum(used) / number * 1e6},
        )

    return measured


def _program(program: str, *words: object) -> str:
    path = machine.FOLDER / "workers" / f"{program}.py"
    done = subprocess.run(
        [sys.executable, str(path), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{program}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


def _skipmq(run: Run, stack: ExitStack) -> str:
    database = run.database(stack)
    databases.create_queue(database, _QUEUE)
    return _with_effect(database)


def _pgmq(run: Run, stack: ExitStack) -> str:
    return _with_effect(stack.enter_context(databases.with_pgmq(run.databases)))


def _procrastinate(run: Run, stack: ExitStack) -> str:
    return _with_effect(stack.enter_context(_with_procrastinate(run)))


@contextmanager
def _with_procrastinate(run: Run) -> Iterator[str]:
    """Give the URL of a fresh database with procrastinate's schema."""
    schema = _procrastinate_schema()
    url = run.databases.empty()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(schema.encode())
        yield url
    finally:
        run.databases.drop(url)


def _procrastinate_schema() -> str:
    try:
        from procrastinate.schema import SchemaManager  # noqa: PLC0415 - a peer.
    except ImportError as error:
        raise machine.Unavailable(f"procrastinate is not installed: {error}") from error
    return str(SchemaManager.get_schema())


def _with_effect(url: str) -> str:
    with psycopg.connect(url) as connection:
        connection.execute("create table public.effect (number int)")
    return url

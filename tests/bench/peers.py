"""The brokers that are compared over HTTP: each a real server on a free loopback port."""

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import databases, machine
from bench.machine import Unavailable
from bench.wire import Client, Refused
from support.certificates import Files
from support.http import ACCOUNT, SKIPMQ, NodeProcess, environment, free_port
from support.key_commands import MASTER_KEY
from support.postgres import as_node

PATIENCE = 60
_STOP_SECONDS = 5
SKIPMQ_NAME = "SkipMQ"
# Another checkout, as of the commit before.
BEFORE = "SkipMQ, before"
ELASTICMQ, ELASTICMQ_PERSISTENT = "ElasticMQ, in memory", "ElasticMQ, persistent"
MOTO = "moto"
EMPTY = "empty handler"
JVMS = (ELASTICMQ, ELASTICMQ_PERSISTENT)
_FIFO = {"FifoQueue": "true"}
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Broker:
    """A server that runs: the root of its processes, and of its PostgreSQL's when it has one."""

    name: str
    url: str
    pid: int
    postmaster: int | None = None

    def queue(self, *, fifo: bool = False, **attributes: str) -> str:
        """Create a queue; return its URL."""
        with contextlib.closing(Client(self.url)) as client:
            return self._create(client, fifo, attributes)

    @contextlib.contextmanager
    def queues(self, number: int, *, fifo: bool = False, **attributes: str) -> Iterator[list[str]]:
        """Give the URLs of so many fresh queues, which are deleted at the end."""
        with contextlib.closing(Client(self.url)) as client:
            urls = [self._create(client, fifo, attributes) for _ in range(number)]
        yield urls
        with contextlib.closing(Client(self.url)) as client:
            for url in urls:
                client.call("DeleteQueue", QueueUrl=url)

    @staticmethod
    def _create(client: Client, fifo: bool, attributes: dict[str, str]) -> str:
        name = f"bench-{next(_numbers)}" + ".fifo" * fifo
        return client.create_queue(name, attributes | (_FIFO if fifo else {}))


@contextlib.contextmanager
def skipmq(
    database: str,
    *,
    workers: int = 0,
    requests: int = 0,
    signed: bool = False,
    files: Files | None = None,
    program: Sequence[str] = SKIPMQ,
) -> Iterator[Broker]:
    """Run a node on a database, given by its owner's URL; 0 leaves a setting at its default.

    It admits at least so many requests at once in a worker, with `signed` only signed ones, with
    `files` over TLS. A program of another checkout needs a database of that one. Raises
    Unavailable.
    """
    settings: dict[str, Any] = _room_for(requests) if requests else {}
    if signed:
        settings |= {"auth": "on", "master_key": MASTER_KEY}
    if workers:
        settings["workers"] = workers
    context = None
    if files is not None:
        settings |= files.settings
        context = files.context()
    url = as_node(database)
    settings |= {"database_url": url, "log_level": "warning"}
    with NodeProcess(context=context, program=program, **settings) as node:
        try:
            node.ready()
        except AssertionError as error:
            raise Unavailable(f"SkipMQ did not start: {error}") from error
        postmaster = databases.postmaster(database)
        name = SKIPMQ_NAME if program == SKIPMQ else BEFORE
        yield Broker(name, node.url, node.process.pid, postmaster)


def keys(database: str, number: int, program: Sequence[str] = SKIPMQ) -> list[dict[str, str]]:
    """Make so many access keys, each of a user of its own, in the account of the queues."""
    words = ("keys", "create", "--account", ACCOUNT, "--json")
    found = []
    for _ in range(number):
        made = json.loads(databases.command(database, program, *words, master_key=MASTER_KEY))
        found.append({"key": made["access_key_id"], "secret": made["secret_access_key"]})
    return found


@cache
def _settings() -> dict[str, dict[str, int]]:
    """Return the settings of a node with their defaults."""
    done = subprocess.run(
        [*SKIPMQ, "config", "--json"], env=environment({}), capture_output=True, check=True
    )
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def _room_for(requests: int) -> dict[str, int]:
    """Return the setting with which a worker admits so many requests at once."""
    return {"max_requests": max(_settings()["max_requests"]["value"], requests)}


@contextlib.contextmanager
def elasticmq(
    folder: Path, *, persistent: bool = False, conf: Path | None = None
) -> Iterator[Broker]:
    """Run ElasticMQ; with persistence as its documentation has it, in files of H2.

    Another configuration takes ${PORT}, too.
    """
    conf = conf or machine.FOLDER / "elasticmq" / f"{'persistent' if persistent else 'memory'}.conf"
    data = folder / f"elasticmq-{next(_numbers)}"
    data.mkdir()
    port = free_port()
    words = [
        machine.find("java"),
        f"-Dconfig.file={conf}",
        "-cp",
        f"{machine.elasticmq_jars()}/*",
        "org.elasticmq.server.Main",
    ]
    name = ELASTICMQ_PERSISTENT if persistent else ELASTICMQ
    variables = {"PORT": str(port), "FOLDER": str(data)}
    with _server(name, words, port, data / "log", variables=variables) as broker:
        yield broker


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Broker]:
    machine.check_moto()
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _server(MOTO, words, port, folder / f"moto-{next(_numbers)}.log") as broker:
        yield broker


@contextlib.contextmanager
def skipmq_alone(folder: Path, *, ephemeral: bool) -> Iterator[Broker]:
    """Run SkipMQ as on a laptop: with a PostgreSQL of its own, on nothing."""
    number, port = next(_numbers), free_port()
    words = [*SKIPMQ, "serve", "--port", str(port)]
    words += ["--ephemeral"] if ephemeral else ["--data-dir", str(folder / f"skipmq-{number}")]
    name = "SkipMQ, --ephemeral" if ephemeral else "SkipMQ, new data folder"
    with _server(name, words, port, folder / f"skipmq-{number}.log") as broker:
        yield broker


@contextlib.contextmanager
def empty_handler(folder: Path) -> Iterator[Broker]:
    """Run a server that does nothing, of what a node's door is made of."""
    port = free_port()
    words = [sys.executable, str(machine.FOLDER / "empty_handler.py"), str(port)]
    log = folder / f"empty-{next(_numbers)}.log"
    with _server(EMPTY, words, port, log, ready=_answers) as broker:
        yield broker


def _takes_messages(url: str) -> None:
    """Send a message, which asks for more than an open port."""
    with contextlib.closing(Client(url)) as client:
        queue = client.create_queue("bench-ready")
        client.call("SendMessage", QueueUrl=queue, MessageBody="ready")


def _answers(url: str) -> None:
    with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc)) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()


@contextlib.contextmanager
def _server(
    name: str,
    words: list[str],
    port: int,
    log: Path,
    *,
    variables: Mapping[str, str] | None = None,
    ready: Callable[[str], None] = _takes_messages,
) -> Iterator[Broker]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            env=environment({}) | dict(variables or {}),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            broker = Broker(name, f"http://127.0.0.1:{port}", process.pid)
            _wait(broker, process, log, ready)
            yield broker
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(
    broker: Broker, process: subprocess.Popen[bytes], log: Path, ready: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            ready(broker.url)
        except (OSError, Refused) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                why = last[0] if last else error
                raise Unavailable(f"{broker.name} did not start: {why}") from error
            time.sleep(0.01)
        else:
            return

"""The brokers that are compared over HTTP: each a real server on a free loopback port."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil

from bench import programs
from bench.programs import Unavailable
from bench.wire import Client, Refused
from support.http import SKIPMQ, NodeProcess, environment, free_port
from support.postgres import as_node

PATIENCE = 60
_STOP_SECONDS = 5
SKIPMQ_NAME = "SkipMQ"
ELASTICMQ, ELASTICMQ_PERSISTENT = "ElasticMQ, in memory", "ElasticMQ, persistent"
MOTO = "moto"
_FIFO = {"FifoQueue": "true"}
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs, and how much machine it uses."""

    name: str
    url: str
    pid: int
    started: float = field(default_factory=time.monotonic)

    def queue(self, *, fifo: bool = False, **attributes: str) -> str:
        """Create a queue; return its URL."""
        name = f"bench-{next(_numbers)}" + ".fifo" * fifo
        client = Client(self.url)
        try:
            return client.create_queue(name, attributes | (_FIFO if fifo else {}))
        finally:
            client.close()

    def processes(self) -> list[psutil.Process]:
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]

    def memory(self) -> float:
        """Return the memory of all its processes in MB, what they share counted once."""
        total = 0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total / 1e6

    def resident(self) -> float:
        """Return the memory of all its processes in MB, what they share counted in each."""
        total = 0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / 1e6

    def processor_time(self) -> float:
        """Return the seconds of processor time that its living processes have used."""
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total


@contextlib.contextmanager
def skipmq(database: str, *, workers: int = 0) -> Iterator[Broker]:
    """Run a node on a database, given by its owner's URL; no workers means one a core."""
    with NodeProcess(database_url=as_node(database), workers=workers, log_level="warning") as node:
        try:
            node.ready()
        except AssertionError as error:
            raise Unavailable(f"SkipMQ did not start: {error}") from error
        yield Broker(SKIPMQ_NAME, node.url, node.process.pid)


@contextlib.contextmanager
def elasticmq(folder: Path, *, persistent: bool = False) -> Iterator[Broker]:
    """Run ElasticMQ; with persistence as its documentation has it, in files of H2."""
    conf = "persistent.conf" if persistent else "memory.conf"
    data = folder / f"elasticmq-{next(_numbers)}"
    data.mkdir()
    port = free_port()
    words = [
        programs.find("java"),
        f"-Dconfig.file={programs.FOLDER / 'elasticmq' / conf}",
        "-cp",
        f"{programs.elasticmq_jars()}/*",
        "org.elasticmq.server.Main",
    ]
    name = ELASTICMQ_PERSISTENT if persistent else ELASTICMQ
    variables = {"PORT": str(port), "FOLDER": str(data)}
    with _server(name, words, port, data / "log", variables) as broker:
        yield broker


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[Broker]:
    programs.check_moto()
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
def _server(
    name: str, words: list[str], port: int, log: Path, variables: dict[str, str] | None = None
) -> Iterator[Broker]:
    with log.open("wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            words,
            env=environment({}) | (variables or {}),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            broker = Broker(name, f"http://127.0.0.1:{port}", process.pid, started)
            _wait(broker, process, log)
            yield broker
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(broker: Broker, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the broker takes a message, which is more than an open port."""
    deadline = time.monotonic() + PATIENCE
    while True:
        client = Client(broker.url)
        try:
            queue = client.create_queue("bench-ready")
            client.call("SendMessage", QueueUrl=queue, MessageBody="ready")
        except (OSError, Refused) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                why = last[0] if last else error
                raise Unavailable(f"{broker.name} did not start: {why}") from error
            time.sleep(0.01)
        else:
            return
        finally:
            client.close()

"""The stand-alone server: worker processes under Granian, and one janitor."""

import fcntl
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.log import LogLevels
from granian.server.mp import MPServer

from skipmq import config, errors, logs
from skipmq.actions import ACTIONS
from skipmq.config import Settings
from skipmq.janitor import Janitor
from skipmq.model import Identity
from skipmq.node import Node
from skipmq.protocol import Call, Request
from skipmq.store import Database, Upkeep

# Threads for those who are told that there is no room, and for questions after the node's health.
SPARE_THREADS = 64
# Connections of a worker for each of its threads: clients keep idle ones. Who comes when there are
# more waits unheard.
CONNECTIONS = 4
# Files that a worker opens for other things.
OTHER_FILES = 256
# The first release named its folders skipmq-metrics- and did not lock them.
_METRICS = "skipmq-numbers-"


class ServeError(Exception):
    """The server cannot start; the message says what to do."""


@contextmanager
def address(settings: Settings) -> Iterator[str]:
    """Hold the address to listen on for as long as the block runs; give it in figures.

    Raises ServeError when it is taken, is not this machine's, or would need signature checks.
    """
    if settings.checks_signatures:
        raise ServeError(
            f"{settings.host} can be reached from other machines and this release cannot check"
            " signatures: listen on 127.0.0.1, or allow every caller with --insecure"
        )
    with ExitStack() as held:
        try:
            found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
            family, _, _, _, (host, *_) = found[0]
            if sys.platform == "linux":
                # Workers share the port with whoever asks for sharing, another node too: this name
                # is one node's alone, and is free again when its process is gone.
                claim = held.enter_context(socket.socket(socket.AF_UNIX))
                claim.bind(f"\0skipmq {host} {settings.port}")
            with socket.socket(family) as probe:
                # Asking for the port alone shows whether another program has it.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, settings.port))
        except OSError as error:
            raise ServeError(
                f"cannot listen on {settings.host} port {settings.port}: {error.strerror}."
                " Stop the program that has it, or choose another with --port"
            ) from error
        yield str(host)


def run(settings: Settings, host: str, database_url: str, ready: Callable[[], None]) -> None:
    """Serve on `host` until SIGINT, SIGTERM or SIGHUP, then let requests end and return.

    The schema of the database has been checked. Calls `ready` once a worker answers.
    """
    # Workers are started afresh, not forked: this process has threads.
    multiprocessing.set_start_method("spawn", force=True)
    leaving, staying = multiprocessing.Pipe(duplex=False)
    parting, alive = multiprocessing.Pipe(duplex=False)
    server = _Server(
        "skipmq",
        address=host,
        port=settings.port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=settings.worker_count,
        blocking_threads=settings.threads + SPARE_THREADS,
        backpressure=connections(settings.threads * CONNECTIONS),
        backlog=max(1024, settings.threads),
        respawn_failed_workers=True,
        workers_kill_timeout=settings.stop_timeout,
        log_level=LogLevels.error,
    )
    server.staying, server.alive, server.stop_delay = staying, alive, settings.stop_delay
    threading.Thread(target=_announce, args=(host, settings.port, ready), daemon=True).start()
    with _metrics_folder() as folder, _janitor(settings, database_url, folder):
        load = partial(_load, settings, database_url, leaving, parting, folder)
        server.serve(target_loader=load, wrap_loader=False)


@contextmanager
def _janitor(settings: Settings, database_url: str, metrics_folder: Path) -> Iterator[None]:
    """Have a janitor at work in the block, with its share of the node's metrics."""
    config.share_metrics(metrics_folder)
    from skipmq.metrics import Metrics  # noqa: PLC0415 - The import needs to know the folder.

    database = Database(database_url, size=1, application_name="skipmq janitor")
    janitor = Janitor(Upkeep(database), settings, Metrics(metrics_folder, janitor=True))
    janitor.start()
    try:
        yield
    finally:
        janitor.stop()
        database.close()


def connections(wanted: int) -> int:
    """Return how many connections of clients a worker can hold, of those wanted."""
    # Granian has asked for as many files as the system allows.
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - OTHER_FILES, 64))


@contextmanager
def _metrics_folder() -> Iterator[Path]:
    """Give a folder for the workers' numbers; remove those of nodes that were killed.

    A node locks its own, so that nodes that do not see each other's processes share a /tmp.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_METRICS}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f".{_METRICS}"))
    with _locked(made):
        folder = made.rename(made.with_name(made.name.removeprefix(".")))  # Now others find it.
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder in the block. Raises OSError when somebody else does."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


class _Server(MPServer):
    """Granian's server, which tells its workers that it is going to stop them, and that it does.

    It tells them by closing its ends of two pipes, which its death does too.
    """

    staying: Connection
    alive: Connection
    stop_delay: float

    def _spawn_workers(self, *args: Any, **kwargs: Any) -> None:
        with _deaf_children():
            super()._spawn_workers(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _respawn_workers(self, *args: Any, **kwargs: Any) -> None:
        with _deaf_children():
            super()._respawn_workers(*args, **kwargs)

    def signal_handler_reload(self, *_: object) -> None:
        """Stop when the terminal is closed: there is nothing to reload."""
        self.signal_handler_interrupt()  # type: ignore[no-untyped-call]

    def _stop_workers(self) -> None:
        self.staying.close()
        self.main_loop_interrupt.clear()
        self.main_loop_interrupt.wait(self.stop_delay)  # A second signal ends it.
        self.alive.close()
        super()._stop_workers()  # type: ignore[no-untyped-call]


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let processes started in the block never hear a Ctrl-C, from their first moment on."""
    resource_tracker.ensure_running()  # It would unblock the signal when it starts.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _load(
    settings: Settings,
    database_url: str,
    leaving: Connection,
    parting: Connection,
    metrics_folder: Path,
) -> Callable[..., Any]:
    """Return the application of a worker process."""
    # A session of its own: what the terminal sends is for the main process alone, which then stops
    # the workers. A worker that got both signals at once would hang.
    os.setsid()
    config.share_metrics(metrics_folder)
    # Only here: the main process does without Flask's 20 MB.
    from skipmq import wsgi  # noqa: PLC0415
    from skipmq.metrics import Metrics  # noqa: PLC0415

    logs.configure(settings)
    metrics = Metrics(metrics_folder)
    node = None
    while node is None:
        try:
            node = Node(settings, database_url, metrics)
        except errors.ServiceUnavailable:
            if leaving.poll(1):
                sys.exit(0)
    node.start()
    threading.Thread(target=_until_parting, args=(node, leaving, parting), daemon=True).start()
    return wsgi.create_app(node, metrics)


def _until_parting(node: Node, leaving: Connection, parting: Connection) -> None:
    """Wait until the parent closes its ends or dies; then send waiting receivers home and stop."""
    wait([leaving])
    node.leave()
    wait([parting])
    node.drain()
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(host: str, port: int, ready: Callable[[], None]) -> None:
    """Call `ready` when the port answers."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound.
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above.
    for _ in range(3000):
        try:
            with socket.create_connection((host, port), timeout=1) as connection:
                connection.sendall(
                    b"GET /health/live HTTP/1.1\r\nHost: skipmq\r\nConnection: close\r\n\r\n"
                )
                if connection.recv(64).startswith(b"HTTP/1.1 200"):
                    ready()
                    return
        except OSError:
            threading.Event().wait(0.01)


def declare_queues(settings: Settings, database_url: str) -> None:
    """Create the queues that the configuration file asks for.

    Raises ServeError when one cannot be, or is there already with other attributes.
    """
    if not settings.queues:
        return
    node = Node(settings, database_url)
    try:
        for queue in settings.queues:
            call = local_call(
                "CreateQueue", QueueName=queue.name, Attributes=dict(queue.attributes)
            )
            try:
                ACTIONS[call.action](node, call)
            except errors.SqsError as error:
                raise ServeError(f"the declared queue {queue.name}: {error.message}") from error
    finally:
        node.close()


def local_call(action: str, **parameters: Any) -> Call:
    """Return a call to an action from this process, as the default account."""
    request = Request("POST", "/", {}, "", b"", "http://localhost", "local")
    return Call(action, parameters, request, Identity())

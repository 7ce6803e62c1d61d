"""The stand-alone server: worker processes under Granian, and one janitor."""

import asyncio
import multiprocessing
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from skipmq import config, metrics_folder
from skipmq.config import Settings
from skipmq.database import Database
from skipmq.delivery import Upkeep
from skipmq.server import worker
from skipmq.server.janitor import Janitor

# Connections of a worker for each request at once: clients keep idle ones. Who comes when there are
# more waits until one closes.
CONNECTIONS = 2
# Files that a worker opens for other things.
OTHER_FILES = 256
_HEADERS_MILLISECONDS, _HEADERS_BYTES = 30_000, 65_536
_STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class ServeError(Exception):
    """The server cannot start; the message says what to do."""


@contextmanager
def address(settings: Settings) -> Iterator[str]:
    """Hold the address to listen on for as long as the block runs; give it in figures.

    Raises ServeError when it is taken, is not this machine's, or a master key is missing.
    """
    if settings.checks_signatures and not settings.master_key:
        raise ServeError(
            f"requests to {settings.host} must be signed, and that needs SKIPMQ_MASTER_KEY or"
            " SKIPMQ_MASTER_KEY_FILE (`openssl rand -base64 32` makes one; then `skipmq keys"
            " create`). Or listen on 127.0.0.1, or allow every caller with --insecure"
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
    _block_stop_signals()
    with metrics_folder.shared() as folder, _janitor(settings, database_url, folder):
        server = _server(settings, host)
        threading.Thread(target=_stop_on_signal, args=(server, settings), daemon=True).start()
        threading.Thread(target=_announce, args=(host, settings.port, ready), daemon=True).start()
        load = partial(worker.load, settings, database_url, folder)
        server.serve(target_loader=load, wrap_loader=False)  # type: ignore[arg-type]


def connections(wanted: int) -> int:
    """Return how many connections of clients a worker can hold, of those wanted."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - OTHER_FILES, 64))


def _server(settings: Settings, host: str) -> MPServer:
    return MPServer(
        "skipmq",
        address=host,
        port=settings.port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=_HEADERS_MILLISECONDS, max_buffer_size=_HEADERS_BYTES
        ),
        loop=Loops.uvloop,
        runtime_mode=RuntimeModes.st,
        websockets=False,
        workers=settings.worker_count,
        # Granian counts idle connections as well.
        backpressure=connections(settings.max_requests * CONNECTIONS),
        backlog=4096,
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=settings.stop_timeout,
        log_level=LogLevels.error,
    )


def _block_stop_signals() -> None:
    """Leave the signals that stop the node to the thread that waits for them.

    Workers inherit it, so that a Ctrl-C in the terminal, which goes to all processes, is for this
    one alone; it then stops them. They unblock SIGTERM.
    """
    resource_tracker.ensure_running()  # It would unblock them when it starts.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    for notice in (worker.LEAVE, worker.DRAIN):
        signal.signal(notice, signal.SIG_IGN)  # Inherited by workers that are not listening yet.


def _stop_on_signal(server: MPServer, settings: Settings) -> None:
    """Stop the workers on a signal, after the balancer's delay, which a second signal ends."""
    signal.sigwait(_STOP_SIGNALS)
    worker.notify(server.wrks, worker.LEAVE)
    delay = threading.Timer(settings.stop_delay, _stop, (server,))
    delay.daemon = True
    delay.start()
    signal.sigwait(_STOP_SIGNALS)
    delay.cancel()
    _stop(server)


def _stop(server: MPServer) -> None:
    worker.notify(server.wrks, worker.DRAIN)
    server.signal_handler_interrupt()  # type: ignore[no-untyped-call]


@contextmanager
def _janitor(settings: Settings, database_url: str, folder: Path) -> Iterator[None]:
    """Have a janitor at work in the block, with its share of the node's metrics."""
    config.share_metrics(folder)
    from skipmq.metrics import Metrics  # noqa: PLC0415 - The import needs to know the folder.

    observer = Metrics(folder, janitor=True)
    loop = asyncio.new_event_loop()

    async def look_after() -> None:
        database = Database(database_url, size=1, application_name="skipmq janitor")
        try:
            await Janitor(Upkeep(database), settings, observer).run()
        finally:
            database.close()

    task = loop.create_task(look_after())
    thread = threading.Thread(
        target=loop.run_until_complete, args=(asyncio.wait([task]),), name="janitor", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


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

"""The stand-alone server: worker processes under Granian, and one janitor."""

import asyncio
import multiprocessing
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import nan
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from granian.constants import HTTPModes, Interfaces, Loops, RuntimeModes, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer

from skipmq import metrics_folder
from skipmq.database import Database
from skipmq.delivery import Upkeep
from skipmq.metrics import Metrics, Publisher
from skipmq.server import request_trace, tls, worker
from skipmq.server.certificate import Certificate, CertificateError, StagedFiles, stage, watch
from skipmq.server.janitor import Janitor
from skipmq.settings import Settings

if TYPE_CHECKING:
    from skipmq.server.probes import Probes
    from skipmq.server.web import Mount

log = structlog.get_logger()

# Connections of a worker for each request at once: clients keep idle ones. Who comes when there are
# more waits until one closes.
CONNECTIONS = 2
# Files that a worker opens for other things.
OTHER_FILES = 256
_HEADERS_MILLISECONDS, _HEADERS_BYTES = 30_000, 65_536
_ASK_HEALTH = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
# What is known of a worker that does TLS.
_SHOOK_HANDS = b"TLS"
_STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class ServeError(Exception):
    """The server cannot start; the message says what to do."""


@contextmanager
def address(settings: Settings) -> Iterator[str]:
    """Hold the address to listen on for as long as the block runs; give it in figures.

    Raises ServeError when it is taken, is not this machine's, or a master key is missing, and
    config.ConfigError where traces cannot be exported.
    """
    if settings.checks_signatures and not settings.master_key:
        raise ServeError(
            f"requests to {settings.host} must be signed, and that needs SKIPMQ_MASTER_KEY or"
            " SKIPMQ_MASTER_KEY_FILE (`openssl rand -base64 32` makes one; then `skipmq keys"
            " create`). Or listen on 127.0.0.1, or allow every caller with --insecure"
        )
    request_trace.check(settings)
    if settings.metrics_port == settings.port:
        raise ServeError(
            f"port {settings.port} is that of SQS: choose another in SKIPMQ_METRICS_PORT, or 0 for"
            " metrics on the same"
        )
    with ExitStack() as held:
        host = _claim(held, settings.host, settings.port, "--port")
        if settings.metrics_port:
            _claim(held, settings.host, settings.metrics_port, "SKIPMQ_METRICS_PORT")
        yield host


def _claim(held: ExitStack, name: str, port: int, setting: str) -> str:
    """Hold a port of a host; return the host in figures."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        family, _, _, _, (host, *_) = found[0]
        if sys.platform == "linux":
            # Workers share the port with whoever asks for sharing, another node too: this name is
            # one node's alone, and is free again when its process is gone.
            claim = held.enter_context(socket.socket(socket.AF_UNIX))
            claim.bind(f"\0skipmq {host} {port}")
        with socket.socket(family) as probe:
            # Asking for the port alone shows whether another program has it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise ServeError(
            f"cannot listen on {name} port {port}: {error.strerror}."
            f" Stop the program that has it, or choose another with {setting}"
        ) from error
    return str(host)


def run(  # noqa: PLR0913 - What differs between two nodes.
    settings: Settings,
    host: str,
    database_url: str,
    certificate: Certificate | None,
    ready: Callable[[], None],
    *,
    mount: "Mount | None" = None,
) -> None:
    """Serve on `host` until SIGINT, SIGTERM or SIGHUP, then let requests end and return.

    The schema of the database has been checked. Calls `ready` once a worker answers. `mount` adds
    pages to those of the server.
    """
    # Workers are started afresh, not forked: this process has threads.
    multiprocessing.set_start_method("spawn", force=True)
    _block_stop_signals()
    with (
        metrics_folder.shared() as folder,
        _janitor(settings, database_url, folder) as (loop, metrics),
        ExitStack() as stack,
    ):
        server = _server(settings, host, stage(certificate, folder) if certificate else None)
        answers = threading.Event()
        leave: list[Callable[[], None]] = [partial(worker.notify, server.wrks, worker.LEAVE)]
        if settings.metrics_port:
            probes = _probes(settings, database_url, loop, server, answers)
            stack.enter_context(probes.served(host, folder))
            leave.append(probes.leave)
        _in_background(_stop_on_signal, server, settings, leave)
        _in_background(_announce, settings, host, answers.set, ready)
        metrics.show("certificate ends", certificate.ends.timestamp() if certificate else nan)
        if certificate:
            try:
                certificate.check_validity()
            except CertificateError as error:
                log.warning("check the certificate", error=str(error))
            renew = partial(_renew, server, folder, metrics)
            _in_background(watch, settings, certificate, renew)
        load = partial(worker.load, settings, database_url, folder, mount)
        server.serve(
            tls.serve if certificate else None,
            target_loader=load,  # type: ignore[arg-type]
            wrap_loader=False,
        )


def connections(wanted: int) -> int:
    """Return how many connections of clients a worker can hold, of those wanted."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else min(wanted, max(files - OTHER_FILES, 64))


def _server(settings: Settings, host: str, files: StagedFiles | None) -> MPServer:
    own, client_ca = files or (None, None)
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
        ssl_cert=own,
        ssl_key=own,
        ssl_protocol_min=SSLProtocols.tls12,
        ssl_ca=client_ca,
        ssl_client_verify=client_ca is not None,
        respawn_failed_workers=True,
        respawn_interval=0.1,
        workers_kill_timeout=settings.stop_timeout,
        log_level=LogLevels.error,
    )


def _probes(
    settings: Settings,
    database_url: str,
    loop: asyncio.AbstractEventLoop,
    server: MPServer,
    answers: threading.Event,
) -> "Probes":
    # Not before: a node whose probes have no port of their own does without Flask here.
    from skipmq.server.probes import Probes  # noqa: PLC0415

    def works() -> bool:
        return answers.is_set() and any(each.inner.is_alive() for each in [*server.wrks])

    return Probes(settings, database_url, loop, works)


def _renew(server: MPServer, folder: Path, metrics: Metrics, certificate: Certificate) -> None:
    """Let the workers serve with another certificate."""
    stage(certificate, folder)
    worker.notify(server.wrks, tls.RENEW)
    metrics.show("certificate ends", certificate.ends.timestamp())
    log.info("renewed the certificate", ends=f"{certificate.ends:%Y-%m-%d %H:%M} UTC")


def _in_background(target: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _block_stop_signals() -> None:
    """Leave the signals that stop the node to the thread that waits for them.

    Workers inherit it, so that a Ctrl-C in the terminal, which goes to all processes, is for this
    one alone; it then stops them. They unblock SIGTERM.
    """
    resource_tracker.ensure_running()  # It would unblock them when it starts.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    for notice in (worker.LEAVE, worker.DRAIN):
        signal.signal(notice, signal.SIG_IGN)  # Inherited by workers that are not listening yet.


def _stop_on_signal(
    server: MPServer, settings: Settings, leave: Iterable[Callable[[], None]]
) -> None:
    """Stop the workers on a signal, after the balancer's delay, which a second signal ends."""
    signal.sigwait(_STOP_SIGNALS)
    for each in leave:
        each()
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
def _janitor(
    settings: Settings, database_url: str, folder: Path
) -> Iterator[tuple[asyncio.AbstractEventLoop, Metrics]]:
    """Have a janitor at work in the block, with its share of the node's metrics; give its loop."""
    metrics = Metrics(janitor=True)
    loop = asyncio.new_event_loop()

    async def look_after() -> None:
        database = Database(database_url, size=1, application_name="skipmq janitor")
        try:
            janitor = Janitor(Upkeep(database), settings, metrics)
            await asyncio.gather(janitor.run(), Publisher(metrics, folder).run())
        finally:
            database.close()

    task = loop.create_task(look_after())
    thread = threading.Thread(
        target=loop.run_until_complete, args=(asyncio.wait([task]),), name="janitor", daemon=True
    )
    thread.start()
    try:
        yield loop, metrics
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


def _announce(
    settings: Settings, host: str, answers: Callable[[], None], ready: Callable[[], None]
) -> None:
    """Call `answers` when a worker answers on the port, `ready` when it also takes requests."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound.
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above.
    pause = threading.Event()
    while not (health := _health(settings, host)):
        pause.wait(0.01)
    answers()
    if not _is_ready(health):
        state = health.rpartition(b"\r\n")[2].decode()
        log.warning("the node waits until it can write to its database", health=state)
    while not _is_ready(health):
        pause.wait(0.1)
        health = _health(settings, host)
    ready()


def _is_ready(health: bytes) -> bool:
    return health == _SHOOK_HANDS or health.startswith(b"HTTP/1.1 200")


def _health(settings: Settings, host: str) -> bytes:
    """Return what a worker says of its health, nothing while none answers."""
    try:
        with socket.create_connection((host, settings.port), 1) as connection:
            if not settings.tls_certificate:
                return _asked(connection)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(connection) as wrapped:
                # One that wants a certificate of clients does not answer without.
                return _SHOOK_HANDS if settings.tls_client_ca else _asked(wrapped)
    except OSError:
        return b""


def _asked(connection: socket.socket) -> bytes:
    connection.sendall(
        b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    return b"".join(iter(lambda: connection.recv(4096), b""))

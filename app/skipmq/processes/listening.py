"""The addresses of a node: held, and asked whether a node answers there.

Light to import: a node finds out that a port is taken before it starts anything.
"""

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from skipmq.settings import Settings

_ASK_HEALTH = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class ServeError(Exception):
    """The server cannot start; the message says what to do."""


class PortError(ServeError):
    """A port cannot be listened on."""


@contextmanager
def address(settings: Settings) -> Iterator[tuple[str, int]]:
    """Hold the address to listen on for as long as the block runs; give it in figures.

    Port 0 becomes one that is free.

    Raises ServeError when it is taken, is not this machine's, or a master key is missing, and
    config.ConfigError where traces cannot be exported.
    """
    if settings.checks_signatures and not settings.master_key:
        raise ServeError(
            f"requests to {settings.host} must be signed, and that needs SKIPMQ_MASTER_KEY or"
            " SKIPMQ_MASTER_KEY_FILE (`openssl rand -base64 32` makes one; then `skipmq keys"
            " create`). Or listen on 127.0.0.1, or allow every caller with --insecure"
        )
    if settings.tracing != "off":
        from skipmq.server import request_trace  # noqa: PLC0415

        request_trace.check(settings)
    if settings.port and settings.metrics_port == settings.port:
        raise ServeError(
            f"port {settings.port} is that of SQS: choose another in SKIPMQ_METRICS_PORT, or 0 for"
            " metrics on the same"
        )
    with ExitStack() as held:
        found = _claim(held, settings.host, settings.port, "--port")
        if settings.metrics_port:
            _claim(held, settings.host, settings.metrics_port, "SKIPMQ_METRICS_PORT")
        yield found


def _claim(held: ExitStack, name: str, port: int, setting: str) -> tuple[str, int]:
    """Hold a port of a host; return the host in figures, and the port."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        family, _, _, _, (host, *_) = found[0]
        if not port:
            holder = held.enter_context(socket.socket(family))
            holder.bind((host, 0))
            # From now on a listener may have the port too, and the system gives it to no other.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = holder.getsockname()[1]
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
        raise PortError(
            f"cannot listen on {name} port {port}: {error.strerror}."
            f" Stop the program that has it, or choose another with {setting}"
        ) from error
    return str(host), port


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket on an address that has been claimed, shared with others where told."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((host, port))
    except OSError as error:  # It has been taken since.
        made.close()
        raise PortError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return made


def has_node(settings: Settings) -> bool:
    """Return whether a node answers where these settings let one listen.

    One that asks clients for certificates does not say so.
    """
    return b'"database":' in _health(settings, settings.host)


def _health(settings: Settings, host: str) -> bytes:
    """Return what a worker says of its health, nothing while none answers."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound.
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above.
    try:
        with socket.create_connection((host, settings.port), 1) as connection:
            if not settings.tls_certificate:
                return _asked(connection)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(connection) as wrapped:
                return _asked(wrapped)
    except OSError:
        return b""


def _asked(connection: socket.socket) -> bytes:
    connection.sendall(_ASK_HEALTH)
    return b"".join(iter(lambda: connection.recv(4096), b""))

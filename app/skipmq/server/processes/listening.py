"""The listening addresses of a node: reservation, sockets and health probe.

Cheap to import, because a node checks its ports before it starts anything else.
"""

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from skipmq.config.settings import Settings

_HEALTH_REQUEST = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class ServeError(Exception):
    """The server cannot start; the message contains the remedy."""


class PortError(ServeError):
    """The server cannot listen on a port."""


@contextmanager
def address(settings: Settings) -> Iterator[tuple[str, int]]:
    """Reserve the listening address during the block; yield the host as an IP and the port.

    Port 0 becomes one that is free. Raises ServeError if the address is in use or not local, or if
    a required master key is missing; config.ConfigError if traces cannot be exported.
    """
    if settings.checks_signatures and not settings.master_key:
        raise ServeError(
            f"requests to {settings.host} must be signed, which requires SKIPMQ_MASTER_KEY or"
            " SKIPMQ_MASTER_KEY_FILE: create one with `openssl rand -base64 32`, then run `skipmq"
            " keys create`. Or listen on 127.0.0.1, or allow every caller with --insecure"
        )
    if settings.tracing != "off":
        from skipmq.server import request_trace  # noqa: PLC0415

        request_trace.check(settings)
    if settings.port and settings.metrics_port == settings.port:
        raise ServeError(
            f"port {settings.port} is the port of SQS: choose another SKIPMQ_METRICS_PORT, or 0 to"
            " serve metrics on the same port"
        )
    with ExitStack() as held:
        found = _claim(held, settings.host, settings.port, "--port")
        if settings.metrics_port:
            _claim(held, settings.host, settings.metrics_port, "SKIPMQ_METRICS_PORT")
        yield found


def _claim(held: ExitStack, name: str, port: int, setting: str) -> tuple[str, int]:
    """Reserve a port of a host; return the host as an IP address, and the port."""
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
            # SO_REUSEPORT would also admit the workers of another node. An abstract socket name is
            # exclusive and released with the process.
            claim = held.enter_context(socket.socket(socket.AF_UNIX))
            claim.bind(f"\0skipmq {host} {port}")
        with socket.socket(family) as probe:
            # Without SO_REUSEPORT, bind fails if another program uses the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except PermissionError as error:
        raise PortError(
            f"cannot listen on {name} port {port}: {error.strerror}. This account may not listen on"
            f" ports as low: choose one from 1024 on with {setting}, or allow it, such as with"
            f" `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        ) from error
    except OSError as error:
        raise PortError(
            f"cannot listen on {name} port {port}: {error.strerror}."
            f" Stop the program that uses it, or choose another with {setting}"
        ) from error
    return str(host), port


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket bound to a reserved address; `shared` lets several sockets bind to it."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise PortError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return made


def has_node(settings: Settings) -> bool:
    """Return whether a node responds at the listening address of these settings.

    A node that requires client certificates is not detected.
    """
    return b'"database":' in _health(settings, settings.host)


def _health(settings: Settings, host: str) -> bytes:
    """Return a worker's response to a health check, empty if none responds."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound.
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above.
    try:
        with socket.create_connection((host, settings.port), 1) as connection:
            if not settings.tls_certificate:
                return _response(connection)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(connection) as wrapped:
                return _response(wrapped)
    except OSError:
        return b""


def _response(connection: socket.socket) -> bytes:
    connection.sendall(_HEALTH_REQUEST)
    return b"".join(iter(lambda: connection.recv(4096), b""))

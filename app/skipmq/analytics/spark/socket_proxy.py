"""A TCP proxy for JDBC, which does not support Unix sockets, to a server's Unix socket.

The server trusts every client, because only its own account can access the socket's folder. Every
account of the machine can access the port, so the proxy requires a password. If the server itself
listened on the loopback, every data folder would need a port, a password and a pg_hba.conf.

Source of the messages: PostgreSQL manual, 55.2.1 "Start-up" and 55.7 "Message Formats".
"""

import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Iterator
from struct import pack, unpack

_CHUNK = 1 << 16
# Timeout of the authentication, and limit of a message during it.
_LOGIN_SECONDS, _LOGIN_BYTES = 10.0, 10_000
_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102
_CLEARTEXT_PASSWORD = b"R" + pack(">ii", 8, 3)
_FIELDS = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
_AUTHENTICATION_FAILED = b"E" + pack(">i", 4 + len(_FIELDS)) + _FIELDS


@contextlib.contextmanager
def proxied(target: str, password: str = "") -> Iterator[tuple[int, str]]:
    """Forward connections to a loopback port to a Unix socket; yield the port and its password.

    The password is `password`, which the server may also require, or else a random one.
    """
    password = password or secrets.token_urlsafe()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, target, password), daemon=True).start()
        try:
            yield int(listening.getsockname()[1]), password
        finally:
            # Unblocks accept.
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, target: str, password: str) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(client, target, password), daemon=True).start()


def _serve(client: socket.socket, target: str, password: str) -> None:
    """Authenticate a client, then forward in both directions until both sides have closed."""
    with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError, EOFError):
        client.settimeout(_LOGIN_SECONDS)
        start = _authenticate(client, password)
        client.settimeout(None)
        if start is None:
            client.sendall(_AUTHENTICATION_FAILED)
            return
        server.connect(target)
        server.sendall(start)
        replies = threading.Thread(target=_forward, args=(server, client), daemon=True)
        replies.start()
        _forward(client, server)
        replies.join()


def _authenticate(client: socket.socket, password: str) -> bytes | None:
    """Return the client's startup message for the server, or None if the password is wrong.

    A CancelRequest needs no password, because it contains a secret key. Raises EOFError and
    OSError.
    """
    while True:
        start = _message(client)
        (code,) = unpack(">i", start[4:8])
        if code not in (_SSL_REQUEST, _GSS_REQUEST):
            break
        client.sendall(b"N")
    if code == _CANCEL_REQUEST:
        return start
    client.sendall(_CLEARTEXT_PASSWORD)
    kind, message = _exactly(client, 1), _message(client)
    is_valid = kind == b"p" and hmac.compare_digest(message[4:], password.encode() + b"\0")
    return start if is_valid else None


def _message(client: socket.socket) -> bytes:
    """Read a message, including its length field."""
    head = _exactly(client, 4)
    (length,) = unpack(">i", head)
    if not len(head) < length <= _LOGIN_BYTES:
        raise EOFError
    return head + _exactly(client, length - len(head))


def _exactly(client: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        data = client.recv(count - len(received))
        if not data:
            raise EOFError
        received += data
    return received


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

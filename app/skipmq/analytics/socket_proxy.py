"""A TCP port for JDBC, which knows no Unix sockets, to a server that listens on one.

The socket's folder keeps other accounts out, and the server trusts whoever gets in. The port is
open to all accounts of the machine, so the proxy asks for a password before it passes anything on.
A server that listened on the loopback itself would need a port, a password and a pg_hba.conf in
every data folder, and would be open for as long as it runs.

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
# Seconds in which a client has to log in, and bytes of its messages until then.
_LOGIN_SECONDS, _LOGIN_BYTES = 10.0, 10_000
_SSL_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102
_ASK_PASSWORD = b"R" + pack(">ii", 8, 3)
_FIELDS = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
_REFUSED = b"E" + pack(">i", 4 + len(_FIELDS)) + _FIELDS


@contextlib.contextmanager
def proxied(target: str, password: str = "") -> Iterator[tuple[int, str]]:
    """Pass connections to a port of the loopback on to a socket; give the port and its password.

    The password is `password`, which the server may ask for again, or one made for this port.
    """
    password = password or secrets.token_urlsafe()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, target, password), daemon=True).start()
        try:
            yield int(listening.getsockname()[1]), password
        finally:
            # Wakes the thread that accepts.
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
    """Log a client in, then pass on both ways until both sides have ended."""
    with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError, EOFError):
        client.settimeout(_LOGIN_SECONDS)
        start = _log_in(client, password)
        client.settimeout(None)
        if start is None:
            client.sendall(_REFUSED)
            return
        server.connect(target)
        server.sendall(start)
        back = threading.Thread(target=_pass, args=(server, client), daemon=True)
        back.start()
        _pass(client, server)
        back.join()


def _log_in(client: socket.socket, password: str) -> bytes | None:
    """Return the client's first message, for the server; None when the password is wrong.

    A request to cancel is a secret of the server's by itself. Raises EOFError and OSError.
    """
    while True:
        start = _message(client)
        (code,) = unpack(">i", start[4:8])
        if code not in (_SSL_REQUEST, _GSS_REQUEST):
            break
        client.sendall(b"N")
    if code == _CANCEL_REQUEST:
        return start
    client.sendall(_ASK_PASSWORD)
    kind, answer = _exactly(client, 1), _message(client)
    right = kind == b"p" and hmac.compare_digest(answer[4:], password.encode() + b"\0")
    return start if right else None


def _message(client: socket.socket) -> bytes:
    """Return a message with the length that it begins with."""
    head = _exactly(client, 4)
    (length,) = unpack(">i", head)
    if not len(head) < length <= _LOGIN_BYTES:
        raise EOFError
    return head + _exactly(client, length - len(head))


def _exactly(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        data = client.recv(count - len(found))
        if not data:
            raise EOFError
        found += data
    return found


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

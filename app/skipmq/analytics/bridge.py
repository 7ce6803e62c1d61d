"""A way for Java, which knows no Unix sockets here, to a server on one of this machine."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 16
# proc(5): columns of /proc/net/tcp.
_LOCAL, _REMOTE, _UID = 1, 2, 7


@contextlib.contextmanager
def bridged(target: str) -> Iterator[int]:
    """Pass on what comes to a port of the loopback, which is given, to a socket of that path.

    Only for this account: others of the machine, who cannot open the socket, are turned away.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_accept, args=(listening, target), daemon=True).start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            # Wakes the thread that accepts.
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, target: str) -> None:
    while True:
        try:
            client, address = listening.accept()
        except OSError:
            return
        ours = listening.getsockname()[1]
        threading.Thread(
            target=_serve, args=(client, address[1], ours, target), daemon=True
        ).start()


def _serve(client: socket.socket, theirs: int, ours: int, target: str) -> None:
    """Pass on both ways until both sides have said their last."""
    with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
        if not _is_ours(theirs, ours):
            return
        server.connect(target)
        back = threading.Thread(target=_pass, args=(server, client), daemon=True)
        back.start()
        _pass(client, server)
        back.join()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _is_ours(theirs: int, ours: int) -> bool:
    """Tell whether the peer's end of a connection on the loopback belongs to this account."""
    wanted = f":{theirs:04X}", f":{ours:04X}"
    # A JVM opens sockets of IPv6 that speak to IPv4.
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[_LOCAL].endswith(wanted[0]) and fields[_REMOTE].endswith(wanted[1]):
                    return int(fields[_UID]) == os.getuid()
    return False

"""Receivers that hang up, on raw sockets."""

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from support.http import ACCOUNT

Leave = Callable[[socket.socket], None]
_PATIENCE = 20


def close(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def half_close(connection: socket.socket) -> None:
    """Close one side, and wait until the server has closed the other."""
    connection.shutdown(socket.SHUT_WR)
    connection.recv(65536)
    connection.close()


WAYS: tuple[Leave, ...] = (close, reset, half_close)


def asked(port: int, queue: str, wait: int) -> socket.socket:
    """Send a ReceiveMessage; return its connection."""
    question = {"QueueUrl": f"/{ACCOUNT}/{queue}", "WaitTimeSeconds": wait}
    body = json.dumps(question).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
    head = [
        "POST / HTTP/1.1", "Host: localhost", "Content-Type: application/x-amz-json-1.0",
        "X-Amz-Target: AmazonSQS.ReceiveMessage", f"Content-Length: {len(body)}", "", "",
    ]  # fmt: skip
    connection.sendall("\r\n".join(head).encode() + body)
    return connection


def connections_held(workers: list[psutil.Process], clients: list[socket.socket]) -> int:
    """Return how many of the connections of clients the workers of a node still have."""
    return len(files_held(workers, clients))


def files_held(workers: list[psutil.Process], clients: list[socket.socket]) -> dict[Path, Path]:
    """Return the files that the workers have of the connections of clients, and what they are.

    To wait for the end of those is cheap: to list connections reads all those of the machine.
    """
    ports = {each.getsockname()[1] for each in clients}
    held = [(worker, each) for worker in workers for each in worker.net_connections("tcp")]
    files = [
        Path(f"/proc/{worker.pid}/fd/{each.fd}")
        for worker, each in held
        if each.raddr and each.raddr.port in ports
    ]
    return {file: file.readlink() for file in files}


def is_held(files: Mapping[Path, Path]) -> bool:
    """Return whether any of these files is open still."""
    return any(os.path.lexists(file) and file.readlink() == held for file, held in files.items())

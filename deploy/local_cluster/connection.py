"""Connections to parts of the cluster over HTTP, and over TLS where they have it."""

import ssl
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path


def connection(host: str, port: int, ca: Path | None, timeout: float) -> HTTPConnection:
    """Return a connection with a timeout in seconds; `ca` verifies the server, None: no TLS."""
    if ca is None:
        return HTTPConnection(host, port, timeout=timeout)
    context = ssl.create_default_context(cafile=ca)
    return HTTPSConnection(host, port, timeout=timeout, context=context)

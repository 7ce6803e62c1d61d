"""Health and metrics on a port of their own, in plain HTTP, served by the main process.

Prometheus and probes need no certificate there, sign nothing, and reach nothing else.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client.exposition import ThreadingWSGIServer

from skipmq import errors
from skipmq.exposition import Exposition
from skipmq.node import Node
from skipmq.server import web
from skipmq.server.answer import Broker
from skipmq.settings import Settings


class _Handler(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


class _ServerOnIPv6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class Probes:
    """The probes of a node, on the event loop of its main process.

    `works` tells whether a worker answers.
    """

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        loop: asyncio.AbstractEventLoop,
        works: Callable[[], bool],
    ) -> None:
        self._port = settings.metrics_port
        self._loop, self._works = loop, works
        self._broker = asyncio.run_coroutine_threadsafe(
            _broker(replace(settings, connections=1, auth="off"), database_url), loop
        ).result()

    @contextmanager
    def served(self, host: str, folder: Path) -> Iterator[None]:
        """Serve health and metrics on an address in the block; raise OSError when it is taken."""
        kind = _ServerOnIPv6 if ":" in host else ThreadingWSGIServer
        app = web.probes(self._broker, self._health, self._loop, Exposition(folder))
        try:
            with make_server(host, self._port, app, kind, _Handler) as server:
                threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
                yield
                server.shutdown()
        finally:
            closing = self._broker.node.close()
            asyncio.run_coroutine_threadsafe(closing, self._loop).result()

    def leave(self) -> None:
        """Show the node as one that stops."""
        self._broker.node.leave()

    async def _health(self) -> tuple[int, dict[str, str]]:
        if not self._works():
            return 503, {"status": "no worker answers"}
        node = self._broker.node
        if not node.is_open:  # What is asked here asks the database itself.
            with suppress(errors.ServiceUnavailable):
                await node.open()
        return await self._broker.health()


async def _broker(settings: Settings, database_url: str) -> Broker:
    return Broker(Node(settings, database_url))

"""A listening socket of a node, and the connections that it has accepted, up to a limit.

They are counted from the moment at which they are accepted, thus before a TLS handshake. Beyond the
limit there are SPARE places for /health/live, of which the newest connections take those of the
oldest: neither idle clients nor many new ones make a node that is alive look dead.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial

from skipmq.server.http.connection import ClientConnection, ConnectionOwner
from skipmq.server.http.head import Head
from skipmq.server.http.reader import Route
from skipmq.telemetry.logs import log

BACKLOG = 4096
# The places beyond a port's limit, and the seconds for a TLS handshake.
SPARE, HANDSHAKE_SECONDS = 32, 10
# Seconds without accepting after a connection for which there was no descriptor.
_PAUSE = 0.1


class PortListener:
    """A listening socket, which stays the caller's; for one loop."""

    def __init__(
        self,
        door: ConnectionOwner,
        listening: socket.socket,
        limit: int,
        route: Callable[[ClientConnection, Head], Route],
        spare_route: Callable[[ClientConnection, Head], Route],
    ) -> None:
        """Create a listener with a limit of connections.

        `route` finds the route of a request, `spare_route` that of one on a spare place.
        """
        self.connections: set[ClientConnection] = set()
        self._door, self._listening, self._limit = door, listening, limit
        self._socket = listening.dup()
        self._routes = spare_route, route
        self._context: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._handshakes: dict[ClientConnection, asyncio.Task[None]] = {}
        # Connections beyond the limit, in the order in which they were accepted.
        self._spare: dict[ClientConnection, None] = {}

    @property
    def count(self) -> int:
        """Return the number of connections, including those whose handshake is not complete."""
        return len(self.connections) + len(self._handshakes)

    async def open(self, context: ssl.SSLContext | None) -> None:
        """Accept connections, over TLS with a context."""
        if context is None:
            self._server = await self._door.loop.create_server(
                partial(ClientConnection, self._door, self), sock=self._socket, backlog=BACKLOG
            )
            return
        self._socket.settimeout(0)
        self._socket.listen(BACKLOG)
        self.renew(context)
        self._door.loop.add_reader(self._socket, self._accept)

    def renew(self, context: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; open ones stay."""
        self._context = context

    def drain(self) -> None:
        """Stop listening, and end each connection once its complete requests are answered."""
        if self._server is None:
            self._door.loop.remove_reader(self._socket)
            self._socket.close()
        else:
            self._server.close()
        for task in self._handshakes.values():
            task.cancel()
        for connection in [*self.connections]:
            connection.drain()

    # Called by connections.

    def add(self, connection: ClientConnection) -> Callable[[ClientConnection, Head], Route]:
        """Add an established connection; return the function that finds its routes."""
        if self._handshakes.pop(connection, None) is None:
            self._take_place(connection)
        self.connections.add(connection)
        return self._routes[connection not in self._spare]

    def is_spare(self, connection: ClientConnection) -> bool:
        """Return whether a connection is beyond the limit."""
        return connection in self._spare

    def remove(self, connection: ClientConnection) -> None:
        """Remove a connection."""
        self.connections.discard(connection)
        self._spare.pop(connection, None)
        self._handshakes.pop(connection, None)

    def _take_place(self, connection: ClientConnection) -> None:
        """Take a place: beyond the limit a spare one, if need be that of the oldest connection."""
        if self.count < self._limit:
            return
        if self.count >= self._limit + SPARE:
            oldest = next(iter(self._spare))
            handshake = self._handshakes.get(oldest)
            self.remove(oldest)
            if handshake is None:
                oldest.abort()
            else:
                handshake.cancel()
        self._spare[connection] = None

    def _accept(self) -> None:
        """Accept a connection, and begin its handshake."""
        loop = self._door.loop
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            log.warning("cannot accept a connection", error=str(error))
            loop.remove_reader(self._socket)
            loop.call_later(_PAUSE, self._accept_again)
            return
        connection = ClientConnection(self._door, self)
        self._take_place(connection)
        self._handshakes[connection] = task = loop.create_task(self._shake(client, connection))
        task.add_done_callback(partial(self._end_handshake, client, connection))

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._door.loop.add_reader(self._socket, self._accept)

    async def _shake(self, client: socket.socket, connection: ClientConnection) -> None:
        client.settimeout(0)
        await self._door.loop.connect_accepted_socket(
            lambda: connection,
            client,
            ssl=self._context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )

    def _end_handshake(
        self, client: socket.socket, connection: ClientConnection, task: asyncio.Task[None]
    ) -> None:
        """Forget a connection whose handshake has failed."""
        if not task.cancelled() and (error := task.exception()) is None:
            return
        self.remove(connection)
        client.close()
        if not task.cancelled() and not isinstance(error, OSError):
            log.error("a handshake failed", error=str(error))

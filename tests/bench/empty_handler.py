"""A server that reads a request of HTTP and answers a constant: what the door's parts alone cost.

The parser, the loop and the transport are those of a node (server/http/parser.py,
server/http/connection.py)."""

import asyncio
import sys

import uvloop
from httptools import HttpRequestParser

_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: 2\r\n\r\n{}"
)


class Connection(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._parser = HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(_ANSWER)


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

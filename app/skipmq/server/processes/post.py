"""Post to an address that a client has named, which may be an attacker's.

The address that was checked is the one connected to. Redirects are not followed, and no more of a
response is read than its head.
"""

import asyncio
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from urllib.parse import unquote, urlsplit

from skipmq.protocol.addresses import Address, Network, address, network

TIMEOUT = 15.0
_HEAD_BYTES = 65_536
_UNAUTHORIZED, _OK = 401, 200
# They have an address of IPv4 within (NAT64, 6to4, Teredo), or are those of a site.
_NOT_PUBLIC = tuple(
    network(each) for each in ("64:ff9b::/32", "2002::/16", "2001::/32", "fec0::/10")
)


class RefusedAddressError(Exception):
    """The address of an endpoint is not public, nor in the allowed networks."""


def is_allowed(found: Address, allowed: Sequence[Network]) -> bool:
    """Return whether an address is public or in a network of `allowed`."""
    if any(each.version == found.version and found in each for each in allowed):
        return True
    is_else = any(each.version == found.version and found in each for each in _NOT_PUBLIC)
    return found.is_global and not found.is_multicast and not is_else


class Resolver:
    """Looks hosts up, each in a thread of its own, so that none waits for another; for one loop."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """Return the addresses of a host; raise OSError. Concurrent callers share a look-up."""
        if (found := self._under_way.get(host)) is None:
            loop = asyncio.get_running_loop()
            found = loop.create_future()
            # Not noted where no thread can be started: nothing would end it.
            threading.Thread(target=_look_up, args=(host, loop, found), daemon=True).start()
            found.add_done_callback(lambda done: self._ended(host, done))
            self._under_way[host] = found
        return await asyncio.shield(found)

    def _ended(self, host: str, done: "asyncio.Future[list[str]]") -> None:
        del self._under_way[host]
        # Retrieve the exception, which asyncio logs otherwise if all callers have timed out.
        done.exception()


def _look_up(
    host: str, loop: asyncio.AbstractEventLoop, found: "asyncio.Future[list[str]]"
) -> None:
    end: Callable[[], None]
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        end = partial(found.set_result, [str(place[4][0]) for place in places])
    except (OSError, UnicodeError) as error:
        end = partial(found.set_exception, OSError(str(error)))
    with suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(end)


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


async def post(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    allowed: Sequence[Network] | None,
    resolver: Resolver,
) -> int:
    """Post a body; return the status of the response.

    `allowed` has networks that are allowed as public addresses are; None allows all. A URL's user
    and password are sent after a 401. Raises RefusedAddressError, TimeoutError, OSError, and
    ValueError for a URL or a response that is none.
    """
    async with asyncio.timeout(TIMEOUT):
        parts = urlsplit(url)
        if not (host := parts.hostname):
            raise ValueError
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = await resolver.addresses(host)
        if allowed is not None:
            found = [each for each in found if is_allowed(address(each), allowed)]
        if not found:
            raise RefusedAddressError
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        shown = f"[{host}]" if ":" in host else host.encode("idna").decode()
        fields = {"Host": f"{shown}:{port}" if parts.port else shown, **headers}
        fields |= {"Content-Length": str(len(body)), "Connection": "close"}
        context = _context() if parts.scheme == "https" else None
        status = await _send(found[0], port, context, host, path, fields, body)
        if status == _UNAUTHORIZED and parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            fields["Authorization"] = f"Basic {b64encode(user).decode()}"
            status = await _send(found[0], port, context, host, path, fields, body)
        return status


async def _send(  # noqa: PLR0913, PLR0917 - a request.
    ip: str,
    port: int,
    context: ssl.SSLContext | None,
    host: str,
    path: str,
    fields: Mapping[str, str],
    body: bytes,
) -> int:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    request = f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body
    reader, writer = await asyncio.open_connection(
        ip, port, ssl=context, server_hostname=host if context else None, limit=_HEAD_BYTES
    )
    try:
        writer.write(request)
        while (status := await _status(reader)) < _OK:
            pass
        return status
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _status(reader: asyncio.StreamReader) -> int:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ValueError from error
    version, status = head.split(maxsplit=2)[:2]
    if not version.startswith(b"HTTP/1."):
        raise ValueError
    return int(status)

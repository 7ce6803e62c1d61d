"""The origin of a request that proxies forward: client address, scheme and host.

Source: MDN, "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host". Any client can send these
headers; only values that trusted proxies have added are used.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from skipmq.protocol import addresses


class Forwarded(msgspec.Struct, frozen=True, gc=False):
    """The client's address, and the scheme and host that it used."""

    client: str
    scheme: str
    host: str | None


class ForwardingHeaders(Protocol):
    """The headers of a request, by name in lower case."""

    def get(self, name: str, /) -> str | None:
        """Return the first value of a header, or None."""

    def joined(self, name: str, /) -> str:
        """Return the values of a header, of all its lines, separated by commas.

        A proxy may add a line to the client's.
        """


# ForwardingHeaders.joined of a request.
HeaderValues = Callable[[str], str]


class Proxies:
    """The trusted proxies of a node, by their addresses."""

    def __init__(self, networks: Sequence[addresses.Network]) -> None:
        self.are_any = bool(networks)

        @lru_cache(maxsize=4096)
        def is_trusted(address: str) -> bool:
            try:
                parsed = addresses.address(address)
            except ValueError:
                return False
            return any(parsed in network for network in networks)

        self._is_trusted = is_trusted

    def forwarded(
        self, peer: str, scheme: str, host: str | None, values: HeaderValues
    ) -> Forwarded:
        """Return who sent a request that `peer` has sent or forwarded, by the headers' values."""
        peer = address(peer)
        if not self._is_trusted(peer):
            return Forwarded(peer, scheme, host)
        found = peer
        for each in reversed(values("x-forwarded-for").split(",")):
            before = _address(each.strip())
            # Stop at a text that is no address: what precedes it may be forged.
            if before is None or not self._is_trusted(found):
                break
            found = before
        proto = _last(values("x-forwarded-proto")).lower()
        return Forwarded(
            found,
            proto if proto in ("http", "https") else scheme,
            _last(values("x-forwarded-host")) or host,
        )


@lru_cache(maxsize=4096)
def address(peer: str) -> str:
    """Return the address of a peer; a WSGI server may have a name or nothing in its place."""
    return _address(peer) or peer


def _last(values: str) -> str:
    return values.rpartition(",")[2].strip()


def _address(text: str) -> str | None:
    """Return an address without the port that some proxies add."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(addresses.address(text))
    except ValueError:
        return None

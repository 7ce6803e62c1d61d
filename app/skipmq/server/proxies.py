"""The origin of a request that proxies forward: client address, scheme and host.

Source: MDN, "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host". Any client can send these
headers; only values that trusted proxies have added are used.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from skipmq import addresses


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The client's address, and the scheme and host that it used."""

    client: str
    scheme: str
    host: str | None


# Returns the values of a header, of all its lines, separated by commas: a proxy may add a line to
# the client's.
HeaderValues = Callable[[str], str]


class Proxies:
    """The trusted proxies of a node, by their addresses."""

    def __init__(self, networks: Sequence[addresses.Network]) -> None:
        self._is_any = bool(networks)

        @lru_cache(maxsize=4096)
        def is_trusted(address: str) -> bool:
            try:
                parsed = addresses.address(address)
            except ValueError:
                return False
            return any(parsed in network for network in networks)

        self._is_trusted = is_trusted
        # A WSGI server may have a name or nothing in its place.
        self._peer = lru_cache(maxsize=4096)(lambda peer: _address(peer) or peer)

    def origin(self, peer: str, scheme: str, host: str | None, values: HeaderValues) -> Origin:
        """Return the origin of a request that `peer` has sent, by the values of its headers."""
        peer = self._peer(peer)
        if not self._is_any or not self._is_trusted(peer):
            return Origin(peer, scheme, host)
        client = peer
        for each in reversed(values("x-forwarded-for").split(",")):
            address = _address(each.strip())
            # Stop at a text that is no address: what precedes it may be forged.
            if address is None or not self._is_trusted(client):
                break
            client = address
        proto = _last(values("x-forwarded-proto")).lower()
        return Origin(
            client,
            proto if proto in ("http", "https") else scheme,
            _last(values("x-forwarded-host")) or host,
        )


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

"""What proxies say of a request that they pass on: from whom, how and under which name it came.

Source: MDN, "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host". Anybody can send these
headers; only configured addresses are believed, and of a list only what a believed one has added.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address

import msgspec

from skipmq.settings import Network


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Whence a request came: the client's address, the scheme and the host that it used."""

    client: str
    scheme: str
    host: str | None


_ADDRESS_LONGEST = 64
# Gives the values of a header, those of all its lines with commas between: a proxy may add a line
# to the client's own.
Sent = Callable[[str], str]


class Proxies:
    """The proxies that a node believes, by their addresses."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._is_any = bool(networks)

        @lru_cache(maxsize=4096)
        def is_believed(address: str) -> bool:
            try:
                parsed = ip_address(address)
            except ValueError:
                return False
            return any(parsed in network for network in networks)

        self._is_believed = is_believed

    def origin(self, peer: str, scheme: str, host: str | None, sent: Sent) -> Origin:
        """Return whence a request came that `peer` has sent, with its headers."""
        # So a socket of IPv6 shows addresses of IPv4.
        peer = peer.removeprefix("::ffff:")
        if not self._is_any or not self._is_believed(peer):
            return Origin(peer, scheme, host)
        client = peer
        for each in reversed(sent("x-forwarded-for").split(",")):
            address = _address(each.strip())
            # Who sent what is no address is not known, nor then who wrote what stands before it.
            if address is None or not self._is_believed(client):
                break
            client = address
        proto = _last(sent("x-forwarded-proto")).lower()
        return Origin(
            client,
            proto if proto in ("http", "https") else scheme,
            _last(sent("x-forwarded-host")) or host,
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
        return str(ip_address(text)) if len(text) <= _ADDRESS_LONGEST else None
    except ValueError:
        return None

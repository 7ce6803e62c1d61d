"""IP addresses in one form: a socket of IPv6 shows those of IPv4 as `::ffff:a.b.c.d`."""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_MAPPED_BITS = 96
# As long as any, with a zone.
_LONGEST = 64


def address(text: str) -> Address:
    """Return an address, that of IPv4 which is mapped into IPv6, or without the zone of its link.

    Raises ValueError for a text that is none.
    """
    if len(text) > _LONGEST:
        raise ValueError
    parsed = ip_address(text)
    if isinstance(parsed, IPv6Address):
        return parsed.ipv4_mapped or IPv6Address(int(parsed))
    return parsed


def network(text: str, *, strict: bool = True) -> Network:
    """Return a network, as `address`; raise ValueError for a text that is none.

    An address with bits beyond the network is none if `strict`.
    """
    parsed = ip_network(text, strict=strict)
    if isinstance(parsed, IPv6Network) and parsed.prefixlen >= _MAPPED_BITS:
        mapped = parsed.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, parsed.prefixlen - _MAPPED_BITS))
    return parsed

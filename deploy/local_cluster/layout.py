"""The names and addresses of a cluster's parts."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from local_cluster.errors import ClusterError

LOOPBACK = "127.0.0.1"
# The number of servers that haproxy/*.cfg support.
MOST = 5
# The scopes of patroni/*.yml; partitions have numbers of their own.
FIRST_SCOPE, SECOND_SCOPE = "skipmq", "skipmq-second"
# Members of etcd that partitions share.
_SHARED_ETCD = 3


@dataclass(frozen=True, slots=True)
class Server:
    """A machine with PostgreSQL under Patroni, and optionally etcd."""

    number: int
    name: str
    host: str
    postgres_port: int
    rest_port: int
    etcd: str = ""
    etcd_port: int = 0
    etcd_peer_port: int = 0
    site: Literal["first", "second"] = "first"
    scope: str = FIRST_SCOPE
    is_reader: bool = False
    ca: Path | None = None

    @property
    def postgres(self) -> str:
        """Return PostgreSQL's address."""
        return f"{self.host}:{self.postgres_port}"

    @property
    def rest(self) -> str:
        """Return the URL of Patroni's REST API."""
        return f"{_scheme(self.ca)}://{self.host}:{self.rest_port}"

    @property
    def etcd_url(self) -> str:
        """Return etcd's URL for clients."""
        return f"{_scheme(self.ca)}://{self.host}:{self.etcd_port}"

    @property
    def peer_url(self) -> str:
        """Return etcd's URL for its other members."""
        return f"{_scheme(self.ca)}://{self.host}:{self.etcd_peer_port}"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of SkipMQ."""

    name: str
    port: int
    ca: Path | None = None

    @property
    def url(self) -> str:
        """Return the node's own URL."""
        return f"{_scheme(self.ca)}://{LOOPBACK}:{self.port}"


@dataclass(frozen=True, slots=True)
class Router:
    """A PostgreSQL with PL/Proxy next to a node, which routes to the partitions."""

    name: str
    port: int

    @property
    def postgres(self) -> str:
        """Return its address."""
        return f"{LOOPBACK}:{self.port}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Every part with its address; `ca` signs their certificates, None without TLS.

    `etcds` are the servers with a member of etcd. There are routers only where there are several
    partitions: each is a cluster of Patroni with a scope of its own.
    """

    servers: tuple[Server, ...]
    etcds: tuple[Server, ...]
    nodes: tuple[Node, ...]
    routers: tuple[Router, ...]
    endpoint_port: int
    primary_port: int
    replica_port: int
    ca: Path | None = None

    @property
    def endpoint(self) -> str:
        """Return the URL of the balancer in front of the nodes."""
        return f"{_scheme(self.ca)}://{LOOPBACK}:{self.endpoint_port}"

    def site(self, name: str) -> tuple[Server, ...]:
        """Return the servers of a site."""
        return tuple(server for server in self.servers if server.site == name)

    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of Patroni: of the partitions in order, of the second site last."""
        return tuple(dict.fromkeys(server.scope for server in self.servers))

    def scope(self, name: str) -> tuple[Server, ...]:
        """Return the servers of a scope."""
        return tuple(server for server in self.servers if server.scope == name)

    def partition(self, number: int) -> "Layout":
        """Return the same with the servers of one partition, and without routers."""
        return replace(self, servers=self.scope(self.scopes()[number]), routers=())

    def etcd(self, site: str) -> tuple[Server, ...]:
        """Return the servers with the members of a site's etcd."""
        return tuple(server for server in self.etcds if server.site == site)

    def voters(self, site: str = "first") -> tuple[Server, ...]:
        """Return the servers of a site that can become its primary."""
        return tuple(server for server in self.site(site) if not server.is_reader)

    def writable(self) -> str:
        """Return the servers that are or can become the primary, those of the second site last."""
        servers = [*self.voters("first"), *self.voters("second")]
        return ",".join(server.postgres for server in servers)

    def routing(self) -> str:
        """Return the routers, each as good as the others."""
        return ",".join(router.postgres for router in self.routers)

    def readable(self) -> str:
        """Return the servers for analytics in the order in which they are tried."""
        first = self.site("first")
        servers = [*(s for s in first if s.is_reader), *(s for s in first if not s.is_reader)]
        return ",".join(server.postgres for server in servers)

    def machines(self) -> dict[str, list[str]]:
        """Return the names and addresses of each machine."""
        hosts = {"haproxy": LOOPBACK} | {node.name: LOOPBACK for node in self.nodes}
        hosts |= {router.name: LOOPBACK for router in self.routers}
        hosts |= {server.name: server.host for server in self.servers}
        return {
            name: [*dict.fromkeys((name, "localhost", LOOPBACK, host))]
            for name, host in hosts.items()
        }

    def ports(self) -> dict[tuple[str, int], str]:
        """Return every address to listen on, with its owner."""
        ports = {(LOOPBACK, self.endpoint_port): "HAProxy in front of the nodes"}
        if not self.routers:
            ports[LOOPBACK, self.primary_port] = "HAProxy in front of the primary"
            ports[LOOPBACK, self.replica_port] = "HAProxy in front of the standbys"
        ports |= {(LOOPBACK, node.port): node.name for node in self.nodes}
        ports |= {(LOOPBACK, router.port): router.name for router in self.routers}
        for server in self.servers:
            ports[server.host, server.postgres_port] = server.name
            ports[server.host, server.rest_port] = f"Patroni of {server.name}"
            if server.etcd:
                ports[server.host, server.etcd_port] = server.etcd
                ports[server.host, server.etcd_peer_port] = f"{server.etcd} among its peers"
        return ports


def plan(
    *,
    partitions: int = 1,
    servers: int,
    nodes: int,
    fixed_ports: bool,
    subnet: str,
    reader: bool,
    second_site: bool,
    ca: Path | None = None,
) -> Layout:
    """Return a layout; with several partitions each has `servers`, and each node a router.

    With a subnet (`198.18.0.`) each server has its own address there.
    """
    count = partitions * servers + reader + second_site
    with ExitStack() as held:
        free = _free_ports(held)

        def pick(fixed: int) -> int:
            return fixed if fixed_ports else next(free)

        made = []
        for number in range(1, count + 1):
            is_reader = reader and number == servers + 1
            is_second = second_site and number == count
            name = "reader" if is_reader else "site2" if is_second else f"postgres{number}"
            scope = SECOND_SCOPE if is_second else FIRST_SCOPE
            has_etcd = not is_reader
            if partitions > 1:
                partition, place = divmod(number - 1, servers)
                name, scope = f"partition{partition}-{place + 1}", f"{FIRST_SCOPE}-{partition}"
                has_etcd = number <= _SHARED_ETCD
            etcd = "site2-etcd" if is_second else f"etcd{number}"
            made.append(
                Server(
                    number=number,
                    name=name,
                    host=f"{subnet}{number}" if subnet else LOOPBACK,
                    postgres_port=5432 if subnet else pick(54320 + number),
                    rest_port=8008 if subnet else pick(8010 + number),
                    etcd=etcd if has_etcd else "",
                    etcd_port=2379 if subnet else pick(23790 + number),
                    etcd_peer_port=2380 if subnet else pick(23890 + number),
                    site="second" if is_second else "first",
                    scope=scope,
                    is_reader=is_reader,
                    ca=ca,
                )
            )
        return Layout(
            servers=tuple(made),
            etcds=tuple(server for server in made if server.etcd),
            nodes=tuple(Node(f"node{n}", pick(9330 + n), ca) for n in range(1, nodes + 1)),
            routers=tuple(
                Router(f"router{n}", pick(54400 + n))
                for n in range(1, nodes + 1 if partitions > 1 else 1)
            ),
            endpoint_port=pick(9324),
            primary_port=pick(9325),
            replica_port=pick(9326),
            ca=ca,
        )


def _scheme(ca: Path | None) -> str:
    return "https" if ca else "http"


def check_free(layout: Layout) -> None:
    """Raise ClusterError with the first address that another program uses."""
    for (host, port), owner in layout.ports().items():
        if host != LOOPBACK:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise ClusterError(
                    f"port {port}, which is for {owner}, is taken: stop the program that has it,"
                    " perhaps another `make cluster`"
                ) from error


def _free_ports(held: ExitStack) -> Iterator[int]:
    """Yield free ports, all different, since each is held meanwhile.

    They are below the range of outgoing connections, one of which could otherwise take the port of
    a part that is down.
    """
    first = 10_000 + secrets.randbelow(15_000)
    for port in range(first, first + 7_000):
        probe = held.enter_context(socket.socket())
        with suppress(OSError):
            probe.bind((LOOPBACK, port))
            yield port

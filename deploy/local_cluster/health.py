"""The cluster's health, and the reason when it is not healthy."""

import socket
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from local_cluster import patroni
from local_cluster.connection import connection
from local_cluster.layout import LOOPBACK, SECOND_SCOPE, Layout, Router
from local_cluster.recipes import Replication


def missing(layout: Layout, replication: Replication) -> str:
    """Return why the cluster is not healthy, an empty text if it is."""
    for scope in layout.scopes():
        if reason := servers_missing(layout, scope, replication):
            return reason
    late = [router.name for router in layout.routers if not _listens(router)]
    late += [name for name, is_ready in ready(layout).items() if not is_ready]
    return f"{', '.join(late)} not ready" if late else ""


def servers_missing(layout: Layout, scope: str, replication: Replication) -> str:
    """Return why the servers of a scope are not healthy, an empty text if they are."""
    found = patroni.members(layout.scope(scope))
    if silent := [m.name for m in found if m.state not in {"running", "streaming"}]:
        return f"{', '.join(silent)} not running"
    leaders = [m for m in found if m.role in {"primary", "standby_leader"}]
    if len(leaders) != 1:
        return f"{len(leaders)} primaries in {scope}"
    leader = leaders[0]
    followers = [m for m in found if m is not leader or scope == SECOND_SCOPE]
    late = [m.name for m in followers if not m.is_streaming or m.timeline != leader.timeline]
    if late:
        return f"{', '.join(late)} not streaming"
    if scope != SECOND_SCOPE and replication == "quorum":
        voters = {server.name for server in layout.voters()}
        if silent := [m.name for m in followers if m.name in voters and not m.sync]:
            return f"{', '.join(silent)} not in the quorum"
    return ""


def ready(layout: Layout) -> dict[str, bool]:
    """Return whether each node, and the balancer in front of them, is ready."""
    ports = {node.name: node.port for node in layout.nodes} | {"haproxy": layout.endpoint_port}
    return {name: _is_ready(port, layout.ca) for name, port in ports.items()}


def _listens(router: Router) -> bool:
    try:
        socket.create_connection((LOOPBACK, router.port), timeout=2).close()
    except OSError:
        return False
    return True


def _is_ready(port: int, ca: Path | None) -> bool:
    asked = connection(LOOPBACK, port, ca, timeout=2)
    try:
        asked.request("GET", "/health/ready")
        return asked.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()

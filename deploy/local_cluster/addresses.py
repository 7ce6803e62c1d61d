"""Where each part is, for programs: what addresses.json has."""

from collections.abc import Callable, Mapping
from typing import Any

from local_cluster.layout import LOOPBACK, Layout, Server


def parts(
    layout: Layout, pids: Mapping[str, int | None], postmaster: Callable[[Server], int | None]
) -> dict[str, Any]:
    """Return the address and the current process of each part."""
    haproxy = {"pid": pids["haproxy"], "nodes": layout.endpoint}
    if not layout.routers:
        haproxy["primary"] = f"{LOOPBACK}:{layout.primary_port}"
        haproxy["replica"] = f"{LOOPBACK}:{layout.replica_port}"
    return {
        "endpoint": layout.endpoint,
        "nodes": [{"name": n.name, "url": n.url, "pid": pids[n.name]} for n in layout.nodes],
        "routers": [
            {"name": router.name, "address": router.postgres, "pid": pids[router.name]}
            for router in layout.routers
        ],
        "postgres": [
            {
                "name": server.name,
                "host": server.host,
                "port": server.postgres_port,
                "rest": server.rest,
                "postmaster_pid": postmaster(server),
                "patroni_pid": pids[server.name],
                "is_reader": server.is_reader,
                "site": server.site,
                "scope": server.scope,
            }
            for server in layout.servers
        ],
        "haproxy": haproxy,
        "etcd": [
            {"name": server.etcd, "url": server.etcd_url, "pid": pids[server.etcd]}
            for server in layout.etcds
        ],
        "ca": str(layout.ca or ""),
    }

"""The cluster's state as a table."""

from typing import Any, TypeAlias

from rich.table import Table

from local_cluster.patroni import Member

Rows: TypeAlias = list[tuple[str, ...]]
_BYTES_A_MIB = 1024 * 1024


def rows(addresses: dict[str, Any], members: list[Member], ready: dict[str, bool]) -> Rows:
    """Return a row for each part; equal rows mean that nothing has changed."""
    reports = {member.name: member for member in members}
    leaders: dict[str, Member] = {}
    for server in addresses["postgres"]:
        found_there, known = reports[server["name"]], leaders.get(server["scope"])
        if found_there.is_primary and (known is None or known.timeline < found_there.timeline):
            leaders[server["scope"]] = found_there
    haproxy = {"name": "haproxy", "url": addresses["endpoint"], "pid": addresses["haproxy"]["pid"]}
    found: Rows = []
    for part in (haproxy, *addresses["nodes"]):
        state = "[green]ready[/]" if ready[part["name"]] else "[red]not ready[/]"
        found.append((part["name"], part["url"], _pid(part["pid"]), state))
    for router in addresses["routers"]:
        found.append((router["name"], router["address"], _pid(router["pid"]), _up(router)))
    for server in addresses["postgres"]:
        member = reports[server["name"]]
        where = f"{server['host']}:{server['port']}"
        timeline = str(member.timeline or "-")
        pid = _pid(server["postmaster_pid"])
        lag = _lag(member, leaders.get(server["scope"]))
        found.append((member.name, where, pid, _state(member), timeline, lag))
    for etcd in addresses["etcd"]:
        found.append((etcd["name"], etcd["url"], _pid(etcd["pid"]), _up(etcd)))
    return found


def render(found: Rows) -> Table:
    """Return the table of these rows."""
    table = Table("part", "address", "pid", "state", "timeline", "lag", box=None, pad_edge=False)
    for row in found:
        table.add_row(*row)
    return table


def _up(part: dict[str, Any]) -> str:
    return "[green]up[/]" if part["pid"] else "[red]down[/]"


def _pid(number: int | None) -> str:
    return str(number or "-")


def _state(member: Member) -> str:
    if not member.role:
        return "[red]silent[/]"
    if member.state not in {"running", "streaming"}:
        return f"[yellow]{member.role}, {member.state}[/]"
    if member.is_primary:
        return "[bold green]primary[/]"
    what = f"{member.sync} standby" if member.sync else member.role.replace("_", " ")
    return f"[green]{what}[/]" if member.is_streaming else f"[yellow]{what}, not streaming[/]"


def _lag(member: Member, leader: Member | None) -> str:
    """Return a standby's lag in MiB, so that one second's writes do not count as a change."""
    if leader is None or member is leader or not member.position:
        return "-"
    behind = max(leader.position - member.position, 0) // _BYTES_A_MIB
    return f"{behind} MiB" if behind else "0"

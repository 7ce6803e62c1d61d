"""What is done to the cluster. Each fault strikes, gives the name of what it struck, and heals."""

import os
import random
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from local_cluster import LocalCluster
from support.trees import frozen, kill, one

Struck = AbstractContextManager[str]
_FAKETIME = "libfaketime.so.1"
# Two minutes ahead: more than any visibility timeout here.
_SKEW = "+120s"


@dataclass(frozen=True, slots=True)
class Fault:
    """How to strike, how long to wait before it is healed, and what it cannot do without."""

    strike: Callable[[LocalCluster, random.Random], Struck]
    lasts: float = 1.0
    in_gate: bool = False
    needs: str = ""

    @property
    def about(self) -> str:
        return (self.strike.__doc__ or "").splitlines()[0]


def _parts(cluster: LocalCluster, kind: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = cluster.addresses()[kind]
    return parts


def _leader(cluster: LocalCluster) -> dict[str, Any]:
    name = cluster.leader()
    return next(server for server in _parts(cluster, "postgres") if server["name"] == name)


def _processes(server: dict[str, Any]) -> tuple[int | None, int | None]:
    # Patroni first: it would start PostgreSQL again.
    return server["patroni_pid"], server["postmaster_pid"]


@contextmanager
def _switchover(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Make another server the primary, as for an upgrade of the machine."""
    name = cluster.leader()
    cluster.switchover()
    yield name


@contextmanager
def _postgres_crash(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Kill PostgreSQL on the primary; Patroni lives."""
    server = _leader(cluster)
    one(server["postmaster_pid"]).kill()
    yield server["name"]


@contextmanager
def _terminations(cluster: LocalCluster, chance: random.Random) -> Iterator[str]:
    """End one session of the nodes after the other on the primary, in the midst of statements."""
    name, ended = cluster.leader(), threading.Event()

    def terminate() -> None:
        with psycopg.connect(cluster.node_url, autocommit=True) as session:
            while not ended.wait(chance.uniform(0.001, 0.03)):
                session.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where usename = current_user and state = 'active'"
                    " and pid <> pg_backend_pid() order by random() limit 1"
                )

    with ThreadPoolExecutor(1) as pool:
        terminating = pool.submit(terminate)
        try:
            yield name
        finally:
            ended.set()
            terminating.result()


@contextmanager
def _patroni_crash(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Kill Patroni on the primary; PostgreSQL lives, with nobody to watch it."""
    server = _leader(cluster)
    one(server["patroni_pid"]).kill()
    yield server["name"]


@contextmanager
def _server_crash(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Kill Patroni and PostgreSQL on the primary; a supervisor starts them again."""
    server = _leader(cluster)
    kill(*_processes(server))
    yield server["name"]


@contextmanager
def _server_death(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Kill Patroni and PostgreSQL on the primary; nobody starts them or tells of their death."""
    server = _leader(cluster)
    with _gone(cluster, server["name"]):
        kill(*_processes(server))
        yield server["name"]


@contextmanager
def _server_freeze(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Freeze the primary with its Patroni; thawed, it must not go on where it was."""
    server = _leader(cluster)
    with frozen(*_processes(server)):
        yield server["name"]


@contextmanager
def _isolation(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Cut the primary off from the other servers and the nodes."""
    name = cluster.leader()
    cluster.isolate(name)
    try:
        yield name
    finally:
        cluster.heal(name)


@contextmanager
def _etcd_majority(cluster: LocalCluster, chance: random.Random) -> Iterator[str]:
    """Freeze or kill two of three members of etcd."""
    members = chance.sample(_parts(cluster, "etcd"), 2)
    pids, names = [m["pid"] for m in members], [m["name"] for m in members]
    with ExitStack() as stack:
        if chance.random() < 0.5:
            stack.enter_context(frozen(*pids))
        else:
            stack.enter_context(_gone(cluster, *names))
            kill(*pids)
        yield " and ".join(names)


@contextmanager
def _standbys_down(cluster: LocalCluster, _: random.Random) -> Iterator[str]:
    """Kill both standbys: nothing may be acknowledged that only one server has."""
    name = cluster.leader()
    standbys = [server for server in _parts(cluster, "postgres") if server["name"] != name]
    names = [server["name"] for server in standbys]
    with _gone(cluster, *names):
        kill(*(pid for server in standbys for pid in _processes(server)))
        yield " and ".join(names)


@contextmanager
def _node_crash(cluster: LocalCluster, chance: random.Random) -> Iterator[str]:
    """Kill a node with its workers; a supervisor starts it again."""
    node = chance.choice(_parts(cluster, "nodes"))
    kill(node["pid"])
    yield node["name"]


@contextmanager
def _node_freeze(cluster: LocalCluster, chance: random.Random) -> Iterator[str]:
    """Freeze a node in the middle of its requests."""
    node = chance.choice(_parts(cluster, "nodes"))
    with frozen(node["pid"]):
        yield node["name"]


@contextmanager
def _node_clock(cluster: LocalCluster, chance: random.Random) -> Iterator[str]:
    """Run a node whose clock is two minutes ahead."""
    node = chance.choice(_parts(cluster, "nodes"))
    process = one(node["pid"])
    words = process.cmdline()
    variables = process.environ() | {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME": _SKEW,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with _gone(cluster, node["name"]):
        kill(node["pid"])
        with subprocess.Popen(
            words, env=variables, stderr=subprocess.DEVNULL, start_new_session=True
        ) as skewed:
            try:
                yield node["name"]
            finally:
                kill(skewed.pid)


@contextmanager
def _gone(cluster: LocalCluster, *parts: str) -> Iterator[None]:
    """Let nobody start parts again in the block; start them at its end."""
    for part in parts:
        cluster.supervise(part, on=False)
    try:
        yield
    finally:
        for part in parts:
            cluster.supervise(part, on=True)
            cluster.start_part(part)


def faketime() -> Path | None:
    """Return the library that moves a process's clock, where it is installed."""
    return next(iter(sorted(Path("/usr/lib").glob(f"*/faketime/{_FAKETIME}"))), None)


def missing(name: str) -> str:
    """Say why a fault cannot be inflicted here; nothing if it can."""
    match FAULTS[name].needs:
        case "faketime" if faketime() is None:
            return "no libfaketime here: install the Debian package faketime"
        case "namespaces" if os.geteuid() != 0:
            return "only root can cut a server off, in a network namespace of its own"
    return ""


FAULTS: Mapping[str, Fault] = {
    "switchover": Fault(_switchover),
    "postgres-crash": Fault(_postgres_crash),
    "terminations": Fault(_terminations, lasts=8),
    "patroni-crash": Fault(_patroni_crash),
    "server-crash": Fault(_server_crash, in_gate=True),
    "server-death": Fault(_server_death, lasts=28),
    "server-freeze": Fault(_server_freeze, lasts=35),
    "isolation": Fault(_isolation, lasts=35, needs="namespaces"),
    "etcd-majority": Fault(_etcd_majority, lasts=15),
    "standbys-down": Fault(_standbys_down, lasts=12),
    "node-crash": Fault(_node_crash, in_gate=True),
    "node-freeze": Fault(_node_freeze, lasts=6, in_gate=True),
    "node-clock": Fault(_node_clock, lasts=12, needs="faketime"),
}

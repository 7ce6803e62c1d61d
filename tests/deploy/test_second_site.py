"""The loss of a whole site under load: how much of what was acknowledged, and how long."""

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from local_cluster import ClusterError, LocalCluster, parts, programs
from support.http import eventually
from support.programs import not_here
from support.traffic import Traffic

pytestmark = pytest.mark.slow

# Longer than it takes to promote by hand: whoever sends meanwhile waits.
PATIENT = {"SKIPMQ_FAILOVER_WAIT": "60", "SKIPMQ_DATABASE_DEADLINE": "5"}
FAR = "postgres4"


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    try:
        programs.find()
    except ClusterError as error:
        not_here(str(error))


def lose(cluster: LocalCluster, servers: list[str]) -> None:
    """Kill all of etcd, Patroni and PostgreSQL on these servers, for good."""
    lost = [server for server in cluster.layout.servers if server.name in servers]
    for server in lost:
        for part in (server.name, server.etcd):
            cluster.supervise(part, on=False)
    addresses = cluster.addresses()
    pids = [s["patroni_pid"] for s in addresses["postgres"] if s["name"] in servers]
    pids += [s["postmaster_pid"] for s in addresses["postgres"] if s["name"] in servers]
    pids += [e["pid"] for e in addresses["etcd"] if e["name"] in {s.etcd for s in lost}]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for server in lost:
        parts.kill(partial(parts.in_folder, cluster.data / server.name))


def stop_shipping(cluster: LocalCluster) -> None:
    """Freeze the process that ships to the second site, as a network that is full would."""
    with psycopg.connect(cluster.owner_url) as connection:
        row = connection.execute(
            "select pid from pg_stat_replication where application_name = 'site2'"
        ).fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGSTOP)


def stored(cluster: LocalCluster) -> set[str]:
    with psycopg.connect(cluster.owner_url) as connection:
        rows = connection.execute("select body from skipmq.message where queue_id <> 0").fetchall()
    bodies = [body for (body,) in rows]
    assert len(bodies) == len(set(bodies)), "a message is there twice"
    return set(bodies)


def taken_over(cluster: LocalCluster, traffic: Traffic, what: str, began: float) -> set[str]:
    """Wait until messages are taken again; return what was acknowledged and is not there."""
    acknowledged = len(traffic.sent)
    eventually(lambda: len(traffic.sent) > acknowledged + 20, 90, "messages are taken again")
    seconds = time.monotonic() - began
    traffic.goes_on(200)
    traffic.stop_sending()
    # When that takes longer, the balancer finds no node ready and says so.
    assert [told for told in traffic.errors if "(503)" not in told] == []
    lost = set(traffic.sent) - stored(cluster)
    print(  # noqa: T201 - the figures of app/docs/operate/second-site.md.
        f"\n{what}: {acknowledged} acknowledged before, {len(lost)} of them lost,"
        f" taken again after {seconds:.1f} s"
    )
    assert lost <= set(traffic.sent[:acknowledged])
    return lost


@pytest.mark.parametrize("lag", [0, 3])
def test_second_site_takes_over_under_load_and_lacks_what_was_not_shipped(
    tmp_path: Path, lag: int
) -> None:
    with (
        LocalCluster(tmp_path, nodes=2, second_site=True, node_environment=PATIENT) as cluster,
        Traffic(cluster.endpoint, producers=4, consumers=0) as traffic,
    ):
        first = [server.name for server in cluster.layout.site("first")]
        traffic.goes_on(2000)
        shipped = set(traffic.sent)
        if lag:
            stop_shipping(cluster)
            threading.Event().wait(lag)
        lose(cluster, first)
        began = time.monotonic()

        cluster.promote_second_site()

        lost = taken_over(cluster, traffic, f"asynchronous, {lag} s behind", began)
        assert cluster.leader() == "site2"
        if lag:
            # The test of the test: what a site has not got it lacks.
            assert lost
            assert not lost & shipped


def test_server_of_the_cluster_at_the_second_site_loses_nothing(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, nodes=2, servers=4, node_environment=PATIENT) as cluster:
        place_apart(cluster)
        first = [s.name for s in cluster.layout.servers if s.name != FAR]
        with Traffic(cluster.endpoint, producers=4, consumers=0) as traffic:
            traffic.goes_on(2000)
            lose(cluster, first)
            began = time.monotonic()

            take_over_alone(cluster)

            lost = taken_over(cluster, traffic, "synchronous", began)
        assert cluster.leader() == FAR
        assert lost == set()


def place_apart(cluster: LocalCluster) -> None:
    """Have each commit wait for the far server and for one that is near; keep the primary near."""
    for server in cluster.layout.servers:
        tags = "sync_priority: 2, failover_priority: 1" if server.name == FAR else ""
        file = cluster.data / f"{server.name}.conf.d" / "60-site.yml"
        file.write_text(f"tags: {{{tags or 'failover_priority: 2'}}}\n")
    for server in cluster.addresses()["postgres"]:
        os.kill(server["patroni_pid"], signal.SIGHUP)
    cluster.change_settings({"synchronous_mode": "on", "synchronous_node_count": 2})
    if cluster.leader() == FAR:
        cluster.switchover(to="postgres1")
    eventually(
        lambda: re.match(rf"2 \(.*{FAR}", names(cluster)), 60, f"{FAR} acknowledges each commit"
    )


def names(cluster: LocalCluster) -> str:
    with suppress(psycopg.OperationalError), psycopg.connect(cluster.owner_url) as connection:
        row = connection.execute("select names from skipmq.replication()").fetchone()
        return str(row and row[0])
    return ""


def take_over_alone(cluster: LocalCluster) -> None:
    """Let the far site's etcd go on without the majority, and its server become the primary."""
    server = next(s for s in cluster.layout.servers if s.name == FAR)
    part = cluster._supervisor.part(server.etcd)  # noqa: SLF001 - started once in another way.
    cluster.supervise(server.etcd, on=False)
    parts.stop([part])
    part.command.append("--force-new-cluster")
    cluster.start_part(server.etcd)
    patronictl = [cluster._programs.patroni_program("patronictl"), "-d"]  # noqa: SLF001 - as above.
    patronictl.append(f"etcd3://{server.host}:{server.etcd_port}")
    for words in (
        "edit-config skipmq --force --set synchronous_mode_strict=false",
        f"failover skipmq --candidate {FAR} --force",
    ):
        command = [*patronictl, *words.split()]
        eventually(
            lambda command=command: subprocess.run(command, check=False).returncode == 0, 60, words
        )

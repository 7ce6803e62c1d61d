"""A whole cluster, really started: by the command line, and by the class that tests use."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from local_cluster import ClusterError, LocalCluster, parts, patroni, programs
from support.http import ROOT, eventually
from support.partitions import plproxy_server
from support.processes import is_alive
from support.programs import not_here

COMMAND = [sys.executable, "-m", "local_cluster"]
START_SECONDS = 240
EVERY_PART = {"haproxy", "node1", "postgres1", "postgres2", "reader", "etcd1", "etcd2"}


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    try:
        programs.find()
    except ClusterError as error:
        not_here(str(error))


@dataclass
class Started:
    """`python -m local_cluster` while it runs."""

    process: subprocess.Popen[str]
    folder: Path
    log: Path

    @property
    def file(self) -> Path:
        return self.folder / "addresses.json"

    def addresses(self) -> dict[str, Any]:
        addresses: dict[str, Any] = json.loads(self.file.read_text())
        return addresses


@contextmanager
def start(tmp_path: Path, *options: str) -> Iterator[Started]:
    """Start a cluster by the command line, and stop it at the end of the block."""
    folder = tmp_path / "folder"
    log = folder.with_name("output.txt")
    with log.open("w") as output:
        process = subprocess.Popen(
            [*COMMAND, "--nodes", "1", "--free-ports", "--folder", folder, *options],
            cwd=ROOT / "deploy",
            stdout=output,
            stderr=output,
            text=True,
        )
    started = Started(process, folder, log)
    try:
        eventually(
            lambda: started.file.exists() or process.poll() is not None, START_SECONDS, "addresses"
        )
        assert process.poll() is None, log.read_text()
        yield started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture
def started(server_folder: Path) -> Iterator[Started]:
    place = server_folder / "command-line"
    place.mkdir()
    with start(place, "--servers", "2", "--replica") as started:
        yield started


def test_database_that_patroni_has_yet_to_create_is_waited_for(tmp_path: Path) -> None:
    absent = 'database \\"skipmq\\" does not exist'
    script = f'test -e made && exit; touch made; echo "{absent}" >&2; exit 1'
    command = ["env", "--chdir", str(tmp_path), "sh", "-c", script]
    patroni.run_once_created(command, {}, time.monotonic() + 60, "no schema")

    refused = ["sh", "-c", "echo no >&2; exit 1"]
    with pytest.raises(ClusterError, match="no schema: no"):
        patroni.run_once_created(refused, {}, time.monotonic() + 60, "no schema")


@pytest.mark.slow
def test_command_line_names_the_partitions(tmp_path: Path) -> None:
    plproxy_server()
    with start(tmp_path, "--partitions", "2") as started:
        addresses = started.addresses()
        shown = re.compile(r"^partition[01]-[12] .*(primary|quorum standby)", re.MULTILINE)
        eventually(lambda: len(shown.findall(started.log.read_text())) >= 4)
        text = started.log.read_text()
        printed = re.search(r"^Patroni +(.*)$", text, re.MULTILINE)
        assert printed
        listed = subprocess.run(
            shlex.split(printed[1]), capture_output=True, text=True, check=True
        ).stdout

    for number, partition in enumerate(addresses["partitions"]):
        assert f"partition {number}   {partition['owner_url']}" in text
        assert f"Cluster: skipmq-{number} " in listed
    assert f"SQL, routers  {addresses['database_url']}" in text
    assert [router["name"] for router in addresses["routers"]] == ["router1"]


def pids(addresses: dict[str, Any]) -> dict[str, int]:
    """Return the main process of every part."""
    found = {part["name"]: part["pid"] for part in (*addresses["nodes"], *addresses["etcd"])}
    for server in addresses["postgres"]:
        found[server["name"]] = server["patroni_pid"]
        found[f"postmaster of {server['name']}"] = server["postmaster_pid"]
    return found | {"haproxy": addresses["haproxy"]["pid"]}


def listens(address: str) -> bool:
    host, port = re.sub(r"^http://", "", address).split(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=2):
        return True
    return False


def ports(addresses: dict[str, Any]) -> list[str]:
    """Return every address that somebody listens on."""
    haproxy = addresses["haproxy"]
    found = [addresses["endpoint"], haproxy["primary"], haproxy["replica"]]
    found += [part["url"] for part in (*addresses["nodes"], *addresses["etcd"])]
    for server in addresses["postgres"]:
        found += [f"{server['host']}:{server['port']}", server["rest"]]
    return found


def check_addresses(started: Started) -> None:
    addresses = started.addresses()
    running = pids(addresses)

    assert running.keys() >= EVERY_PART
    for name, word in (("node1", "skipmq"), ("etcd1", "etcd"), ("postgres1", "patroni")):
        assert word in Path(f"/proc/{running[name]}/cmdline").read_text()
    assert "postgres" in Path(f"/proc/{running['postmaster of postgres1']}/comm").read_text()
    assert all(map(listens, ports(addresses)))
    assert started.file.stat().st_mode & 0o077 == 0


def check_state_is_shown(started: Started) -> None:
    eventually(lambda: re.search(r"quorum standby +1 +0", started.log.read_text()))

    assert f"SQS           {started.addresses()['endpoint']}" in started.log.read_text()


def check_readers_are_sent_to_a_standby_and_bounded(started: Started) -> None:
    url = started.addresses()["analytics_url"]
    assert f"SQL, reader   {url}" in started.log.read_text()
    with psycopg.connect(url) as reader:
        bounds = reader.execute(
            "select pg_is_in_recovery(), rolname, rolconnlimit, rolconfig from pg_roles"
            " where rolname = current_user"
        ).fetchone()
        assert bounds is not None
        assert bounds[:3] == (True, "skipmq_reader", 32)
        assert len(bounds[3]) == 3
        assert reader.execute("select count(*) from skipmq_views.history").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select count(*) from skipmq.history")
    with psycopg.connect(started.addresses()["owner_url"]) as owner:
        # Which a function of the owner needs to end readers that hold up the primary.
        may = owner.execute("select pg_has_role('skipmq_reader', 'usage')").fetchone()
        assert may == (True,)


def check_reader_is_outside_the_quorum_and_never_holds_the_primary_back(started: Started) -> None:
    addresses = started.addresses()
    (reader,) = [server for server in addresses["postgres"] if server["name"] == "reader"]
    # It is tried first.
    assert f"@{reader['host']}:{reader['port']}," in addresses["analytics_url"]
    with psycopg.connect(addresses["analytics_url"]) as connection:
        shown = connection.execute(
            "select current_setting('hot_standby_feedback'),"
            " current_setting('max_standby_streaming_delay'), inet_server_port()"
        ).fetchone()

    assert shown == ("off", "30min", reader["port"])
    assert re.search(r"^reader .* replica +1 +0", started.log.read_text(), re.MULTILINE)


def check_killed_node_comes_back(started: Started) -> None:
    before = started.addresses()["nodes"][0]["pid"]
    os.kill(before, signal.SIGKILL)

    eventually(lambda: started.addresses()["nodes"][0]["pid"] not in {before, None}, 60)


def check_printed_patronictl_may_change_the_primary(started: Started) -> None:
    printed = re.search(r"^Patroni +(.*) list skipmq$", started.log.read_text(), re.MULTILINE)
    assert printed

    def patronictl(*words: str) -> str:
        command = [*shlex.split(printed[1]), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def leader() -> str:
        members = json.loads(patronictl("list", "skipmq", "--format", "json"))
        return "".join(member["Member"] for member in members if member["Role"] == "Leader")

    before = leader()
    patronictl("switchover", "skipmq", "--force")

    # Of the standbys one is the primary, and the others follow it.
    shown = re.compile(
        r"^(postgres\d|reader) .* (primary|quorum standby|replica) +2 +", re.MULTILINE
    )
    eventually(lambda: len(shown.findall(last_table(started))) == 3, 60)
    assert (before, "primary") not in shown.findall(last_table(started))


def last_table(started: Started) -> str:
    """Return the state of the cluster as it was printed last."""
    return started.log.read_text().rpartition("\npart ")[2]


def test_cluster_of_the_command_line_is_as_it_says_and_leaves_nothing(started: Started) -> None:
    check_addresses(started)
    check_state_is_shown(started)
    check_readers_are_sent_to_a_standby_and_bounded(started)
    check_reader_is_outside_the_quorum_and_never_holds_the_primary_back(started)
    check_killed_node_comes_back(started)
    check_printed_patronictl_may_change_the_primary(started)
    addresses = started.addresses()
    running = pids(addresses)

    started.process.send_signal(signal.SIGINT)

    assert started.process.wait(60) == 0
    assert not {name for name, pid in running.items() if is_alive(pid)}
    assert not [address for address in ports(addresses) if listens(address)]
    assert sorted(path.name for path in started.folder.iterdir()) == ["lock", "logs"]


def test_second_site_takes_over_with_what_it_has(tmp_path: Path, server_folder: Path) -> None:
    with LocalCluster(
        tmp_path,
        nodes=1,
        servers=1,
        replication="asynchronous",
        second_site=True,
        data_in=server_folder,
    ) as cluster:
        first, second = cluster.layout.servers
        with psycopg.connect(cluster.owner_url, autocommit=True) as connection:
            connection.execute("create table kept (id int)")
            connection.execute("insert into kept values (1)")
        position = cluster.members()[0].position
        eventually(lambda: cluster.members()[1].position >= position)
        for part in (first.name, first.etcd):
            cluster.supervise(part, on=False)
            os.kill(pids(cluster.addresses())[part], signal.SIGKILL)
        parts.kill(lambda: parts.in_folder(cluster.data / first.name))

        cluster.promote_second_site()

        eventually(lambda: cluster.members()[1].is_primary, 60)
        assert cluster.leader() == second.name
        with psycopg.connect(cluster.owner_url, autocommit=True) as connection:
            connection.execute("insert into kept values (2)")
            assert connection.execute("select id from kept order by id").fetchall() == [(1,), (2,)]
        eventually(lambda: all(cluster.ready().values()), 60)

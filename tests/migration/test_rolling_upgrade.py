"""An upgrade of a cluster that never stops serving: the release before, expansion, this release.

releases/ has the code of the release before as `git archive COMMIT app sql migrations | xz -9e`
made it, so that a clone without history upgrades too. When a release is made that has a migration,
its archive takes the place of the one that is there.
"""

import csv
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Self

import pytest

from skipmq.store import schema
from support.http import ROOT, NodeProcess, environment, eventually, free_port, raw
from support.postgres import Databases, as_node
from support.programs import need
from support.traffic import Traffic

COMMIT, REVISION = "cf4d16d", "0004_pre_failover"
ARCHIVE = Path(__file__).parent / "releases" / f"{REVISION}.tar.xz"
HAPROXY = ROOT / "deploy" / "haproxy" / "nodes.cfg"
NODES = 3


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the release before; return the variables with which Python runs it."""
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return {"PYTHONPATH": str(folder / "app")}


@pytest.fixture
def database(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.empty()
    yield url
    embedded_databases.drop(url)


def migrate(url: str, variables: dict[str, str]) -> str:
    """Run `skipmq migrate` of a release; return what it says."""
    return subprocess.run(
        [sys.executable, "-m", "skipmq", "migrate"],
        env=environment({"database_url": url}) | variables,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


class Balancer:
    """The shipped HAProxy in front of nodes; `take_out` and `put_back` are an operator's words."""

    def __init__(self, ports: list[int], folder: Path) -> None:
        port, self._admin = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        variables = {f"NODE{n}": f"127.0.0.1:{each}" for n, each in enumerate(ports, start=1)}
        shutil.copy(HAPROXY, folder)
        socket_line = f"global\n  stats socket ipv4@127.0.0.1:{self._admin} level admin\n"
        (folder / "admin.cfg").write_text(socket_line)
        self._process = subprocess.Popen(
            ["haproxy", "-db", "-f", folder / "admin.cfg", "-f", folder / HAPROXY.name],
            env={"PATH": "/usr/sbin:/usr/bin", "LISTEN": f"127.0.0.1:{port}", **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def take_out(self, node: str) -> None:
        """Send a node nothing more; return when it has answered what it was sent."""
        self._say(f"set server nodes/{node} state drain")
        eventually(lambda: self._column(node, "scur") == "0", seconds=60, why=f"{node} is idle")

    def put_back(self, node: str) -> None:
        """Send a node requests again; return when the balancer finds it ready."""
        self._say(f"set server nodes/{node} state ready")
        self.wait_for(node)

    def wait_for(self, node: str) -> None:
        """Return when the balancer finds a node ready."""
        eventually(lambda: self._column(node, "status") == "UP", seconds=60, why=f"{node} is up")

    def _column(self, node: str, name: str) -> str:
        lines = self._say("show stat").removeprefix("# ").strip().splitlines()
        return next(
            row[name]
            for row in csv.DictReader(lines)
            if (row["pxname"], row["svname"]) == ("nodes", node)
        )

    def _say(self, words: str) -> str:
        with socket.create_connection(("127.0.0.1", self._admin), timeout=10) as connection:
            connection.sendall(f"{words}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def __enter__(self) -> Self:
        eventually(lambda: answers(self.url), why="the balancer")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def answers(url: str) -> bool:
    try:
        return raw(f"{url}/health/ready").status == 200
    except OSError:
        return False


def test_archive_is_the_release_before() -> None:
    number, wanted = (int(name.split("_")[0]) for name in (REVISION, schema._wanted()))  # noqa: SLF001
    listed = subprocess.run(
        ["git", "archive", "--format=tar", COMMIT, "app", "sql", "migrations"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )

    assert wanted == number + 1, "put the archive of the release before into releases/"
    if listed.returncode == 0:  # The clone has its history.
        with (
            tarfile.open(ARCHIVE) as archive,
            tarfile.open(fileobj=BytesIO(listed.stdout)) as wanted_archive,
        ):
            assert contents(archive) == contents(wanted_archive)


def contents(archive: tarfile.TarFile) -> dict[str, bytes]:
    return {
        member.name: file.read()
        for member in archive
        if (file := archive.extractfile(member)) is not None
    }


@pytest.mark.slow
def test_rolling_upgrade_under_load_reaches_no_client(
    database: str, release_before: dict[str, str], tmp_path: Path
) -> None:
    need("haproxy")
    url = as_node(database)
    ports = [free_port() for _ in range(NODES)]
    this_release = {"SKIPMQ_STOP_DELAY": "3"}
    migrate(database, release_before)
    assert schema.inspect(database).found == REVISION

    with ExitStack() as stack:

        def start(port: int, variables: dict[str, str]) -> NodeProcess:
            node = NodeProcess(database_url=url, port=port, workers=1, variables=variables)
            return stack.enter_context(node)

        nodes = [start(port, release_before) for port in ports]
        for node in nodes:
            node.ready()
        balancer = stack.enter_context(Balancer(ports, tmp_path))
        traffic = stack.enter_context(Traffic(balancer.url))

        def replace(number: int, variables: dict[str, str]) -> None:
            balancer.take_out(f"node{number + 1}")
            assert nodes[number].stop() == 0
            nodes[number] = start(ports[number], variables).ready()
            balancer.put_back(f"node{number + 1}")
            traffic.goes_on()

        traffic.goes_on()

        # Expand, under nodes of the release before.
        migrate(database, {})
        assert schema.inspect(database).is_current
        traffic.goes_on()
        # One that is started again tolerates the next schema, and leaves it as it is.
        migrate(database, release_before)
        assert schema.inspect(database).is_current
        replace(0, release_before)
        for number in range(NODES):
            replace(number, this_release)
        # A node of this release takes itself out.
        for number in range(NODES):
            assert nodes[number].stop() == 0
            nodes[number] = start(ports[number], this_release).ready()
            balancer.wait_for(f"node{number + 1}")
            traffic.goes_on()
        traffic.finish()
        for node in nodes:
            assert raw(f"{node.url}/metrics").status == 200  # Which the release before has not.

    assert traffic.errors == []
    assert sorted(traffic.received) == sorted(traffic.sent)
    for group in traffic.groups.values():
        assert group == sorted(group)

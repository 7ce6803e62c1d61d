"""An upgrade of a cluster that never stops serving: this release, and a next one that only adds.

The next release is this one with one more migration, which does what such migrations do to tables
and functions in use.
"""

import csv
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from skipmq.database import schema
from support.http import ROOT, NodeProcess, environment, eventually, free_port, raw
from support.postgres import Databases, as_node
from support.programs import need
from support.traffic import Traffic

REVISION = "0002_pre_next"
MIGRATION = f'''
from alembic import op

revision, down_revision = "{REVISION}", "0001_pre_first"


def upgrade():
    op.execute(
        """
        alter table skipmq.queue add next_attribute text not null default 'none';
        alter table skipmq.message add next_column smallint not null default 0;
        alter table skipmq.history add next_column smallint;
        create function skipmq.count_messages_v2(p_queue_id bigint)
        returns table (visible bigint, next_column smallint)
        language sql stable security definer set search_path = pg_catalog, pg_temp
        return (select (count(*), max(m.next_column))
          from skipmq.message m where m.queue_id = p_queue_id);
        """
    )
'''
HAPROXY = ROOT / "deploy" / "haproxy" / "nodes.cfg"
NODES = 2


@pytest.fixture
def next_release(tmp_path: Path) -> dict[str, str]:
    """Make the next release; return the variables with which Python runs it."""
    for name in ("app", "sql", "migrations"):
        shutil.copytree(ROOT / name, tmp_path / "next" / name)
    (tmp_path / "next" / "migrations" / "versions" / f"{REVISION}.py").write_text(MIGRATION)
    return {"PYTHONPATH": str(tmp_path / "next" / "app")}


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


@pytest.mark.slow
def test_rolling_upgrade_under_load_reaches_no_client(
    database: str, next_release: dict[str, str], tmp_path: Path
) -> None:
    need("haproxy")
    url = as_node(database)
    ports = [free_port() for _ in range(NODES)]
    migrate(database, {})

    with ExitStack() as stack:

        def start(port: int, variables: dict[str, str]) -> NodeProcess:
            variables = {"SKIPMQ_STOP_DELAY": "3", **variables}
            node = NodeProcess(database_url=url, port=port, workers=1, variables=variables)
            return stack.enter_context(node)

        nodes = [start(port, {}) for port in ports]
        for node in nodes:
            node.ready()
        balancer = stack.enter_context(Balancer(ports, tmp_path))
        traffic = stack.enter_context(Traffic(balancer.url))
        traffic.goes_on()

        # Expand, under nodes of this release.
        migrate(database, next_release)
        assert schema.inspect(database).found == REVISION
        traffic.goes_on()
        # This release tolerates the next schema, and leaves it as it is.
        migrate(database, {})
        assert schema.inspect(database).found == REVISION
        balancer.take_out("node1")
        assert nodes[0].stop() == 0
        nodes[0] = start(ports[0], {}).ready()
        balancer.put_back("node1")
        traffic.goes_on()
        # A node that is stopped takes itself out.
        for number in range(NODES):
            assert nodes[number].stop() == 0
            nodes[number] = start(ports[number], next_release).ready()
            balancer.wait_for(f"node{number + 1}")
            traffic.goes_on()
        traffic.finish()

    assert traffic.errors == []
    assert sorted(traffic.received) == sorted(traffic.sent)
    for group in traffic.groups.values():
        assert group == sorted(group)

"""The shipped files of configuration are what their programs take."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from local_cluster import ClusterError, LocalCluster, layout, programs
from local_cluster.programs import Programs
from support.http import ROOT
from support.programs import need, not_here

DEPLOY = ROOT / "deploy"
EMBEDDED = (ROOT / "app" / "skipmq" / "database" / "embedded" / "data_folder.py").read_text()
# The longest receive, and the longest that a node holds a request while the database is away.
LONGEST_REQUEST = 20 + 25


@pytest.fixture(scope="module")
def found() -> Programs:
    try:
        return programs.find()
    except ClusterError as error:
        not_here(str(error))


def example(name: str) -> dict[str, str]:
    """Return the variables of an example file."""
    lines = (DEPLOY / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]", line))


def run(command: Iterable[object], **variables: str) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "files", [["nodes.cfg"], ["postgres.cfg"], ["global.cfg", "nodes.cfg", "postgres.cfg"]]
)
def test_haproxy_takes_its_folder_as_debians_unit_gives_it(
    found: Programs, files: list[str], tmp_path: Path
) -> None:
    for file in files:
        shutil.copy(DEPLOY / "haproxy" / file, tmp_path)

    run([found.haproxy, "-c", "-f", tmp_path], **example("haproxy/haproxy.env.example"))


def test_haproxy_is_more_patient_than_the_longest_request() -> None:
    text = (DEPLOY / "haproxy" / "nodes.cfg").read_text()

    for name in ("client", "server", "http-keep-alive"):
        told = re.search(rf"timeout {name} (\d+)s", text)
        assert told is not None
        assert int(told[1]) > LONGEST_REQUEST


@pytest.mark.parametrize("more", [[], ["reader.yml"], ["second_site.yml"], ["tls.yml"]])
def test_patroni_takes_its_folder(found: Programs, more: list[str], tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "patroni" / "patroni.yml", tmp_path / "10-patroni.yml")
    for file in more:
        shutil.copy(DEPLOY / "patroni" / file, tmp_path / f"50-{file}")
    variables = {
        key: value or "secret" for key, value in example("patroni/patroni.env.example").items()
    }
    variables["PATRONI_POSTGRESQL_BIN_DIR"] = str(found.postgres)
    variables["PATRONI_POSTGRESQL_DATA_DIR"] = str(tmp_path / "data")
    for name in ("PATRONI_POSTGRESQL_LISTEN", "PATRONI_RESTAPI_LISTEN"):
        variables[name] = re.sub(r".*:", "127.0.0.1:", variables[name])

    patroni = found.patroni_program("patroni")
    run([patroni, "--validate-config", "--ignore-listen-port", tmp_path], **variables)


def test_servers_of_patroni_vacuum_as_often_as_embedded_ones() -> None:
    settings = (DEPLOY / "patroni" / "patroni.yml").read_text()

    (interval,) = re.findall(r"^ +autovacuum_naptime: (\S+)$", settings, re.MULTILINE)

    assert f"autovacuum_naptime = {interval}\n" in EMBEDDED


@pytest.mark.parametrize("unit", ["patroni.service", "skipmq.service"])
def test_systemd_takes_the_unit(unit: str, tmp_path: Path) -> None:
    need("systemd-analyze")
    # Here nothing is installed in /opt; all else is as it will be.
    text = (DEPLOY / "systemd" / unit).read_text()
    (tmp_path / unit).write_text(re.sub(r"/opt/\w+/bin/\w+", "/bin/true", text))

    run(["systemd-analyze", "verify", "--man=no", tmp_path / unit])


def test_partitions_have_scopes_and_share_an_etcd() -> None:
    plan = layout.plan(
        partitions=2,
        servers=2,
        nodes=3,
        fixed_ports=True,
        subnet="",
        reader=False,
        second_site=False,
    )

    assert plan.scopes() == ("skipmq-0", "skipmq-1")
    assert [len(plan.scope(name)) for name in plan.scopes()] == [2, 2]
    assert len(plan.etcd("first")) == len(plan.routers) == 3
    assert plan.partition(1).writable() == "127.0.0.1:54323,127.0.0.1:54324"
    assert len(set(plan.ports())) == len(plan.ports())


@pytest.mark.parametrize("option", ["reader", "second site"])
def test_options_that_do_not_go_with_partitions_are_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="with partitions there is no reader"):
        LocalCluster(
            tmp_path, partitions=2, reader=option == "reader", second_site=option == "second site"
        )


def test_a_taken_port_is_named() -> None:
    plan = layout.plan(
        servers=1, nodes=1, fixed_ports=False, subnet="", reader=False, second_site=False
    )
    taken = socket.create_server((layout.LOOPBACK, plan.endpoint_port))
    with taken, pytest.raises(ClusterError) as error:
        layout.check_free(plan)

    assert f"port {plan.endpoint_port}, which is for HAProxy" in str(error.value)

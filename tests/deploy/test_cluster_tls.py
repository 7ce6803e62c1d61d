"""A cluster that speaks TLS everywhere, and what it refuses."""

import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from local_cluster import ClusterError, LocalCluster, programs
from local_cluster.certificates import Authority
from support.http import client
from support.partitions import plproxy_server
from support.programs import not_here

SESSIONS = """
    select backend_type, usename, ssl, version from pg_stat_activity join pg_stat_ssl using (pid)
    where backend_type in ('client backend', 'walsender')
"""


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, server_folder: Path
) -> Iterator[LocalCluster]:
    try:
        programs.find()
    except ClusterError as error:
        not_here(str(error))
    folder = tmp_path_factory.mktemp("tls")
    with LocalCluster(folder, nodes=1, servers=2, tls=True, data_in=server_folder) as cluster:
        yield cluster


def sessions(cluster: LocalCluster) -> list[tuple[Any, ...]]:
    """Return the sessions on the primary, of nodes and standbys and our own."""
    url = make_conninfo(cluster.owner_url, user="postgres", password=cluster.passwords.superuser)
    with psycopg.connect(url) as connection:
        return connection.execute(SESSIONS).fetchall()


def check_sessions(
    cluster: LocalCluster, roles: frozenset[str] = frozenset({"replicator"})
) -> None:
    found = sessions(cluster)

    assert {role for _, role, *_ in found} >= {"skipmq_node", "postgres"} | roles
    assert [session for session in found if not session[2]] == []
    assert {version for *_, version in found} <= {"TLSv1.2", "TLSv1.3"}


def test_sqs_over_https_and_no_session_without_tls_through_a_switchover(
    cluster: LocalCluster,
) -> None:
    sqs = client(cluster.endpoint, ca=cluster.layout.ca)
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="before")
    check_sessions(cluster)

    cluster.switchover()
    sqs.send_message(QueueUrl=queue, MessageBody="after")
    cluster.wait_healthy()

    check_sessions(cluster)
    received = [
        message["Body"]
        for _ in range(2)
        for message in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    ]
    assert queue.startswith(f"https://127.0.0.1:{cluster.layout.endpoint_port}/")
    assert sorted(received) == ["after", "before"]


@pytest.mark.slow
def test_routers_and_partitions_speak_tls(tmp_path: Path) -> None:
    plproxy_server()
    with LocalCluster(tmp_path, nodes=1, partitions=2, servers=2, tls=True) as cluster:
        sqs = client(cluster.endpoint, ca=cluster.layout.ca)
        # Of both partitions: each name has one chance in two.
        for number in range(20):
            queue = sqs.create_queue(QueueName=f"orders-{number}x")["QueueUrl"]
            sqs.send_message(QueueUrl=queue, MessageBody="tea")

        check_sessions(cluster, frozenset())
        for number in (0, 1):
            check_sessions(cluster.partition(number))
        for router in cluster.layout.routers:
            with pytest.raises(psycopg.OperationalError, match="no encryption"):
                connect(cluster, router.postgres, sslmode="disable")


def test_postgresql_takes_no_plain_text(cluster: LocalCluster) -> None:
    for server in cluster.layout.servers:
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            connect(cluster, server.postgres, sslmode="disable")


def connect(cluster: LocalCluster, place: str, **changed: Any) -> None:
    """Connect to one server as the owner of the schema, with other parameters than the nodes'."""
    host, port = place.split(":")
    given = {**conninfo_to_dict(cluster.owner_url), "host": host, "port": port}
    given |= {"target_session_attrs": "any", **changed}
    psycopg.connect(**given).close()


def test_client_that_verifies_the_server_needs_the_right_ca_and_name(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(Authority().pem)
    (first, *_) = cluster.layout.servers
    through_haproxy = f"127.0.0.1:{cluster.layout.primary_port}"

    for place in (first.postgres, through_haproxy):
        connect(cluster, place)
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            connect(cluster, place, sslrootcert=str(other))
        with pytest.raises(psycopg.OperationalError, match="does not match host name"):
            connect(cluster, place, host="elsewhere.example", hostaddr=first.host)


def test_every_door_over_http_takes_tls_alone(cluster: LocalCluster) -> None:
    context = ssl.create_default_context(cafile=cluster.layout.ca)
    addresses = cluster.addresses()
    doors = [addresses["endpoint"], *(part["url"] for part in addresses["nodes"])]
    doors += [server["rest"] for server in addresses["postgres"]]
    etcd = [part["url"] for part in addresses["etcd"]]

    assert {urlsplit(url).scheme for url in (*doors, *etcd)} == {"https"}
    for url in (*doors, *etcd):
        place = urlsplit(url).netloc
        # Go's server says so in plain text, the others say nothing.
        assert ask(HTTPConnection(place, timeout=20)) in {0, 400}
        # etcd takes nobody without a certificate of the cluster's CA.
        status = ask(HTTPSConnection(place, timeout=20, context=context))
        assert (status == 0) == (url in etcd)


def ask(connection: HTTPConnection) -> int:
    """Return the status of an answer, or 0 when there is none."""
    try:
        connection.request("GET", "/health/live")
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def test_keys_are_for_the_account_of_the_servers_alone(cluster: LocalCluster) -> None:
    keys = [*cluster.data.glob("tls/*/server.key"), *cluster.data.glob("tls/*/server.pem")]

    assert len(keys) == 2 * (2 + 1 + 1)
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}

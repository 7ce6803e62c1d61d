"""Health and metrics on a port of their own."""

import contextlib
import json
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from skipmq.server.http.door import METRICS, PAGES, PROBES
from skipmq.server.http.listener import SPARE
from support.http import Answer, NodeProcess, WsgiProcess, client, eventually, free_port, raw
from support.key_commands import MASTER_KEY
from support.postgres import Databases, as_node
from support.wire import exchange

PATHS = ("/health/live", "/health/ready", "/metrics")


@pytest.fixture
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield as_node(url)
    embedded_databases.drop(url)


def readiness(node: NodeProcess) -> Answer:
    """Return what the port of the probes says; nothing of it is known until it is there."""
    with contextlib.suppress(OSError):
        return raw(f"{node.probes_url}/health/ready")
    return Answer(0, {}, b"")


def is_unreachable(node: NodeProcess) -> bool:
    answer = readiness(node)
    return answer.status == 503 and json.loads(answer.body)["database"] == "unreachable"


def test_port_of_the_probes_shows_health_and_metrics_and_nothing_else(url: str) -> None:
    with NodeProcess(database_url=url, workers=2, metrics_port=free_port()) as node:
        client(node.ready().url).create_queue(QueueName="orders")

        metrics = raw(f"{node.probes_url}/metrics")
        live = raw(f"{node.probes_url}/health/live")
        ready = readiness(node)
        others = [
            raw(f"{node.probes_url}{path}", method=method, body=body)
            for path, method, body in [
                ("/", "POST", b"Action=ListQueues"),
                ("/?Action=ListQueues", "GET", None),
                ("/000000000000/orders?Action=ReceiveMessage", "GET", None),
            ]
        ]

    assert "skipmq_waiting_receivers 0.0" in metrics.body
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert (live.status, ready.status) == (200, 200)
    assert '"replication"' in ready.body
    assert {other.status for other in others} == {404}


def test_port_of_sqs_has_no_metrics_then_but_health(url: str) -> None:
    with NodeProcess(database_url=url, workers=1, metrics_port=free_port()) as node:
        node.ready()

        assert raw(f"{node.url}/metrics").status == 404
        assert raw(f"{node.url}/health/ready").status == 200


@pytest.mark.parametrize("choice", ["", "on"])
def test_node_that_checks_signatures_shows_metrics_only_when_asked(url: str, choice: str) -> None:
    with NodeProcess(
        database_url=url, workers=1, auth="on", master_key=MASTER_KEY, metrics_main_port=choice
    ) as node:
        node.ready()

        assert raw(f"{node.url}/metrics").status == (200 if choice else 404)


@pytest.mark.parametrize("door", [NodeProcess, pytest.param(WsgiProcess, marks=pytest.mark.slow)])
def test_only_exact_paths_show_health_and_metrics(url: str, door: type[NodeProcess]) -> None:
    with door(database_url=url, workers=1, metrics_main_port="on") as node:
        node.ready()
        paths = ("/metrics", "/health/live", "/health/ready")
        others = [
            spelled
            for path in paths
            for spelled in (f"/{path}", f"/%2f{path[1:]}", f"//{path}", f"{path}/", f"/.{path}")
        ]

        statuses = {path: exchange(node.port, path=path, method="GET").status for path in others}

        assert set(statuses.values()) == {404}, statuses


def test_foreign_host_gets_neither_health_nor_metrics(url: str) -> None:
    with NodeProcess(
        database_url=url, workers=1, metrics_port=free_port(), metrics_main_port="on"
    ) as node:
        node.ready()
        ports = (node.port, int(node.probes_url.rpartition(":")[2]))
        eventually(lambda: readiness(node).status == 200)

        found = {
            host: [
                exchange(port, path=path, method="GET", headers={"Host": host}).status
                for path in ("/metrics", "/health/live", "/health/ready")
                for port in ports
            ]
            for host in ("evil.example", "10.1.2.3:9324", "localhost", "[::1]:9324")
        }

        # Kubelets and balancers ask by address.
        assert found.pop("evil.example") == [403] * 6
        assert set(map(tuple, found.values())) == {(200,) * 6}


def test_node_that_checks_signatures_answers_probes_of_any_host(url: str) -> None:
    with NodeProcess(
        database_url=url, workers=1, auth="on", master_key=MASTER_KEY, metrics_port=free_port()
    ) as node:
        node.ready()
        eventually(lambda: readiness(node).status == 200)
        ports = (node.port, int(node.probes_url.rpartition(":")[2]))

        for port in ports:
            host = {"Host": "node-1.example"}
            assert exchange(port, path="/health/ready", method="GET", headers=host).status == 200


def test_silent_connections_to_the_probes_leave_nothing_in_the_log(url: str) -> None:
    with NodeProcess(database_url=url, workers=1, metrics_port=free_port()) as node:
        node.ready()
        eventually(lambda: readiness(node).status == 200)
        address = ("127.0.0.1", int(node.probes_url.rpartition(":")[2]))
        with socket.create_connection(address), socket.create_connection(address) as half:
            half.sendall(b"GET /metr")
            assert readiness(node).status == 200  # Both have been accepted by now.

        assert readiness(node).status == 200
    assert "Traceback" not in node.log
    assert "Exception" not in node.log


def test_idle_clients_of_either_port_leave_the_probes_their_answers(url: str) -> None:
    with (
        NodeProcess(
            database_url=url, workers=1, max_connections=16, metrics_port=free_port()
        ) as node,
        ExitStack() as stack,
    ):
        node.ready()
        eventually(lambda: readiness(node).status == 200)
        address = ("127.0.0.1", int(node.probes_url.rpartition(":")[2]))
        for _ in range(16 + SPARE):
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port)))

        assert raw(f"{node.url}/health/live").status == 200
        assert raw(f"{node.url}/health/ready").status == 503
        assert [raw(f"{node.probes_url}{path}").status for path in PATHS] == [200] * 3

        for _ in range(PROBES + SPARE):
            stack.enter_context(socket.create_connection(address))

        assert [raw(f"{node.probes_url}{path}").status for path in PATHS] == [200, 503, 503]


def test_requests_for_metrics_and_pages_that_wait_are_few(
    embedded_databases: Databases, url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    owner = psycopg.conninfo.make_conninfo(embedded_databases.server.url, dbname=name)
    pages = "/console/us-east-1/000000000000/queues"
    with (
        NodeProcess(database_url=url, workers=1, database_deadline=60) as node,
        psycopg.connect(owner) as holder,
        ExitStack() as stack,
    ):
        assert raw(node.ready().url + pages).status == 200
        holder.execute("lock table skipmq.queue in access exclusive mode")
        for path, places in (("/metrics", METRICS), (pages, PAGES)):
            asked = []
            for _ in range(places + 10):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", node.port)))
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                asked.append(connection)

            eventually(lambda asked=asked: len(select.select(asked, [], [], 0)[0]) >= 10)
            answered = [each.recv(4096) for each in select.select(asked, [], [], 0)[0]]

            assert [answer[9:12] for answer in answered] == [b"503"] * 10
            assert raw(f"{node.url}/health/live").status == 200
        holder.rollback()
        eventually(lambda: raw(f"{node.url}/metrics").status == 200)
        eventually(lambda: raw(node.url + pages).status == 200)


def test_probes_show_a_node_that_stops(url: str) -> None:
    with NodeProcess(database_url=url, workers=1, metrics_port=free_port(), stop_delay=600) as node:
        node.ready()
        eventually(lambda: readiness(node).status == 200)

        node.process.send_signal(signal.SIGTERM)

        eventually(lambda: '"stopping"' in readiness(node).body)
        assert readiness(node).status == 503
        assert node.stop() == 0


def test_probes_show_a_database_that_is_away(embedded_databases: Databases, url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    port = free_port()
    with (
        NodeProcess(database_url=url, workers=1, metrics_port=port, failover_wait=1) as node,
        psycopg.connect(embedded_databases.server.url, autocommit=True) as admin,
    ):
        node.ready()
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        eventually(lambda: is_unreachable(node))
        assert raw(f"{node.probes_url}/health/live").status == 200
        admin.execute(f"alter database {name} allow_connections true")

        eventually(lambda: readiness(node).status == 200)


@pytest.mark.parametrize("is_same", [True, False])
def test_port_that_is_taken_is_named(url: str, is_same: bool) -> None:
    with NodeProcess(database_url=url, workers=1) as first:
        first.ready()
        port = free_port()
        second = NodeProcess(
            database_url=url, port=port, metrics_port=port if is_same else first.port
        )
        with second:
            assert second.process.wait(60) == 1
    expected = "port {} is the port of SQS" if is_same else "cannot listen on 127.0.0.1 port {}"

    assert expected.format(port if is_same else first.port) in second.log
    assert "SKIPMQ_METRICS_PORT" in second.log


def test_clock_skew_is_shown_where_signatures_are_checked(url: str) -> None:
    settings = {"auth": "on", "master_key": MASTER_KEY, "metrics_port": free_port()}
    with NodeProcess(database_url=url, workers=1, **settings) as node:
        node.ready()

        for url_ in (node.url, node.probes_url):
            found = json.loads(raw(f"{url_}/health/ready").body)
            assert abs(float(found["clock_skew_seconds"])) < 60

"""Health and metrics on a port of their own."""

import contextlib
import json
import signal
from collections.abc import Iterator

import psycopg
import pytest

from support.http import Answer, NodeProcess, client, eventually, free_port, raw
from support.key_commands import MASTER_KEY
from support.postgres import Databases, as_node


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


def test_probes_show_a_node_that_has_not_begun_and_one_that_stops(url: str) -> None:
    with NodeProcess(database_url=url, workers=1, metrics_port=free_port(), stop_delay=600) as node:
        eventually(lambda: "no worker answers" in readiness(node).body)
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
    expected = "port {} is that of SQS" if is_same else "cannot listen on 127.0.0.1 port {}"

    assert expected.format(port if is_same else first.port) in second.log
    assert "SKIPMQ_METRICS_PORT" in second.log


def test_clock_skew_is_shown_by_whoever_knows_the_databases_clock(url: str) -> None:
    """The process that serves the probes checks no signatures, and reads no keys."""
    settings = {"auth": "on", "master_key": MASTER_KEY, "metrics_port": free_port()}
    with NodeProcess(database_url=url, workers=1, **settings) as node:
        node.ready()

        eventually(lambda: readiness(node).status == 200)
        assert "clock_skew_seconds" not in readiness(node).body
        found = json.loads(raw(f"{node.url}/health/ready").body)
        assert abs(float(found["clock_skew_seconds"])) < 60

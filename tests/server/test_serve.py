"""The node as a process: start, stop, death, and what it says when it cannot start."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from skipmq.broker.messages.notifier import CHANNEL, WAITING
from skipmq.server.processes import worker
from support import forks
from support.http import (
    ACCOUNT,
    ROOT,
    SKIPMQ,
    NodeProcess,
    client,
    environment,
    eventually,
    free_port,
    raw,
)
from support.postgres import Connection, Databases, as_node


@pytest.fixture
def node_url(embedded_databases: Databases) -> str:
    return as_node(embedded_databases.migrated())


def until_waited_on(listening: Connection, *queues: str) -> None:
    """Wait until a node has said of each queue that somebody waits on it."""
    missing = {queue.rpartition("/")[2] for queue in queues}
    for said in listening.notifies(timeout=60):
        _, kind, *named = said.payload.split(" ")
        if kind == WAITING:
            missing -= {arn.rpartition(":")[2] for arn in named}
        if not missing:
            return
    pytest.fail(f"nobody waits on {missing}")


def refused(*options: str, **settings: object) -> str:
    """Return the one line with which a node refuses to start."""
    done = forks.run([*SKIPMQ, "serve", *options], environment(settings))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


def test_start_says_where_it_serves_and_how_long_it_took(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=1) as node:
        node.ready()

        line = eventually(lambda: [text for text in node.lines if "serves SQS at" in text])[0]

    assert f"http://localhost:{node.port}" in line
    assert "ready in" in line


def test_stop_lets_a_waiting_receiver_answer(node_url: str) -> None:
    with (
        NodeProcess(database_url=node_url, workers=2) as node,
        psycopg.connect(node_url, autocommit=True) as listening,
        ThreadPoolExecutor() as pool,
    ):
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        listening.execute(f"listen {CHANNEL}")
        waiting = pool.submit(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=20)
        until_waited_on(listening, queue)
        assert not waiting.done()

        code = node.stop()

        assert "Messages" not in waiting.result()
        assert code == 0
    assert node.lines[-1] == "skipmq: stopped"


def test_node_that_stops_serves_until_its_delay_or_patience_ends(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=2, stop_delay=600) as node:
        sqs = client(node.ready().url)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]

        node.process.send_signal(signal.SIGTERM)

        eventually(lambda: "stopping" in raw(f"{node.url}/health/ready").body)
        sqs.send_message(QueueUrl=queue, MessageBody="hello")
        assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "hello"
        # A second signal is of somebody who waits no longer.
        assert node.stop() == 0


def test_workers_end_when_the_main_process_is_killed(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=2) as node:
        workers = psutil.Process(node.ready().process.pid).children(recursive=True)

        os.kill(node.process.pid, signal.SIGKILL)

        assert len(workers) >= 2
        psutil.wait_procs(workers, timeout=30)
        assert not [w for w in workers if w.is_running()]


def test_worker_that_is_killed_is_replaced(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=2) as node:
        before = {each.pid for each in node.ready().workers()}

        node.workers()[0].kill()

        eventually(lambda: {w.pid for w in node.workers()} - before and len(node.workers()) == 2)
        node.ready()
    assert "killed by SIGKILL" in node.log


def test_second_node_on_the_port_is_refused_with_the_remedy(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=1) as node:
        node.ready()

        line = refused(database_url=node_url, port=node.port)

    assert f"cannot listen on 127.0.0.1 port {node.port}" in line
    assert "--port" in line


def test_port_of_another_program_is_refused_with_the_remedy(node_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        line = refused(database_url=node_url, port=other.getsockname()[1])

    assert "choose another with --port" in line


def test_database_that_is_away_is_one_line() -> None:
    url = f"postgresql://u:secret@127.0.0.1:{free_port()}/x"

    line = refused(database_url=url, port=free_port())

    assert "the database cannot be reached" in line
    assert "SKIPMQ_DATABASE_URL" in line
    assert "secret" not in line


def test_database_without_schema_is_refused_with_the_remedy(embedded_databases: Databases) -> None:
    line = refused(database_url=embedded_databases.empty(), port=free_port())

    assert "run `skipmq migrate`" in line


def test_address_open_to_others_needs_to_be_told_insecure(node_url: str) -> None:
    line = refused("--host", "0.0.0.0", database_url=node_url, port=free_port())  # noqa: S104
    assert "--insecure" in line

    with NodeProcess("--host", "0.0.0.0", "--insecure", database_url=node_url) as node:  # noqa: S104
        node.ready()


def test_public_url_is_the_base_of_queue_urls(node_url: str) -> None:
    with NodeProcess(
        database_url=node_url, workers=1, public_url="https://sqs.example.test/"
    ) as node:
        url = client(node.ready().url).create_queue(QueueName="orders")["QueueUrl"]

    assert url == "https://sqs.example.test/000000000000/orders"


def test_cooldowns_can_be_turned_off(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=1, purge_cooldown=0, name_cooldown=0) as node:
        sqs = client(node.ready().url)
        for _ in range(2):
            url = sqs.create_queue(QueueName="orders")["QueueUrl"]
            sqs.purge_queue(QueueUrl=url)
            sqs.purge_queue(QueueUrl=url)
            sqs.delete_queue(QueueUrl=url)


def test_declared_queues_are_there_from_the_start(node_url: str, tmp_path: Path) -> None:
    file = tmp_path / "skipmq.toml"
    file.write_text("[queues.orders]\nVisibilityTimeout = 60\n[queues.mails]\n")
    with NodeProcess(database_url=node_url, workers=1, config=file) as node:
        sqs = client(node.ready().url)
        url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        sqs.get_queue_url(QueueName="mails")
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert found["Attributes"] == {"VisibilityTimeout": "60"}

    file.write_text("[queues.orders]\nVisibilityTimeout = 43201\n")
    line = refused(database_url=node_url, config=file, port=free_port())
    assert "orders" in line
    assert "VisibilityTimeout" in line


def test_example_file_declares_queues(node_url: str, tmp_path: Path) -> None:
    example = (ROOT / "deploy" / "env" / "skipmq.toml.example").read_text()
    file = tmp_path / "skipmq.toml"
    file.write_text(example.replace("port = 9324\n", ""))
    with NodeProcess(database_url=node_url, workers=1, config=file) as node:
        urls = client(node.ready().url).list_queues()["QueueUrls"]
        assert "differs from its declaration" not in node.log

    assert {url.rpartition("/")[2] for url in urls} >= {"orders-dead", "payments.fifo"}


def test_declared_queues_may_name_each_other_in_any_order(node_url: str, tmp_path: Path) -> None:
    file = tmp_path / "skipmq.toml"
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}"
    file.write_text(f"""
        [queues.first]
        RedrivePolicy = {{ deadLetterTargetArn = "{arn}:second", maxReceiveCount = 3 }}
        [queues.second]
        [queues.second.RedriveAllowPolicy]
        redrivePermission = "byQueue"
        sourceQueueArns = ["{arn}:first"]
        """)
    with NodeProcess(database_url=node_url, workers=1, config=file) as node:
        sqs = client(node.ready().url)
        url = sqs.get_queue_url(QueueName="first")["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
        assert json.loads(found["Attributes"]["RedrivePolicy"])["maxReceiveCount"] == 3
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "7"})

    # Whoever has changed it meant it: the node starts, and says what differs.
    file.write_text(
        file.read_text().replace("maxReceiveCount = 3", "maxReceiveCount = 4")
        + "[queues.third]\nDelaySeconds = 1\n"
    )
    for delay in ("1", "2"):
        file.write_text(file.read_text().replace("DelaySeconds = 1", f"DelaySeconds = {delay}"))
        with NodeProcess(database_url=node_url, workers=1, config=file) as node:
            node.ready()
            differing = [line for line in node.lines if "differs from its declaration" in line]
            assert any("first" in line and "RedrivePolicy" in line for line in differing)
            assert any("third" in line for line in differing) == (delay == "2")
            assert not any("second" in line and "Allow" in line for line in differing)


def test_readiness_turns_red_without_database_and_green_again(
    embedded_databases: Databases, node_url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(node_url)["dbname"]
    with (
        NodeProcess(database_url=node_url, workers=1, failover_wait=1) as node,
        psycopg.connect(embedded_databases.server.url, autocommit=True) as admin,
    ):
        node.ready()
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        eventually(lambda: raw(node.url + "/health/ready").status == 503)
        live = raw(node.url + "/health/live").status
        queue = f"{node.url}/000000000000/orders"
        answer = raw(queue, b"Action=ReceiveMessage")

        admin.execute(f"alter database {name} allow_connections true")
        eventually(lambda: raw(node.url + "/health/ready").status == 200)

    assert live == 200
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "<Code>ServiceUnavailable</Code>" in answer.body


def test_ctrl_c_in_the_terminal_stops_at_once_with_receivers_waiting(node_url: str) -> None:
    with (
        NodeProcess(database_url=node_url, workers=2) as node,
        psycopg.connect(node_url, autocommit=True) as listening,
        ThreadPoolExecutor() as pool,
    ):
        sqs = client(node.ready().url)
        queues = [sqs.create_queue(QueueName=f"orders-{n}")["QueueUrl"] for n in range(4)]
        listening.execute(f"listen {CHANNEL}")
        waiting = [
            pool.submit(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=20) for queue in queues
        ]
        until_waited_on(listening, *queues)

        os.killpg(node.process.pid, signal.SIGINT)

        assert node.process.wait(timeout=15) == 0
        assert all("Messages" not in each.result() for each in waiting)


def test_workers_are_deaf_to_ctrl_c_from_their_first_moment(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=2) as node:
        workers = psutil.Process(node.ready().process.pid).children()
        masks = [
            int(re.findall(r"SigBlk:\s*([0-9a-f]+)", text)[0], 16)
            for text in (Path(f"/proc/{worker.pid}/status").read_text() for worker in workers)
            if "python" in text.partition("\n")[0]
        ]

    # Inherited from whoever started them: the resource tracker is one of these too.
    assert len(masks) >= 2
    assert all(mask >> (signal.SIGINT - 1) & 1 for mask in masks[-2:])


def test_closed_terminal_stops_the_node(node_url: str) -> None:
    with NodeProcess(database_url=node_url, workers=1) as node:
        node.ready()

        os.killpg(node.process.pid, signal.SIGHUP)

        assert node.process.wait(timeout=60) == 0


def test_two_nodes_started_at_once_on_one_port_are_one_node(node_url: str) -> None:
    port = free_port()
    with (
        NodeProcess(database_url=node_url, workers=1, port=port) as one,
        NodeProcess(database_url=node_url, workers=1, port=port) as two,
    ):
        eventually(lambda: [n for n in (one, two) if n.process.poll() is not None])
        refused_, serving = sorted((one, two), key=lambda node: node.process.poll() is None)

        serving.ready()
        eventually(lambda: "cannot listen on" in refused_.log)


def test_host_may_be_a_name(node_url: str) -> None:
    with NodeProcess("--host", "localhost", database_url=node_url, workers=1) as node:
        node.url = f"http://localhost:{node.port}"
        node.ready()


def test_host_that_is_not_ours_is_refused(node_url: str) -> None:
    line = refused("--host", "192.0.2.1", "--insecure", database_url=node_url, port=free_port())

    assert "cannot listen on 192.0.2.1" in line


def test_worker_that_dies_while_the_database_is_away_comes_back_with_it(
    embedded_databases: Databases, node_url: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(node_url)["dbname"]
    with (
        NodeProcess(database_url=node_url, workers=2) as node,
        psycopg.connect(embedded_databases.server.url, autocommit=True) as admin,
    ):
        (first, _) = node.ready().workers()
        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        first.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            node.process.wait(timeout=4)

        admin.execute(f"alter database {name} allow_connections true")

        node.ready()


def test_worker_takes_no_more_connections_than_it_may_open_files() -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert worker.connections(100) == 100
    assert worker.connections(2**62) == allowed - worker.OTHER_FILES


@pytest.mark.parametrize(("files", "expected"), [(400, 144), (280, 24), (64, 16)])
def test_worker_that_may_open_few_files_keeps_some_for_itself(files: int, expected: int) -> None:
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}));"
        " from skipmq.server.processes import worker; print(worker.connections(32_768))"
    )

    assert int(subprocess.check_output([sys.executable, "-c", program])) == expected

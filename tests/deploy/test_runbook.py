"""Faults in a cluster: each raises its alarm, and what the runbook says ends it.

Prometheus runs with the rules as they are shipped, but a minute of theirs is a second here.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_cluster import ClusterError, LocalCluster, programs
from support.http import ROOT, SKIPMQ, client, environment, eventually
from support.programs import not_here
from support.prometheus import Prometheus

pytestmark = pytest.mark.slow

RULES = ROOT / "deploy" / "prometheus" / "skipmq.rules.yml"
RUNBOOK = (ROOT / "app" / "docs" / "operate" / "runbook.md").read_text()
NODES = 2
SECONDS = {"s": 1, "m": 60, "h": 3600}


def hurried(rules: str) -> str:
    """Return rules whose minutes are seconds, at least one."""

    def shorter(found: re.Match[str]) -> str:
        return f"{found[1]}{max(1, int(found[2]) * SECONDS[found[3]] // 60)}s"

    rules = re.sub(r"(for: |\[|offset )(\d+)([smh])\b", shorter, rules)
    for long, short in (
        ("seconds) > 600", "seconds) > 10"),
        ("metrics_age_seconds[5s]) > 30", "metrics_age_seconds[5s]) > 3"),
    ):
        assert long in rules
        rules = rules.replace(long, short)
    return rules


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    try:
        programs.find()
    except ClusterError as error:
        not_here(str(error))
    with LocalCluster(
        tmp_path_factory.mktemp("runbook"), nodes=NODES, node_environment={"SKIPMQ_WORKERS": "2"}
    ) as started:
        yield started


@pytest.fixture(scope="module")
def prometheus(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    rules = folder / "rules.yml"
    rules.write_text(hurried(RULES.read_text()))
    found = cluster.addresses()
    targets = {
        "skipmq": [node["url"].removeprefix("http://") for node in found["nodes"]],
        "patroni": [server["rest"].removeprefix("http://") for server in found["postgres"]],
        "etcd": [etcd["url"].removeprefix("http://") for etcd in found["etcd"]],
    }
    with Prometheus(folder, rules, targets) as started:
        yield started


@dataclass
class Night:
    """What whoever is paged has at hand."""

    cluster: LocalCluster
    prometheus: Prometheus

    @property
    def sqs(self) -> Any:
        return client(self.cluster.endpoint)

    def queue(self, name: str, **attributes: str) -> str:
        """Create a queue; wait until Prometheus has seen it, as it sees what rises from then on."""
        made = self.sqs.create_queue(QueueName=name, Attributes=attributes)
        series = f'skipmq_queue_number_of_messages_sent_total{{queue="{name}"}}'
        eventually(lambda: len(self.prometheus.ask("query", query=series)["result"]) == NODES)
        return str(made["QueueUrl"])

    def skipmq(self, *words: str) -> str:
        """Run a command as an operator does, with the URL of the schema's owner."""
        done = subprocess.run(
            [*SKIPMQ, *words],
            env=environment({"database_url": self.cluster.owner_url}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def psql(self, *statements: str) -> list[Any]:
        """Run statements of the runbook on the primary, as superuser; return the last's rows."""
        rows: list[Any] = []
        password = self.cluster.passwords.superuser
        # One that is read-only is the primary too.
        session = {"user": "postgres", "password": password, "target_session_attrs": "primary"}
        url = make_conninfo(self.cluster.owner_url, **session)
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def rises(self, alarm: str) -> None:
        assert f"`{alarm}`" in RUNBOOK
        eventually(lambda: alarm in self.prometheus.firing(), 90, alarm)

    def ends(self, alarm: str) -> None:
        eventually(lambda: alarm not in self.prometheus.firing(), 90, f"{alarm} goes on")


@pytest.fixture
def night(cluster: LocalCluster, prometheus: Prometheus) -> Iterator[Night]:
    yield Night(cluster, prometheus)
    cluster.wait_healthy(120)


@contextmanager
def working(work: Callable[[], None]) -> Iterator[None]:
    """Do something again and again meanwhile."""
    ended = Event()

    def run() -> None:
        while not ended.wait(0.05):
            work()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def consume(sqs: Any, queue: str) -> None:
    for message in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", []):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_nobody_receives(night: Night) -> None:
    sqs, queue = night.sqs, night.queue("forgotten")
    with working(lambda: sqs.send_message(QueueUrl=queue, MessageBody="a")):
        night.rises("QueueNotReceived")
    assert "forgotten" in night.skipmq("queue", "stats", "--order", "messages")

    with working(lambda: consume(night.sqs, queue)):
        night.ends("QueueNotReceived")


def test_too_few_consumers(night: Night) -> None:
    sqs, other, queue = night.sqs, night.sqs, night.queue("slow")

    def consume_one() -> None:
        (message,) = other.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
        other.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        Event().wait(0.5)

    def send() -> None:
        entries = [{"Id": f"{n}", "MessageBody": "a"} for n in range(10)]
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    send()
    with working(send), working(consume_one):
        night.rises("QueueBehind")

    night.skipmq("queue", "purge", "slow", "--yes")
    night.ends("QueueBehind")


def test_messages_that_consumers_cannot_do(night: Night) -> None:
    sqs = night.sqs
    night.queue("failed")
    arn = "arn:aws:sqs:us-east-1:000000000000:failed"
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "1"}}'
    queue = night.queue("orders", RedrivePolicy=policy, VisibilityTimeout="0")
    sqs.send_message(QueueUrl=queue, MessageBody='{"order": 4711, "total": null}')
    with working(lambda: sqs.receive_message(QueueUrl=queue)):
        night.rises("DeadLetters")
    assert '"total": null' in night.skipmq("queue", "peek", "failed", "--limit", "5")

    night.skipmq("queue", "redrive", "failed", "--rate", "50", "--yes")
    consume(sqs, queue)
    night.ends("DeadLetters")
    assert "no matching messages" in night.skipmq("queue", "peek", "failed")


def test_poison_message(night: Night) -> None:
    sqs, queue = night.sqs, night.queue("mails", VisibilityTimeout="0")
    sqs.send_message(QueueUrl=queue, MessageBody='{"to":"a"}')
    with working(lambda: sqs.receive_message(QueueUrl=queue)):
        night.rises("Redelivery")
        night.skipmq("queue", "create", "mails-failed")
        arn = "arn:aws:sqs:us-east-1:000000000000:mails-failed"
        policy = f'RedrivePolicy={{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "5"}}'
        night.skipmq("queue", "set", "mails", policy)
        night.ends("Redelivery")
    assert '{"to":"a"}' in night.skipmq("queue", "peek", "mails-failed")


def test_group_whose_consumer_hangs(night: Night) -> None:
    sqs, queue = night.sqs, night.queue("ledger.fifo", FifoQueue="true")
    for n in range(2):
        extra = {"MessageGroupId": "account-7", "MessageDeduplicationId": f"{n}"}
        sqs.send_message(QueueUrl=queue, MessageBody=f"{n}", **extra)
    (held,) = sqs.receive_message(QueueUrl=queue, VisibilityTimeout=600)["Messages"]
    with working(lambda: sqs.receive_message(QueueUrl=queue)):
        night.rises("ReceiversIdle")
    assert "in-flight for" in night.skipmq("queue", "peek", "ledger.fifo")

    sqs.delete_message(QueueUrl=queue, ReceiptHandle=held["ReceiptHandle"])
    with working(lambda: consume(night.sqs, queue)):
        night.ends("ReceiversIdle")


def test_read_only_database(night: Night) -> None:
    night.psql("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
    night.rises("DatabaseReadOnly")

    night.psql("alter system reset default_transaction_read_only", "select pg_reload_conf()")
    night.ends("DatabaseReadOnly")


def test_lost_privilege(night: Night) -> None:
    with psycopg.connect(night.cluster.owner_url, autocommit=True) as owner:
        owner.execute("revoke execute on all functions in schema skipmq from skipmq_node")
    night.rises("DatabasePrivilegeLost")

    night.skipmq("migrate")
    night.ends("DatabasePrivilegeLost")


def test_transaction_that_is_forgotten(night: Night) -> None:
    held = psycopg.connect(night.cluster.owner_url)
    held.execute("select pg_current_xact_id()")
    night.rises("SnapshotHeld")
    section = RUNBOOK.partition("### What waits")[2]
    (find,) = re.findall(r'psql -d skipmq -c "(select pid.*?)"', section, re.DOTALL)
    assert held.info.backend_pid in [row[0] for row in night.psql(find)]

    night.psql(f"select pg_terminate_backend({held.info.backend_pid})")
    night.ends("SnapshotHeld")
    held.close()


def test_process_of_a_node_hangs(night: Night) -> None:
    pid = night.cluster.addresses()["nodes"][0]["pid"]
    worker = next(
        child
        for child in psutil.Process(pid).children()
        if "spawn_main" in " ".join(child.cmdline())
    )
    worker.send_signal(signal.SIGSTOP)
    night.rises("NodeHangs")

    # What `systemctl restart` does with one that does not end.
    worker.kill()
    os.kill(pid, signal.SIGKILL)
    night.ends("NodeHangs")


@pytest.mark.parametrize(
    ("part", "alarm"),
    [("postgres3", "ServerDown"), ("etcd3", "EtcdMemberDown"), ("node2", "NodeDown")],
)
def test_part_is_down(night: Night, part: str, alarm: str) -> None:
    found = night.cluster.addresses()
    every = (*found["nodes"], *found["etcd"], *found["postgres"])
    (named,) = (each for each in every if each["name"] == part)
    night.cluster.supervise(part, on=False)
    for name in ("pid", "patroni_pid", "postmaster_pid"):
        if pid := named.get(name):
            os.kill(pid, signal.SIGKILL)
    night.rises(alarm)

    night.cluster.supervise(part, on=True)
    night.cluster.start_part(part)
    night.ends(alarm)


def test_no_standby(night: Night) -> None:
    leader = night.cluster.leader()
    standbys = [
        server for server in night.cluster.addresses()["postgres"] if server["name"] != leader
    ]
    for server in standbys:
        night.cluster.supervise(server["name"], on=False)
        os.kill(server["patroni_pid"], signal.SIGKILL)
        os.kill(server["postmaster_pid"], signal.SIGKILL)
    night.rises("NoQuorumStandby")

    for server in standbys:
        night.cluster.supervise(server["name"], on=True)
        night.cluster.start_part(server["name"])
    night.ends("NoQuorumStandby")

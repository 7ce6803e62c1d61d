"""Workers over HTTP as processes that sign, whose node goes away, and whose keys may do little."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipmq import App, DeadLetter, Discard, Queue, Retry
from support.access import known
from support.http import ROOT, NodeProcess, client, eventually
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.worker import WorkerProcess

ORDERS = Queue("orders", dict)
RESOURCE = f"arn:aws:sqs:us-east-1:{ACCOUNT}:"
MESSAGES = 120


def start(url: str, **settings: Any) -> NodeProcess:
    return NodeProcess(database_url=as_node(url), auth="on", master_key=MASTER_KEY, **settings)


@pytest.fixture
def url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture
def keys(url: str) -> Keys:
    return Keys(url)


@pytest.fixture
def admin(keys: Keys) -> dict[str, str]:
    return keys.create()


@pytest.fixture
def sign(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what sets the variables that a worker signs by."""

    def signed(made: dict[str, str]) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", made["key"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", made["secret"])
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)

    return signed


def queues(node: NodeProcess, admin: dict[str, str]) -> Any:
    """Create the queues; return boto's client."""
    sqs = client(node.url, **admin)
    sqs.create_queue(QueueName="failed")
    policy = {"deadLetterTargetArn": f"{RESOURCE}failed", "maxReceiveCount": 100}
    sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": json.dumps(policy)})
    return sqs


def counts(sqs: Any, queue: str) -> tuple[int, int]:
    """Return how many messages are visible, and how many in flight."""
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    name = "ApproximateNumberOfMessages"
    return int(found[name]), int(found[f"{name}NotVisible"])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def fill(node: NodeProcess, file: Path, gate: Path) -> set[str]:
    """Send what a worker does until it is held up by the gate."""
    gate.touch()
    names = [str(n) for n in range(MESSAGES)]
    bodies = [{"file": str(file), "gate": str(gate), "name": name} for name in names]
    ORDERS.send_many(bodies, using=node.url)
    return set(names)


def test_worker_goes_on_when_its_node_has_gone_and_come_back(
    url: str, admin: dict[str, str], sign: Any, tmp_path: Path
) -> None:
    sign(admin)
    file, gate = tmp_path / "done", tmp_path / "gate"
    with start(url) as first:
        queues(first.ready(), admin)
        names = fill(first, file, gate)
        with WorkerProcess("worker_apps:remote", "--dsn", first.url) as worker:
            eventually(gate.with_suffix(".held").exists, why="held up")
            first.kill()
            gate.unlink()
            eventually(lambda: "the broker is unavailable, trying" in worker.log, why="noticed")
            assert len(set(lines(file))) < MESSAGES

            with start(url, port=first.port) as second:
                second.ready()
                sqs = client(second.url, **admin)
                eventually(
                    lambda: counts(sqs, "orders") == (0, 0), seconds=60, why="all are deleted"
                )
                assert set(lines(file)) == names
                worker.signal(signal.SIGTERM)
                assert worker.ended() == 0

    # What was done and not deleted yet was deleted by the second node, and not done again.
    assert len(lines(file)) == MESSAGES
    assert f"({MESSAGES} done" in worker.lines[-1]


def test_worker_is_stopped_while_its_node_is_away(
    url: str, admin: dict[str, str], sign: Any, tmp_path: Path
) -> None:
    sign(admin)
    gate = tmp_path / "gate"
    with start(url) as node:
        queues(node.ready(), admin)
        fill(node, tmp_path / "done", gate)
        with WorkerProcess("worker_apps:remote", "--dsn", node.url, "--grace", "1") as worker:
            eventually(gate.with_suffix(".held").exists, why="held up")
            node.kill()
            gate.unlink()
            eventually(lambda: "the broker is unavailable, trying" in worker.log, why="noticed")
            worker.signal()
            code = worker.ended()

    # Its messages could not be returned: they are visible again after their timeout.
    assert code == 1
    assert "did not end within 1 seconds" in worker.lines[-1]


def policy(path: Path, rights: dict[str, list[str]]) -> Path:
    """Write a policy that allows actions on queues."""
    statements = [
        {
            "Effect": "Allow",
            "Action": [f"sqs:{action}" for action in actions],
            "Resource": RESOURCE + queue,
        }
        for queue, actions in rights.items()
    ]
    path.write_text(json.dumps({"Version": "2012-10-17", "Statement": statements}))
    return path


def app(url: str) -> App:
    app = App(url)

    @app.consumer(ORDERS, concurrency=4, retry=Retry.backoff(600, most=600))
    def sell(order: dict[str, Any]) -> None:
        match order["do"]:
            case "discard":
                raise Discard("unwanted")
            case "dead":
                raise DeadLetter("no such item")
            case "retry":
                raise Retry("later", after=600)

    return app


def test_rights_that_the_page_names_suffice(
    url: str, keys: Keys, admin: dict[str, str], sign: Any, tmp_path: Path
) -> None:
    rights = {
        "orders": ["GetQueueUrl", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"]
    }
    page = (ROOT / "app/docs/guides/consumer.md").read_text(encoding="utf-8")
    sentence = page.partition("The key needs ")[2].partition("([keys]")[0]
    named = [word.removeprefix("sqs:") for word in sentence.split("`")[1::2]]
    assert named == rights["orders"]
    with start(url) as node:
        sqs = queues(node.ready(), admin)
        sign(admin)
        ORDERS.send_many(
            [{"do": each} for each in ("sell", "discard", "dead", "retry")], using=node.url
        )
        key = keys.create(ACCOUNT, "--policy", str(policy(tmp_path / "policy.json", rights)))
        known(client(node.url, **key))
        sign(key)

        outcomes = app(node.url).run(once=True)

        assert outcomes == {"done": 1, "discarded": 1, "dead-lettered": 1, "retried": 1}
        assert (counts(sqs, "orders"), counts(sqs, "failed")) == ((0, 1), (1, 0))

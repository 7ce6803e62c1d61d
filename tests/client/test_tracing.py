"""Traces of the client: OpenTelemetry's SDK in programs of their own, by SQL and over HTTP."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from skipmq import Queue
from support.applications import applications_of, receive
from support.http import ROOT, NodeProcess, client, environment
from support.postgres import Connection, Databases, as_node
from support.sql import Queue as Made
from support.sql import number

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OURS = "messaging.skipmq"
Run = Callable[[str, str], tuple[list[Any], list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        node.owner_url = url
        yield node.ready()


@pytest.fixture(scope="module")
def shop(node: NodeProcess) -> Iterator[str]:
    """Give the URL of an application, whose queues all tests use."""
    names = ["orders", "orders.fifo"]
    with applications_of(node.owner_url) as made:
        for name in names:
            Made(made.owner, name)
        made.create("shop").grant("shop", send=names, receive=names)
        yield made.url("shop")


@pytest.fixture(autouse=True)
def owner(node: NodeProcess, shop: str) -> Iterator[Connection]:
    """Give a connection of the owner; the queues are empty again after a test."""
    assert shop
    with psycopg.connect(node.owner_url, autocommit=True) as connection:
        yield connection
        for name in ("orders", "orders.fifo"):
            connection.execute("select skipmq.purge_queue(skipmq.queue_id(%s), '0')", (name,))
        set_attribute(connection, "orders", "RedrivePolicy", "")


@pytest.fixture(params=["SQL", "HTTP"])
def url(request: pytest.FixtureRequest, shop: str) -> str:
    """Give the URL of an app, of the database and of a node in turn."""
    return shop if request.param == "SQL" else str(request.getfixturevalue("node").url)


@pytest.fixture(scope="module")
def programs() -> Iterator[subprocess.Popen[str]]:
    """Give what runs a program for each line that it gets."""
    with subprocess.Popen(
        [sys.executable, ROOT / "tests" / "client" / "traced.py"],
        env=environment({}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        yield running


@pytest.fixture
def run(programs: subprocess.Popen[str]) -> Run:
    """Give what runs a program; it returns what that said, and its spans by their ends."""

    def run(scenario: str, url: str) -> tuple[list[Any], list[dict[str, Any]]]:
        assert programs.stdin is not None
        assert programs.stdout is not None
        print(scenario, url, file=programs.stdin, flush=True)
        found = json.loads(programs.stdout.readline())
        return found["said"], found["spans"]

    return run


def set_attribute(owner: Connection, queue: str, name: str, value: str) -> None:
    statement = "select skipmq.set_queue_attributes(skipmq.queue_id(%s), %s::jsonb)"
    owner.execute(statement, (queue, json.dumps({name: value})))


def named(spans: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [span for span in spans if span["name"] == name]


def test_spans_of_sender_and_consumer_are_one_trace(url: str, run: Run) -> None:
    said, spans = run("one", url)

    by_name = {span["name"]: span for span in spans}
    lineage = [by_name[n] for n in ("request", "send orders", "process orders", "sell")]
    assert len(spans) == len(lineage)
    assert len({span["trace"] for span in spans}) == 1
    assert [span["parent"] for span in lineage] == [None, *(span["id"] for span in lineage[:-1])]
    assert [span["kind"] for span in lineage] == ["INTERNAL", "PRODUCER", "CONSUMER", "INTERNAL"]
    sent = by_name["send orders"]["attributes"]
    assert sent == {
        "messaging.system": "skipmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
    }
    processed = by_name["process orders"]
    assert processed["attributes"].pop("messaging.message.id")
    assert processed["attributes"] == sent | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        f"{OURS}.receive_count": 1,
        f"{OURS}.outcome": "done",
    }
    assert processed["status"] == "UNSET"
    assert said == [[["baggage", "own", "traceparent"], "blue"]]


def test_program_that_exports_nothing_adds_nothing(shop: str, run: Run) -> None:
    said, spans = run("untraced", shop)

    # The baggage goes where the program says so; there is no span to go with it.
    assert said == [[["baggage", "own"], "blue"]]
    assert spans == []


def test_span_has_the_outcome_and_the_error(url: str, owner: Connection, run: Run) -> None:
    policy = {"deadLetterTargetArn": Queue(Made(owner, "failed").name).arn, "maxReceiveCount": 100}
    set_attribute(owner, "orders", "RedrivePolicy", json.dumps(policy))
    owner.execute("select skipmq.send_message('orders', 'no JSON')")

    ((counts,), spans) = run("outcomes", url)

    assert counts == {"done": 1, "retried": 2, "discarded": 1, "dead-lettered": 2}
    processed = named(spans, "process orders")
    assert {
        (each["attributes"][f"{OURS}.outcome"], each["attributes"].get("error.type"))
        for each in processed
    } == {
        ("done", None),
        ("discarded", None),
        ("retried", "Retry"),
        ("retried", "ValueError"),
        ("dead-lettered", "DeadLetter"),
        ("dead-lettered", "DecodeError"),
    }
    errors = {each["attributes"].get("error.type"): each for each in processed}
    assert {kind: errors[kind]["errors"] for kind in ("Retry", "ValueError", "DeadLetter")} == {
        "Retry": ["later"],
        "ValueError": ["broken"],
        "DeadLetter": ["no such item"],
    }
    for each in processed:
        is_error = "error.type" in each["attributes"]
        assert (each["status"], bool(each["reason"])) == (
            "ERROR" if is_error else "UNSET",
            is_error,
        )


def test_batch_is_a_span_with_links_to_its_senders(url: str, run: Run) -> None:
    ((counts,), spans) = run("batch", url)

    (processed,) = named(spans, "process orders")
    senders = named(spans, "send orders")
    assert counts == {"done": 5}
    assert processed["parent"] is None
    assert processed["trace"] not in {span["trace"] for span in senders}
    assert processed["attributes"]["messaging.batch.message_count"] == 5
    # The last send was of two messages.
    expected = [[s["trace"], s["id"]] for s in senders]
    assert sorted(processed["links"]) == sorted([*expected, expected[-1]])
    assert senders[-1]["attributes"]["messaging.batch.message_count"] == 2


def test_message_of_another_is_a_child_of_its_trace_header(
    url: str, node: NodeProcess, run: Run
) -> None:
    sqs = client(node.url)
    header = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"
    sqs.send_message(
        QueueUrl=sqs.get_queue_url(QueueName="orders")["QueueUrl"],
        MessageBody="{}",
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": header}},
    )

    said, spans = run("receive", url)

    (processed,) = named(spans, "process orders")
    assert (processed["trace"], processed["parent"]) == (int(TRACE, 16), int(SPAN, 16))
    assert said == [[]]


@pytest.mark.parametrize("value", [None, "none", 7, b"00"])
def test_message_without_a_context_begins_a_trace(
    shop: str, sender: Connection, value: str | float | bytes | None, run: Run
) -> None:
    given = {} if value is None else {"traceparent": value}
    Queue("orders", dict).send({}, using=sender, attributes=given)

    said, spans = run("receive", shop)

    (processed,) = named(spans, "process orders")
    (unrelated,) = named(spans, "unrelated")
    assert processed["parent"] is None
    assert processed["trace"] != unrelated["trace"]
    assert len(said) == 1


def test_message_keeps_its_own_attributes_and_ten_at_most(
    url: str, owner: Connection, run: Run
) -> None:
    run("many", url)

    own = [f"a{n}" for n in range(10)]
    found = [row["attributes"] for row in receive(owner, "orders")]
    assert sorted(map(sorted, found)) == [own, [*own[:9], "traceparent"], ["traceparent"]]
    (mine,) = (each for each in found if len(each) == 1)
    assert mine["traceparent"]["StringValue"] == "mine"


def test_context_does_not_change_the_deduplication_of_content(
    url: str, owner: Connection, run: Run
) -> None:
    set_attribute(owner, "orders.fifo", "ContentBasedDeduplication", "true")

    _, spans = run("twice", url)

    assert len({span["trace"] for span in named(spans, "send orders.fifo")}) == 2
    counted = "select visible from skipmq.count_messages(skipmq.queue_id('orders.fifo'))"
    assert number(owner, counted) == 1


def test_program_without_opentelemetry_imports_nothing_of_it(shop: str) -> None:
    program = (
        "import sys, psycopg; from skipmq import App, Queue; queue = Queue('orders', dict)\n"
        f"app = App({shop!r}); app.consumer(queue)(lambda body: None)\n"
        f"with psycopg.connect({shop!r}) as tx: queue.send({{}}, using=tx)\n"
        "print(app.drain()['done'], [m for m in sys.modules if 'opentelemetry' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "1 []\n"

"""Traces: what a node exports to a collector, and what consumers get of a sender's trace."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.collector import CLIENT, SERVER, Collector, Span, collecting
from support.http import NodeProcess, WsgiProcess, client, environment, eventually, free_port
from support.postgres import Databases, as_node

_number = count(1)
BODY = "what nobody but the consumer reads"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
X_RAY = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"
OTHER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def exporting(port: int, **more: str) -> dict[str, str]:
    """Return the variables of a node that exports to a port at once, and tries for a second."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **more,
    }


@pytest.fixture(scope="module")
def owner_url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def url(owner_url: str) -> str:
    return as_node(owner_url)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting(free_port()) as collector:
        yield collector


@pytest.fixture(scope="module")
def node(url: str, collector: Collector) -> Iterator[NodeProcess]:
    port = int(collector.url.rpartition(":")[2])
    variables = exporting(port, OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test")
    settings: dict[str, Any] = {"workers": 1, "tracing": "on", "log_sample": 1}
    with NodeProcess(database_url=url, variables=variables, **settings) as node:
        yield node.ready()


@pytest.fixture
def name() -> str:
    return f"traced-{next(_number)}"


@pytest.fixture
def queue(node: NodeProcess, name: str) -> str:
    return str(client(node.url).create_queue(QueueName=name)["QueueUrl"])


def sending(url: str, **headers: str) -> Any:
    """Return a client that sends headers with each request."""
    sqs = client(url)
    sqs.meta.events.register(
        "before-call.sqs", lambda params, **_: params["headers"].update(headers)
    )
    return sqs


def header_of(value: str) -> dict[str, Any]:
    return {"AWSTraceHeader": {"DataType": "String", "StringValue": value}}


def received(sqs: Any, queue: str, number: int = 1) -> dict[str, str | None]:
    """Return the trace headers of messages, by their bodies."""
    found: dict[str, str | None] = {}
    while len(found) < number:
        answer = sqs.receive_message(
            QueueUrl=queue,
            WaitTimeSeconds=5,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["AWSTraceHeader"],
        )
        for message in answer["Messages"]:
            found[message["Body"]] = message.get("Attributes", {}).get("AWSTraceHeader")
    return found


def test_request_is_within_the_clients_span_and_has_its_transaction(
    node: NodeProcess, collector: Collector, queue: str, name: str
) -> None:
    sqs = sending(node.url, traceparent=TRACEPARENT, tracestate="vendor=1")

    answer = sqs.send_message(QueueUrl=queue, MessageBody=BODY)

    span = collector.of_request(answer)
    assert (span.name, span.kind) == (f"SendMessage {name}", SERVER)
    assert (span.trace, span.parent) == (TRACE, SPAN)
    assert span.attributes == {
        "aws.request_id": answer["ResponseMetadata"]["RequestId"],
        "client.address": "127.0.0.1",
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "messaging.destination.name": name,
        "messaging.message.id": answer["MessageId"],
        "messaging.operation.name": "SendMessage",
        "messaging.operation.type": "send",
        "messaging.system": "aws_sqs",
    }
    (transaction,) = collector.children(span)
    assert (transaction.name, transaction.kind, transaction.links) == ("send", CLIENT, [])
    assert transaction.trace == TRACE
    assert transaction.attributes == {
        "db.operation.name": "send",
        "db.system.name": "postgresql",
    }
    assert span.resource["service.name"] == "skipmq"
    assert span.resource["deployment.environment.name"] == "test"
    assert collector.bytes
    assert BODY.encode() not in collector.bytes


def test_receiver_gets_the_senders_context_and_is_linked_to_it(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    sending(node.url, traceparent=TRACEPARENT).send_message(QueueUrl=queue, MessageBody="a")
    sqs = client(node.url)

    answer = sqs.receive_message(QueueUrl=queue, MessageSystemAttributeNames=["AWSTraceHeader"])

    (message,) = answer["Messages"]
    assert message["Attributes"] == {"AWSTraceHeader": X_RAY}
    span = collector.of_request(answer)
    assert span.links == [(TRACE, SPAN)]
    assert span.parent == ""
    assert span.attributes["messaging.operation.type"] == "receive"
    assert span.attributes["messaging.batch.message_count"] == 1


def test_header_that_the_sender_gives_comes_before_the_one_of_its_trace(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    sqs = sending(node.url, traceparent=TRACEPARENT)
    both = sending(node.url, traceparent=TRACEPARENT, **{"X-Amzn-Trace-Id": OTHER})

    answer = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "1", "MessageBody": "1"},
            {"Id": "2", "MessageBody": "2", "MessageSystemAttributes": header_of(OTHER)},
        ],
    )
    both.send_message(QueueUrl=queue, MessageBody="3")
    client(node.url).send_message(QueueUrl=queue, MessageBody="4")
    wrong = sending(node.url, traceparent=f"ff-{TRACE}-{SPAN}-01")
    wrong.send_message(QueueUrl=queue, MessageBody="5")

    expected = {"1": X_RAY, "2": OTHER, "3": OTHER, "4": None, "5": None}
    assert received(client(node.url), queue, 5) == expected
    assert collector.of_request(answer).attributes["messaging.batch.message_count"] == 2


def test_client_that_sends_x_rays_header_is_the_parent(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    sqs = sending(node.url, **{"X-Amzn-Trace-Id": OTHER})

    answer = sqs.get_queue_attributes(QueueUrl=queue)

    span = collector.of_request(answer)
    assert (span.trace, span.parent) == ("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8")


@pytest.mark.parametrize(
    "header",
    [
        "Root=1-5759e988-bd862e3fe1be46a994272793",
        "Root=1-5759e988;Parent=53995c3f42cd8ad8",
        OTHER.replace("Root=1", "Root=2"),
        OTHER.replace("8ad8;", "8ad80;"),
        OTHER.replace("53995c3f42cd8ad8", "0" * 16),
        "=",
    ],
)
def test_header_that_names_no_span_is_no_parent(
    node: NodeProcess, collector: Collector, queue: str, header: str
) -> None:
    sqs = sending(node.url, **{"X-Amzn-Trace-Id": header, "traceparent": f"ff-{TRACE}-{SPAN}-01"})

    span = collector.of_request(sqs.get_queue_attributes(QueueUrl=queue))

    assert span.parent == ""


def test_client_that_is_not_sampled_makes_no_span_and_its_messages_say_so(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    sqs = sending(node.url, traceparent=f"00-{TRACE}-{SPAN}-00")

    answer = sqs.send_message(QueueUrl=queue, MessageBody="a")

    # Spans are exported in the order in which they end.
    collector.of_request(client(node.url).get_queue_attributes(QueueUrl=queue))
    request = answer["ResponseMetadata"]["RequestId"]
    assert request not in {span.attributes.get("aws.request_id") for span in collector.spans}
    assert received(client(node.url), queue) == {"a": X_RAY.replace("Sampled=1", "Sampled=0")}


def test_requests_that_share_a_transaction_are_linked_with_it(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    clients = [client(node.url) for _ in range(8)]

    def shared() -> Span | None:
        with ThreadPoolExecutor(len(clients)) as threads:
            sends = [
                threads.submit(each.send_message, QueueUrl=queue, MessageBody="a")
                for each in clients
            ]
            for each in sends:
                collector.of_request(each.result())
        return next((span for span in collector.spans if span.name == "send" and span.links), None)

    transaction = eventually(shared)

    requests = {span.id: span for span in collector.spans if span.kind == SERVER}
    others = [requests[span] for _, span in transaction.links]
    assert transaction.parent in requests
    assert transaction.attributes["db.operation.batch.size"] == len(others) + 1
    assert all((transaction.trace, transaction.id) in other.links for other in others)


def test_wait_of_a_long_poll_is_a_span_of_its_own(
    node: NodeProcess, collector: Collector, queue: str
) -> None:
    span = collector.of_request(client(node.url).receive_message(QueueUrl=queue, WaitTimeSeconds=1))

    names = [child.name for child in collector.children(span)]
    assert names.count("wait") == 1
    assert set(names) == {"wait", "receive"}
    assert span.attributes["messaging.batch.message_count"] == 0


def test_refused_request_says_why_and_is_in_the_log_with_its_trace(
    node: NodeProcess, collector: Collector
) -> None:
    sqs = sending(node.url, traceparent=TRACEPARENT)

    with pytest.raises(ClientError) as refused:
        sqs.send_message(QueueUrl=f"{node.url}/000000000000/gone", MessageBody="a")

    span = collector.of_request(refused.value.response)
    assert span.attributes["error.type"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert span.attributes["http.response.status_code"] == 400
    assert not span.is_error
    logged = eventually(lambda: [x for x in node.lines if span.attributes["aws.request_id"] in x])
    assert json.loads(logged[0])["trace_id"] == TRACE


def test_refused_transaction_is_a_fault_of_the_node(
    owner_url: str, node: NodeProcess, collector: Collector, queue: str
) -> None:
    function = "function skipmq.send_messages"
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(f"revoke execute on {function} from skipmq_node")
        with pytest.raises(ClientError) as refused:
            client(node.url).send_message(QueueUrl=queue, MessageBody="a")
        owner.execute(f"grant execute on {function} to skipmq_node")

    span = collector.of_request(refused.value.response)
    assert span.is_error
    assert span.attributes["http.response.status_code"] >= 500
    (transaction,) = collector.children(span)
    assert transaction.is_error
    assert transaction.attributes["error.type"]


def test_collector_that_is_away_is_reported_once_and_found_when_it_is_back(url: str) -> None:
    port = free_port()
    with NodeProcess(database_url=url, workers=1, tracing="on", variables=exporting(port)) as node:
        sqs = client(node.ready().url)
        sqs.list_queues()
        eventually(lambda: "spans cannot be exported" in node.log)
        with collecting(port, is_well=False) as collector:
            eventually(lambda: sqs.list_queues() and collector.refused > 1)
            collector.is_well = True
            eventually(lambda: sqs.list_queues() and "exported again" in node.log)
            collector.find(lambda span: span.name == "ListQueues")
        away, back, *_ = [line for line in node.lines if "spans" in line]
        assert ("cannot be exported" in away, "exported again" in back) == (True, True), node.log
        assert "Traceback" not in node.log


def test_collector_that_never_answers_does_not_hold_a_node_that_stops(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        variables = exporting(silent.getsockname()[1], OTEL_EXPORTER_OTLP_TIMEOUT="600")
        with NodeProcess(database_url=url, workers=1, tracing="on", variables=variables) as node:
            client(node.ready().url).list_queues()
            assert node.stop() == 0
        assert node.log.count("dropped the last spans") == 1


@pytest.mark.parametrize("door", [NodeProcess, pytest.param(WsgiProcess, marks=pytest.mark.slow)])
def test_last_spans_are_exported_when_a_node_stops(url: str, door: type[NodeProcess]) -> None:
    port = free_port()
    variables = exporting(port, OTEL_BSP_SCHEDULE_DELAY="600000")

    def answered() -> dict[str, Any] | None:
        """Return what a node answered before it stopped, unless it had no time to export it."""
        with door(database_url=url, tracing="on", workers=1, variables=variables) as node:
            answer: dict[str, Any] = client(node.ready().url).list_queues()
            node.stop()
        return answer if "dropped the last spans" not in node.log else None

    with collecting(port) as collector:
        collector.of_request(eventually(answered, 300))


def test_node_without_the_packages_says_how_to_get_them() -> None:
    without = (
        "import sys; sys.modules['opentelemetry'] = None; import skipmq.__main__ as m; m.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", without, "serve"],
        env=environment({"tracing": "on", "port": free_port()}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert re.fullmatch(
        r"skipmq: SKIPMQ_TRACING: .*pip install 'skipmq\[opentelemetry\]'.*\n", done.stderr
    )

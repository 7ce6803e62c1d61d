"""What a node shows to Prometheus of its queues and requests."""

import re
from collections.abc import Iterator

import botocore.exceptions
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, str], float]


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node that shows the metrics of two queues."""
    url = as_node(embedded_databases.migrated())
    with NodeProcess(database_url=url, workers=2, metrics_queues=2) as process:
        yield process.ready()


def samples(node: NodeProcess, label: str) -> Samples:
    """Return the values of all metrics that have a label, by their names and its values."""
    text = node.metrics(OPEN_METRICS)
    return {
        (sample.name, sample.labels[label]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if label in sample.labels
    }


def test_busiest_queues_have_metrics_of_their_own_and_the_others_are_summed(
    node: NodeProcess,
) -> None:
    sqs = client(node.url)
    idle, slow, busy = (
        sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("idle", "slow", "busy")
    )
    for n in range(20):
        sqs.send_message(QueueUrl=busy, MessageBody=f"{n:04}")
    sqs.send_message(QueueUrl=slow, MessageBody="a", DelaySeconds=600)
    for n in range(2):
        (message,) = sqs.receive_message(QueueUrl=busy)["Messages"]
        if n:
            sqs.delete_message(QueueUrl=busy, ReceiptHandle=message["ReceiptHandle"])
    sqs.receive_message(QueueUrl=idle)

    def shown() -> Samples:
        found = samples(node, "queue")
        # Changes are added up once a second; receives are counted by each worker.
        done = [found.get((f"skipmq_queue_number_of_messages_{e}_total", "busy")) for e in EVENTS]
        return found if done == [20, 2, 1] else {}

    found = eventually(shown)
    assert {queue for _, queue in found} == {"busy", "slow"}
    assert found["skipmq_queue_approximate_number_of_messages_visible", "busy"] == 18
    assert found["skipmq_queue_approximate_number_of_messages_not_visible", "busy"] == 1
    assert found["skipmq_queue_approximate_number_of_messages_delayed", "slow"] == 1
    assert found["skipmq_queue_oldest_message_age_seconds", "slow"] == 0
    assert found["skipmq_queue_oldest_message_age_seconds", "busy"] > 0
    expires = "skipmq_queue_oldest_message_expires_in_seconds"
    assert 345_500 < found[expires, "busy"] < 345_600
    assert (expires, "slow") not in found
    assert found["skipmq_queue_sent_message_size_bytes_total", "busy"] == 80
    assert node.metric("skipmq_other_queues") == len(sqs.list_queues()["QueueUrls"]) - 2


EVENTS = ("sent", "received", "deleted")


def test_requests_and_errors_are_counted_by_action(node: NodeProcess) -> None:
    sqs = client(node.url)
    before = samples(node, "action").get(("skipmq_request_duration_seconds_count", "ListQueues"), 0)
    for _ in range(3):
        sqs.list_queues()
    with pytest.raises(botocore.exceptions.ClientError):
        sqs.get_queue_url(QueueName="none")
    code = "AWS.SimpleQueueService.NonExistentQueue"

    def counted() -> bool:
        actions, codes = samples(node, "action"), samples(node, "code")
        count = actions.get(("skipmq_request_duration_seconds_count", "ListQueues"), 0)
        return count == before + 3 and codes.get(("skipmq_request_errors_total", code)) == 1

    eventually(counted)


def test_openmetrics_has_request_ids_as_exemplars(node: NodeProcess) -> None:
    sqs = client(node.url)
    queue = sqs.create_queue(QueueName="tagged")["QueueUrl"]
    # The only one of its action: a bucket shows the last request of any worker.
    answer = sqs.list_queue_tags(QueueUrl=queue)
    identifier = answer["ResponseMetadata"]["RequestId"]

    def has_exemplar() -> bool:
        text = node.metrics(OPEN_METRICS)
        return re.search(rf'"ListQueueTags".* # {{request_id="{identifier}"}}', text) is not None

    eventually(has_exemplar)
    assert identifier not in node.metrics()


def test_metrics_name_the_release(node: NodeProcess) -> None:
    assert any(name == "skipmq_build_info" for name, _ in samples(node, "version"))
    assert node.metric("skipmq_workers") == 2

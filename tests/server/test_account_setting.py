"""The account and the region of the settings: of what is not signed, and of declared queues."""

import json
from pathlib import Path

from skipmq.testing import Server
from support.http import NodeProcess, client
from support.visitor import Visitor

ACCOUNT, OTHER = "210987654321", "123456789012"
OWN = {"account": ACCOUNT, "region": "eu-north-1"}


def test_requests_and_sessions_that_are_not_signed_are_of_the_account_of_the_settings(
    node_url: str,
) -> None:
    with NodeProcess(database_url=node_url, workers=1, **OWN) as node:
        own = client(node.ready().url, region=OWN["region"])
        other = client(node.url, key=OTHER, region=OWN["region"])
        url = own.create_queue(QueueName="ours")["QueueUrl"]
        other.create_queue(QueueName="theirs")
        names = ["QueueArn"]
        arn = own.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]["QueueArn"]
        visitor = Visitor(node.url)
        address = visitor.get("/console/queues").headers["Location"]
        page = visitor.get(address).body

    assert url == f"{node.url}/{ACCOUNT}/ours"
    assert arn == f"arn:aws:sqs:eu-north-1:{ACCOUNT}:ours"
    assert address == f"/console/eu-north-1/{ACCOUNT}/queues"
    assert "ours" in page
    assert "theirs" not in page
    assert ACCOUNT in page


def test_declared_queues_are_of_the_settings_or_of_what_their_arns_name(
    node_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "skipmq.toml"
    elsewhere = f"arn:aws:sqs:eu-north-1:{OTHER}"
    redrive = {"deadLetterTargetArn": f"{elsewhere}:dead", "maxReceiveCount": 3}
    policy = json.dumps(redrive)
    file.write_text(f"""
        account = "{ACCOUNT}"
        region = "eu-north-1"
        [queues.orders]
        DelaySeconds = 1
        [queues."{elsewhere}:orders"]
        DelaySeconds = 2
        RedrivePolicy = '{policy}'
        [queues."{elsewhere}:dead"]
        """)
    for _ in range(2):  # The second time they exist.
        with NodeProcess(database_url=node_url, config=file, workers=1) as node:
            own, other = client(node.ready().url), client(node.url, key=OTHER)
            found = [
                each.get_queue_attributes(QueueUrl="orders", AttributeNames=["All"])["Attributes"]
                for each in (own, other)
            ]
            assert "differs from its declaration" not in node.log

    assert [each["DelaySeconds"] for each in found] == ["1", "2"]
    assert found[0]["QueueArn"] == f"arn:aws:sqs:eu-north-1:{ACCOUNT}:orders"
    assert found[1]["QueueArn"] == f"{elsewhere}:orders"
    assert json.loads(found[1]["RedrivePolicy"]) == redrive


def test_test_server_has_the_account_of_its_settings() -> None:
    with Server(**OWN) as server:
        url = server.client().create_queue(QueueName="orders")["QueueUrl"]

    assert (server.number, server.region) == (ACCOUNT, "eu-north-1")
    assert url == f"{server.url}/{ACCOUNT}/orders"

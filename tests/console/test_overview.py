"""The overview: what needs attention, and for whom."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.audit import ORDERS, record, write
from support.browser import Browser
from support.http import NodeProcess, client, eventually, raw
from support.key_commands import ACCOUNT, Keys
from support.postgres import Databases, as_node
from support.shop import Shop
from support.sigv4 import KEY, signed
from support.visitor import Visitor, signed_in

HOME = "/console/us-east-1/000000000000/"


def fill(sqs: Any, name: str, account: str = "000000000000", region: str = "us-east-1") -> None:
    """Have a message of a queue moved to its dead-letter queue."""
    sqs.create_queue(QueueName=f"{name}-dead")
    arn = f"arn:aws:sqs:{region}:{account}:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)


@pytest.fixture(scope="module")
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node without the queues of other tests: the page shows the worst alone."""
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as process:
        process.owner_url = url
        yield process.ready()


@pytest.fixture(scope="module")
def trouble(node: NodeProcess) -> str:
    """Return the name of a queue that needs attention."""
    fill(client(node.url), "needy-x")
    visitor = Visitor(node.url)
    eventually(lambda: "Messages of needy-x moved" in visitor.get(HOME).body)
    return "needy-x"


def test_home_is_the_overview_that_leads_to_what_needs_attention(
    node: NodeProcess, browser: Browser, trouble: str
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/")

    browser.wait(f"Messages of {trouble} moved to a dead-letter queue")
    assert browser.sees("writable")
    assert "the dead letter queue fills" in browser.text(".troubles")
    browser.click(f"#dead-dead-lettered-{trouble}")

    browser.wait("poison")
    assert browser.text("h1") == f"{trouble}-dead"


def test_overview_has_the_troubles_of_all_places(node: NodeProcess, trouble: str) -> None:
    page = Visitor(node.url, region="ap-south-1").get("/console/ap-south-1/000000000000/").body

    assert f"Messages of {trouble} moved" in page
    assert "Region us-east-1." in page
    assert f'href="/console/us-east-1/000000000000/queues/{trouble}/overview"' in page


def test_overview_has_charts_with_what_happened(node: NodeProcess, trouble: str) -> None:
    visitor = Visitor(node.url)
    with psycopg.connect(node.owner_url) as owner:
        owner.execute("select skipmq.sum_minutes()")

    page = eventually(lambda: "Queue created" in (body := visitor.get(HOME).body) and body)

    titles = ("Messages per 5 minutes", "Messages in all queues", "Errors and refusals", "Duration")
    assert [title in page for title in titles] == [True] * 4
    assert "Node started" in page
    assert f"/queues/{trouble}/overview" in page
    brief = visitor.get(HOME, **{"HX-Request": "true", "HX-Trigger": "overview"}).body
    assert ("Needs attention" in brief, "Duration" in brief) == (True, False)
    assert "Messages per minute" in visitor.get(f"{HOME}?minutes=60").body


# With another one they are folded.
GONE = ("gone-y", "gone-z")


def test_what_happened_names_a_deleted_queue_and_tells_pause_from_resumption(
    node: NodeProcess,
) -> None:
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        shop = Shop(node.url, owner, name="gone-x")
        shop.fill("a", "b")
        shop.extension("PauseQueue", QueueUrl=shop.queue)
        shop.extension("PauseQueue", QueueUrl=shop.queue, Paused=False)
        shop.sqs.delete_queue(QueueUrl=shop.queue)
        others = [shop.sqs.create_queue(QueueName=name)["QueueUrl"] for name in GONE]
        for url in others:
            shop.sqs.delete_queue(QueueUrl=url)
        write(owner, record(action="EndSession", queue=f"{ORDERS.removesuffix('orders')}*"))

    visitor = Visitor(node.url)
    page = eventually(lambda: GONE[-1] in (body := visitor.get(HOME).body) and body)

    assert "gone-x, 2 messages" in page
    assert [name in page for name in GONE] == [True] * len(GONE)
    assert "Session of the database ended" in page
    assert "/queues/*/" not in page
    assert page.count("Receives paused <") == page.count("Receives resumed <") == 1


def test_overview_without_trouble_says_so(signing: NodeProcess, keys: Keys) -> None:
    visitor = signed_in(signing, keys.create("000000000077", "--role", "reader"))

    page = visitor.get("/console/us-east-1/000000000077/").body

    assert "Nothing needs attention in any region." in page


def test_overview_of_a_key_has_what_it_may_read(
    signing: NodeProcess, keys: Keys, tmp_path: Path
) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    # Where no other test has troubles: three of a kind are folded.
    region = "eu-north-1"
    sqs = client(signing.url, region=region, **admin)
    for name in ("seen", "unseen"):
        fill(sqs, name, ACCOUNT, region)
    boss = signed_in(signing, admin)
    home = f"/console/{region}/{ACCOUNT}/"
    eventually(lambda: "of unseen moved" in boss.get(home).body)
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"},
            {"Effect": "Allow", "Action": "sqs:*", "Resource": f"arn:aws:sqs:*:{ACCOUNT}:seen"},
        ],
    }
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy))
    limited = keys.create(ACCOUNT, "--policy", str(file))
    producer = keys.create(ACCOUNT, "--role", "producer", "--queue", "seen")

    some, none = (signed_in(signing, each).get(home).body for each in (limited, producer))

    assert ("of seen moved" in some, "of unseen moved" in some) == (True, False)
    assert "Messages</dt>" not in some
    assert ("Messages in all queues" in some, "Duration of requests" in some) == (False, False)
    assert ">Database</a></dt>" not in some
    assert "Your key may not list queues" in none


def test_activity_of_all_regions_needs_the_right_on_all(
    signing: NodeProcess, keys: Keys, tmp_path: Path
) -> None:
    allow = {"Effect": "Allow", "Action": "sqs:*", "Resource": f"arn:aws:sqs:us-east-1:{ACCOUNT}:*"}
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    regional = keys.create(ACCOUNT, "--policy", str(file))
    key = keys.create()
    signed_in(signing, key)
    sqs = client(signing.url, **key)
    sqs.send_message(QueueUrl=sqs.create_queue(QueueName="busy-x")["QueueUrl"], MessageBody="x")

    def overview(by: dict[str, str], **parameters: Any) -> Any:
        with psycopg.connect(keys.url) as owner:
            owner.execute("select skipmq.fold_counts(), skipmq.sum_minutes()")
        body = json.dumps({"Minutes": 60} | parameters).encode()
        target = {"X-Amz-Target": "SkipMQ.GetOverview", "Content-Type": "application/json"}
        access = replace(KEY, id=by["key"], secret=by["secret"])
        request = signed("POST", f"{signing.url}/", body, headers=target, key=access)
        answer = raw(f"{signing.url}/", body, request.headers)
        return answer.status == 200 and json.loads(answer.body)

    def is_told(by: dict[str, str]) -> bool:
        return any("Sent" in each for each in overview(by)["Activity"]["Steps"])

    eventually(lambda: is_told(key))
    eventually(lambda: overview(regional))
    assert "Totals" in overview(regional)
    assert not is_told(regional)
    assert "Activity" not in overview(key, QueueName="busy-x")

"""The overview of a queue, to which its name leads."""

import json
from typing import Any

import psycopg
import pytest

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, links, signed_in

ARN = "arn:aws:sqs:us-east-1:000000000000"
TABS = "Pages of this queue"


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture(scope="module")
def viewed(sqs: Any) -> str:
    """Return the name of a queue with a dead-letter queue, into which a message moved."""
    sqs.create_queue(QueueName="viewed-dead")
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:viewed-dead", "maxReceiveCount": 1})
    attributes = {"RedrivePolicy": policy, "MessageRetentionPeriod": "86400"}
    url = sqs.create_queue(QueueName="viewed", Attributes=attributes, tags={"team": "search"})[
        "QueueUrl"
    ]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    return "viewed"


def test_name_in_the_list_leads_to_the_overview(
    node: NodeProcess, browser: Browser, viewed: str
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/us-east-1/000000000000/queues?q={viewed}")

    browser.click(f"#queue-{viewed}")

    browser.wait("Oldest message")
    assert browser.text("[aria-label=Path]").split("/")[-1].strip() == viewed
    facts = browser.text(".facts")
    for each in ("viewed-dead after 1 receive", "1 day", "team=search"):
        assert each in facts
    eventually(lambda: "moved to a dead-letter queue" in browser.text(".troubles"))
    assert "Redrive messages" not in browser.text("#acts")
    assert browser.complaints() == []


def test_queue_is_paused_and_resumed_from_its_head(
    node: NodeProcess, browser: Browser, sqs: Any
) -> None:
    url = sqs.create_queue(QueueName="pausable")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="kept")
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/us-east-1/000000000000/queues/pausable/overview")

    browser.click("[name=paused]")

    browser.wait("Paused: receives return no messages.")
    assert browser.text(".heading .badge") == "paused"
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    browser.click("[name=paused]")
    browser.wait("Resumed.")
    assert browser.count(".heading .badge") == 0
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "kept"
    assert browser.complaints() == []


def test_dead_letter_queue_names_its_sources_and_can_be_redriven(
    node: NodeProcess, browser: Browser, viewed: str
) -> None:
    browser.look("phone", "dark")
    browser.open(f"{node.url}/console/us-east-1/000000000000/queues/{viewed}-dead/overview")

    assert "Dead-letter queue of\nviewed" in browser.text(".facts")
    eventually(lambda: "1" in browser.text("#counts"))
    browser.driver.refresh()
    assert browser.text("#acts").split("\n") == [
        "Send message", "Redrive messages", "Pause receives", "Purge queue"
    ]  # fmt: skip
    browser.run("document.querySelectorAll('#acts a')[1].click()")
    browser.wait("Rate limit")


def test_redrive_is_offered_where_there_is_something_to_redrive(
    node: NodeProcess, viewed: str
) -> None:
    visitor = Visitor(node.url)

    assert "Redrive" in links(visitor.get(f"queues/{viewed}-dead/overview"), TABS)
    assert "Redrive" not in links(visitor.get(f"queues/{viewed}/overview"), TABS)
    # Its page has the tasks of any queue.
    tasks = visitor.get(f"queues/{viewed}/redrive")
    assert "Tasks" in links(tasks, TABS)
    assert ("Recent tasks" in tasks.body, "Redrive…" in tasks.body) == (True, False)


def test_address_of_a_queue_leads_to_its_overview_and_titles_name_the_page(
    node: NodeProcess, viewed: str
) -> None:
    visitor = Visitor(node.url)

    found = visitor.get(f"queues/{viewed}").headers["Location"]

    assert found == visitor.address_of(f"queues/{viewed}/overview")
    for path, title in (("overview", "Overview"), ("messages", "Messages"), ("tail", "Live tail")):
        page = visitor.get(f"queues/{viewed}/{path}").body
        assert f"<title>{viewed} · {title} · SkipMQ</title>" in page


def test_messages_of_a_queue_that_was_a_dead_letter_queue_go_back(
    node: NodeProcess, sqs: Any
) -> None:
    sqs.create_queue(QueueName="former-dead")
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:former-dead", "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="former", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    visitor = Visitor(node.url)
    page = visitor.get("queues/former-dead/redrive")
    assert "Redrive" in links(page, TABS)
    assert 'name="destination" value="former"' in page.body

    answer = visitor.post(
        "queues/former-dead/redrive", {"destination": "former", "confirmed": "yes"}
    )

    assert answer.status == 303
    assert eventually(lambda: sqs.receive_message(QueueUrl=url).get("Messages"))
    done = visitor.get("queues/former-dead/redrive")
    assert "moved to former" in done.body
    overview = visitor.get("queues/former/overview").body
    assert "1 moved in from <a" in overview
    assert "Redrive" not in links(done, TABS)


def test_second_of_a_change_is_that_of_the_audit_log(node: NodeProcess) -> None:
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        place = ("timed", "000000000000", "us-east-1")
        owner.execute("select skipmq.create_queue(%s, '{}', '{}', %s, %s)", place)
        owner.execute(
            "update skipmq.queue set modified_at = '2026-01-02 03:04:05.9Z' where name = 'timed'"
        )

    page = Visitor(node.url).get("queues/timed/settings").body

    assert ">2026-01-02 03:04:05 UTC</time>" in page


def test_consumers_and_age_are_counted(node: NodeProcess, sqs: Any) -> None:
    url = sqs.create_queue(QueueName="aged")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    sqs.receive_message(QueueUrl=url)
    visitor = Visitor(node.url)

    body = eventually(
        lambda: (
            '<dd><span>1</span></dd><dd class="hint">0 waiting now'
            in (page := visitor.get("queues/aged/overview").body)
            and page
        )
    )

    assert '<span title="' in body.partition("Oldest message</dt>")[2][:40]


def test_key_sees_what_it_may_and_no_refusal_is_recorded(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    client(signing.url, **admin).create_queue(QueueName="narrow")
    consumer = signed_in(signing, keys.create(ACCOUNT, "--role", "consumer", "--queue", "narrow"))

    page = consumer.get("queues/narrow/overview")

    assert (page.status, "Oldest message" in page.body) == (200, True)
    assert "Consumers</a></dt>" not in page.body
    for act in ("Send message", "Purge queue", "Redrive messages"):
        assert act not in page.body
    refused = [
        line
        for line in signing.lines
        if '"AccessDenied"' in line and f'"client": "{consumer.address}"' in line
    ]
    assert refused == []

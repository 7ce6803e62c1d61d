"""The page of dead-letter queues, by keyboard, with few and with many."""

import json
from typing import Any

import pytest

from skipmq.console.pages import dead_letters
from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in

ARN = "arn:aws:sqs:us-east-1:000000000000"
SEARCHED = "flow"
FULL = 3


def policy(target: str, most: int = 1) -> dict[str, str]:
    found = {"deadLetterTargetArn": f"{ARN}:{target}", "maxReceiveCount": most}
    return {"RedrivePolicy": json.dumps(found)}


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    """Give a client, after queues that are full, gone, and that redeliver for ever."""
    found = client(node.url)
    urls = {}
    for name in ("full-dead", "gone-dead", "calm-dead"):
        urls[name] = found.create_queue(QueueName=f"{SEARCHED}-{name}")["QueueUrl"]
    for source, target in (("one", "full-dead"), ("two", "full-dead"), ("lost", "gone-dead")):
        name = f"{SEARCHED}-{source}"
        attributes = policy(f"{SEARCHED}-{target}")
        urls[source] = found.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    found.create_queue(QueueName=f"{SEARCHED}-calm", Attributes=policy(f"{SEARCHED}-calm-dead", 7))
    found.delete_queue(QueueUrl=urls["gone-dead"])
    for n in range(FULL):
        found.send_message(QueueUrl=urls["one"], MessageBody=f"{n}")
    empty = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
    eventually(lambda: not found.receive_message(QueueUrl=urls["one"], **empty).get("Messages"))
    poison = found.create_queue(QueueName=f"{SEARCHED}-poison")["QueueUrl"]
    found.send_message(QueueUrl=poison, MessageBody="poison")
    for _ in range(12):
        found.receive_message(QueueUrl=poison, VisibilityTimeout=0)
    return found


@pytest.fixture
def page(node: NodeProcess, browser: Browser) -> str:
    browser.look("desktop", "light")
    browser.complaints()
    return f"{node.url}/console"


@pytest.mark.usefixtures("sqs")
def test_gone_and_full_queues_come_first_with_their_sources(page: str, browser: Browser) -> None:
    def counted() -> bool:  # Counts are added up once a second.
        browser.open(f"{page}/dead-letters?q={SEARCHED}-")
        full = browser.texts(".flow-full")
        moved = f"{SEARCHED}-one\n{FULL} moved in 6 h"
        figures = f"Messages\n{FULL}\nArrived in 6 h\n{FULL}\n"
        found = any(moved in each and figures in each for each in full)
        return found and "12 deliveries" in browser.text(".loops")

    eventually(counted)

    assert browser.texts(".flow h2") == [
        f"{SEARCHED}-gone-dead",
        f"{SEARCHED}-full-dead",
        f"{SEARCHED}-calm-dead",
    ]
    gone, full, calm = browser.texts(".flow")
    assert "does not exist" in gone
    assert f"{SEARCHED}-lost" in gone
    assert f"{SEARCHED}-one\n{FULL} moved in 6 h · after 1 receive" in full
    assert f"{SEARCHED}-two\nafter 1 receive" in full
    assert "after 7 receives" in calm
    assert f"{SEARCHED}-poison" in browser.text(".loops")
    assert browser.complaints() == []


@pytest.mark.usefixtures("sqs")
def test_search_and_redrive_are_a_few_keys_away(page: str, browser: Browser) -> None:
    browser.open(f"{page}/queues")
    browser.tab_to("Dead letters")
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.text("[aria-current]") == "Dead letters")

    browser.press("/", f"{SEARCHED}-ONE")

    eventually(lambda: browser.text("#matches") == "1 queue")
    browser.tab_to(f"Redrive {SEARCHED}-full-dead")
    browser.press(KEYS.ENTER)
    browser.wait("Dead-letter queue of")
    assert browser.complaints() == []


def test_page_refreshes_itself(page: str, browser: Browser, sqs: Any) -> None:
    dead = sqs.create_queue(QueueName="fresh-dead")["QueueUrl"]
    sqs.create_queue(QueueName="fresh", Attributes=policy("fresh-dead"))
    with browser.hastened():
        browser.open(f"{page}/dead-letters?q=fresh")
    browser.tab_to("Redrive")
    assert "Messages\n0\n" in browser.text(".figures")

    sqs.send_message(QueueUrl=dead, MessageBody="x")

    eventually(lambda: "Messages\n1\n" in browser.text(".figures"))
    assert browser.focused().startswith("Redrive")
    assert browser.complaints() == []


def test_many_are_on_pages_of_a_bounded_size(page: str, browser: Browser, sqs: Any) -> None:
    for n in range(60):
        sqs.create_queue(QueueName=f"many-{n:03}-dead")
        sqs.create_queue(QueueName=f"many-{n:03}", Attributes=policy(f"many-{n:03}-dead"))

    browser.open(f"{page}/dead-letters?q=many-")

    assert browser.text("#matches") == "60 queues"
    assert browser.count(".flow") == dead_letters.PAGE
    assert browser.sees("Page 1 of 3")
    browser.tab_to("Next", most=120)
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.text(".flow h2") == f"many-{dead_letters.PAGE:03}-dead")
    browser.open(f"{page}/dead-letters?q=many-&page=99")
    eventually(lambda: browser.sees("Page 1 of 3"))
    assert browser.complaints() == []


def test_edges_of_queues_that_hide_their_attributes_are_left_out(
    signing: NodeProcess, keys: Keys
) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    found = client(signing.url, **admin)
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:shy-dead"
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:GetQueueAttributes",
        "Resource": "*",
    }
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    found.create_queue(QueueName="shy-dead")
    found.create_queue(QueueName="shown", Attributes={"RedrivePolicy": redrive})
    found.create_queue(
        QueueName="hidden-source",
        Attributes={"RedrivePolicy": redrive, "Policy": json.dumps({"Statement": [deny]})},
    )
    visitor: Visitor = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))

    answer = visitor.get("dead-letters?q=shy")

    assert answer.status == 200
    assert "shown" in answer.body
    assert "hidden-source" not in answer.body
    assert "and 1 more" in answer.body
    limited = signed_in(signing, keys.create(ACCOUNT, "--role", "reader", "--queue", "shown"))
    assert "Your key may not list queues" in limited.get("dead-letters").body
    assert 'hx-trigger="refresh' not in limited.get("dead-letters").body


@pytest.mark.usefixtures("sqs")
def test_empty_queues_are_folded_and_stay_unfolded_on_a_refresh(
    page: str, browser: Browser
) -> None:
    with browser.hastened():
        browser.open(f"{page}/dead-letters")
    dead = f"#dead-{SEARCHED}-calm-dead"
    # Counts are added up once a second.
    eventually(lambda: browser.shows(f"#dead-{SEARCHED}-full-dead"))
    assert not browser.shows(dead)

    browser.click("#empty-queues summary")
    browser.run("document.querySelector('#dead-letters').isOld = true")

    eventually(lambda: browser.each("#dead-letters", "e.isOld") == [None])
    assert browser.shows(dead)
    assert browser.complaints() == []

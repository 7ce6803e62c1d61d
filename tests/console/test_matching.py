"""Tasks on all messages that match: begun by keyboard, with progress, cancelled, by right."""

import json
from typing import Any

import pytest

from support.browser import KEYS, SCHEMES, WIDTHS, Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, records, signed_in


def waiting(sqs: Any, queue: str) -> str:
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return str(found["ApproximateNumberOfMessages"])


def filled(sqs: Any, name: str, number: int = 20) -> tuple[str, str]:
    """Make a queue of messages, half of which are red, and another."""
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    other = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"]
    for n in range(number):
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"n": n, "red": n % 2 == 0}))
    return str(url), str(other)


def test_filter_leads_to_a_task_by_keyboard(
    request: pytest.FixtureRequest, node: NodeProcess, browser: Browser, screenshots: Any
) -> None:
    sqs = client(node.url)
    url, other = filled(sqs, "coloured")
    browser.look("desktop", "light")
    browser.complaints()
    browser.open(f"{node.url}/console/queues/coloured")
    browser.press("/", '"red": true')
    browser.tab_to("Move or delete by filter")
    browser.press(KEYS.ENTER)
    browser.wait("A task processes all messages")
    assert browser.each("[name=body]", "e.value") == ['"red": true']
    browser.tab_to("To queue")
    browser.press("coloured-other")
    browser.tab_to("Start task")
    browser.press(KEYS.ENTER)

    browser.wait("Started to move messages.")

    eventually(lambda: (waiting(sqs, url), waiting(sqs, other)) == ("10", "10"))

    def done() -> bool:
        browser.open(f"{node.url}/console/queues/coloured/redrive")
        return browser.sees("10 moved to coloured-other, 20 of 20 checked")

    eventually(done)
    every = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
    for width, scheme in every if request.config.getoption("screenshots") else every[1:3]:
        browser.look(width, scheme)
        browser.open(browser.driver.current_url)
        browser.picture(screenshots / f"tasks-{width}-{scheme}.png")
        assert browser.complaints() == []


def test_task_shows_its_progress_and_is_cancelled(node: NodeProcess) -> None:
    sqs = client(node.url)
    url, other = filled(sqs, "slow")
    visitor = Visitor(node.url)
    form = {"kind": "copy", "destination": "slow-other", "rate": "1", "body": "red"}
    assert visitor.post("queues/slow/matching", form).status == 303
    eventually(lambda: int(waiting(sqs, other)) > 1)

    page = visitor.get("queues/slow/redrive").body

    assert "<progress" in page
    handle = page.partition('name="handle" value="')[2].partition('"')[0]
    assert visitor.post("queues/slow/redrive/cancel", {"handle": handle}).status == 303
    eventually(lambda: ">cancelled<" in visitor.get("queues/slow/redrive").body)
    assert waiting(sqs, url) == "20"


def test_deletion_must_be_meant_and_leaves_no_text_in_the_log(
    signing: NodeProcess, keys: Keys
) -> None:
    admin = keys.create()
    visitor = signed_in(signing, admin)
    sqs = client(signing.url, **admin)
    url, _ = filled(sqs, "doomed", 4)
    form = {"kind": "delete", "body": '"red": true', "destination": "ignored"}

    refused = visitor.post("queues/doomed/matching", form)
    begun = visitor.post("queues/doomed/matching", form | {"sure": "yes"})

    assert (refused.status, begun.status) == (400, 303)
    assert "&#34;red&#34;: true" in refused.body
    eventually(lambda: waiting(sqs, url) == "2")
    (record,) = eventually(lambda: records(signing, visitor, "StartMessageTask"))
    assert record["parameters"]["BodyContains"] == "***"
    assert record["outcome"] == "done"


def test_task_needs_the_rights_of_what_it_does(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    filled(client(signing.url, **admin), "guarded", 2)
    consumer = signed_in(signing, keys.create(ACCOUNT, "--role", "consumer"))
    reader = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))

    for visitor in (consumer, reader):
        answer = visitor.post("queues/guarded/matching", {"kind": "delete", "sure": "yes"})
        assert answer.status == 403
    assert "disabled" in reader.get("queues/guarded/matching").body

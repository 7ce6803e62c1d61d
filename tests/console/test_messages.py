"""The table of messages: orders, rows that unfold, live or not, and what is done with one."""

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually, extension
from support.visitor import Visitor

_number = count(1)
_REFRESHED = "Refreshed every five seconds."
_PAUSED = "Paused while messages are selected, open or filtered."


@pytest.fixture
def name() -> str:
    return f"rows-{next(_number)}"


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


@pytest.fixture
def page(node: NodeProcess, browser: Browser, name: str) -> Iterator[str]:
    """Give the address of the queue's page, which refreshes fast."""
    browser.look("desktop", "light")
    with browser.hastened():
        yield f"{node.url}/console/us-east-1/000000000000/queues/{name}/messages"


def test_messages_with_a_group_and_without_are_listed(
    node: NodeProcess, sqs: Any, url: str, name: str
) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="of a tenant", MessageGroupId="tenant")
    sqs.send_message(QueueUrl=url, MessageBody="of nobody")

    page = Visitor(node.url).get(f"queues/{name}/messages")

    assert (page.status, "tenant" in page.body, "of nobody" in page.body) == (200, True, True)


def dead_letters(sqs: Any, name: str, number: int) -> str:
    """Make dead letters of a queue, each with a reason; return the URL of their queue."""
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    reason = {"DataType": "String", "StringValue": "KeyError: 'sku'"}
    for n in range(number):
        sqs.send_message(
            QueueUrl=queue, MessageBody=str(n), MessageAttributes={"FailureReason": reason}
        )

    def moved() -> bool:
        sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0, MaxNumberOfMessages=10)
        found = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])["Attributes"]
        return found["ApproximateNumberOfMessages"] == str(number)

    eventually(moved)
    return str(dead)


def previews(browser: Browser) -> list[str]:
    return browser.texts(".message .preview")


def test_headings_order_the_messages(sqs: Any, url: str, page: str, browser: Browser) -> None:
    for size in (2, 9, 4):
        sqs.send_message(QueueUrl=url, MessageBody="x" * size)
    browser.open(page)
    assert previews(browser) == ["x" * 2, "x" * 9, "x" * 4]
    assert browser.sees("The next to be received first")

    browser.tab_to("Size")
    browser.press(KEYS.ENTER)

    browser.wait("The largest of 3 messages.")
    assert previews(browser) == ["x" * 9, "x" * 4, "x" * 2]
    assert browser.each("thead [aria-sort]", "e.ariaSort") == ["descending"]
    assert browser.complaints() == []


def test_list_of_many_says_that_it_orders_the_first(
    sqs: Any, url: str, name: str, node: NodeProcess
) -> None:
    for _ in range(101):
        entries = [{"Id": str(n), "MessageBody": "x"} for n in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

    shown = Visitor(node.url).get(f"queues/{name}/messages?order=oldest").body

    assert "The oldest of the first 1,000 messages; the queue may have more behind them." in shown


def test_list_refreshes_itself_and_pauses_while_it_is_used(
    sqs: Any, url: str, page: str, browser: Browser
) -> None:
    browser.open(page)
    assert browser.sees("The queue is empty")
    sqs.send_message(QueueUrl=url, MessageBody="first")
    eventually(lambda: previews(browser) == ["first"])
    eventually(lambda: browser.text("[data-liveness]") == _REFRESHED)

    browser.click(".message [name=reference]")
    sqs.send_message(QueueUrl=url, MessageBody="second")
    browser.let_pass(3)

    assert previews(browser) == ["first"]
    eventually(lambda: browser.text("[data-liveness]") == _PAUSED)
    browser.click(".message [name=reference]")
    browser.click("h1")
    eventually(lambda: previews(browser) == ["first", "second"])
    browser.click("#live")
    eventually(lambda: browser.text("[data-liveness]") == "Not live.")
    browser.click("#live")
    assert browser.complaints() == []


def test_message_unfolds_decoded_and_its_body_is_copied_as_it_was_sent(
    sqs: Any, url: str, page: str, browser: Browser, screenshots: Path
) -> None:
    body = b64encode(json.dumps({"order": 7, "lines": [{"n": n} for n in range(99)]}).encode())
    sqs.send_message(QueueUrl=url, MessageBody=body.decode())
    browser.open(page)
    browser.tab_to("base64 {")
    browser.press(KEYS.ENTER)

    browser.wait("Decoded from base64")
    assert browser.each(".body > details > details", "e.open") == [False]
    browser.click(".body details details > summary")
    assert browser.shows(".body details details i")
    browser.click("[data-copy]")
    browser.wait("Copied")
    browser.inspect(screenshots, "messages-decoded")
    browser.click("[data-unfold]")
    eventually(lambda: browser.count(".unfolded") == 0)
    browser.enter("#filter", KEYS.CONTROL, "v")
    assert browser.each("#filter", "e.value") == [body.decode()]


def test_dead_letter_is_redriven_from_its_row(
    sqs: Any, name: str, node: NodeProcess, browser: Browser
) -> None:
    dead_letters(sqs, name, 2)
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/us-east-1/000000000000/queues/{name}-dead/messages")
    assert browser.texts(".message .reason") == ["KeyError: 'sku'"] * 2
    # Where a move out of a dead-letter queue leads to by default.
    assert browser.each("[name=destination]", "e.value") == [name]
    browser.click(".message .preview")
    browser.wait(f"Redrive to {name}")

    browser.click(".whole .button-main")

    browser.wait("1 moved back to their source queues.")
    assert browser.count(".message") == 1
    assert browser.complaints() == []


def test_chosen_dead_letters_go_back_and_others_are_named(
    sqs: Any, name: str, node: NodeProcess
) -> None:
    dead = dead_letters(sqs, name, 2)
    sqs.send_message(QueueUrl=dead, MessageBody="sent here")
    visitor = Visitor(node.url)
    shown = visitor.get(f"queues/{name}-dead/messages").body
    references = [part.partition('"')[0] for part in shown.split('name="reference" value="')[1:]]

    form = {"reference": [*references, f"999999999999-{uuid4()}"], "how": "redrive"}
    assert visitor.post(f"queues/{name}-dead/transfer", form).status == 303

    notice = visitor.get(f"queues/{name}-dead/messages").body
    assert "2 moved, 1 no longer in the queue, 1 skipped because" in notice


def test_message_is_edited_and_sent_again(sqs: Any, url: str, page: str, browser: Browser) -> None:
    attributes = {"colour": {"DataType": "String.hex", "StringValue": "ff0000"}}
    sqs.send_message(QueueUrl=url, MessageBody="wrong", MessageAttributes=attributes)
    browser.open(page)
    browser.click(".message .preview")
    browser.wait("Edit and send again")
    browser.tab_to("Edit and send again")
    browser.press(KEYS.ENTER)
    browser.wait("A new message like")
    browser.enter("textarea[name=body]", KEYS.CONTROL, "a")
    browser.enter("textarea[name=body]", "right")
    browser.tab_to("Send")
    browser.press(KEYS.ENTER)

    browser.wait("Sent as")
    received = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )["Messages"]
    assert {each["Body"] for each in received} == {"wrong", "right"}
    assert [each["MessageAttributes"] for each in received] == [attributes] * 2
    assert browser.complaints() == []


@pytest.mark.usefixtures("url")
def test_message_that_is_gone_is_said_to_be(name: str, node: NodeProcess) -> None:
    visitor = Visitor(node.url)
    gone = f"queues/{name}/messages/999999999999-{uuid4()}"
    for page in (gone, f"{gone}/body"):
        answer = visitor.get(page)

        assert (answer.status, "Message not found" in answer.body) == (404, True)


def test_message_and_group_in_flight_are_made_visible(
    sqs: Any, name: str, node: NodeProcess, browser: Browser
) -> None:
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=fifo)["QueueUrl"]
    for group in ("g1", "g2"):
        sqs.send_message(QueueUrl=url, MessageBody=f"of {group}", MessageGroupId=group)
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=600, MaxNumberOfMessages=10)
    pages = f"{node.url}/console/us-east-1/000000000000/queues/{name}.fifo"

    browser.open(f"{pages}/groups")
    assert browser.texts("tbody th") in (["g1", "g2"], ["g2", "g1"])
    browser.click("[name=release][value=g1]")
    browser.click("section .button")

    browser.wait("Groups: 1 made visible. 1 message.")
    browser.open(f"{pages}/messages?state=in-flight")
    assert previews(browser) == ["of g2"]
    ((shown, exact),) = browser.each(".state time", "[e.textContent, e.dateTime.slice(11, 19)]")
    # It names the day, and no seconds, of a time that is on the next one.
    assert exact.startswith(shown.split()[-1])
    zone = "Emulation.setTimezoneOverride"
    browser.driver.execute_cdp_cmd(zone, {"timezoneId": "Asia/Kathmandu"})
    try:
        browser.click("#zone")
        # Nor is what is in a tooltip in another zone.
        titles = browser.each("[data-label=Age] time, .state time", "e.title.slice(-9)")
        assert set(titles) == {"UTC+05:45"}
        browser.click("#zone")
    finally:
        browser.driver.execute_cdp_cmd(zone, {"timezoneId": "UTC"})
    browser.click(".message [name=reference]")
    browser.click("[name=how][value=release]")

    browser.wait("1 made visible.")
    again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert {each["Body"] for each in again} == {"of g1", "of g2"}


def test_all_failures_of_a_message_are_shown_in_full(node: NodeProcess) -> None:
    sqs = client(node.url)
    url = sqs.create_queue(QueueName="failing-twice")["QueueUrl"]
    sent = sqs.send_message(QueueUrl=url, MessageBody="x")["MessageId"]
    for reason in ("Timeout 30 s", "KeyError: sku\n  in line 7"):
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
        extension(
            node.url,
            "FailMessage",
            QueueUrl=url,
            ReceiptHandle=message["ReceiptHandle"],
            FailureReason=reason,
            VisibilityTimeout=0,
        )
    visitor = Visitor(node.url)
    (message,) = extension(node.url, "PeekMessages", QueueUrl=url)["Messages"]

    page = visitor.get(f"queues/failing-twice/messages/{message['MessageReference']}").body

    shown = [page.index('receive 2">KeyError: sku\n  in line 7</pre>')]
    shown.append(page.index('receive 1">Timeout 30 s</pre>'))
    assert shown == sorted(shown)
    timeline = visitor.get(f"queues/failing-twice/timeline?message={sent}").body
    assert timeline.count('<li class="event event-failed">') == 2


def test_delayed_message_is_retried_now_and_its_failure_is_shown_in_full(
    node: NodeProcess,
) -> None:
    sqs = client(node.url)
    longest = {"MaximumDelaySeconds": "604800"}
    url = sqs.create_queue(QueueName="rescheduled", Attributes=longest)["QueueUrl"]
    failure = {"DataType": "String", "StringValue": "KeyError: sku\n  in line 7"}
    sqs.send_message(
        QueueUrl=url,
        MessageBody="x",
        DelaySeconds=900,
        MessageAttributes={"FailureReason": failure},
    )
    visitor = Visitor(node.url)
    (message,) = extension(node.url, "PeekMessages", QueueUrl=url)["Messages"]
    reference = message["MessageReference"]
    page = visitor.get(f"queues/rescheduled/messages/{reference}").body
    assert 'aria-label="Failure">KeyError: sku\n  in line 7</pre>' in page
    assert "Make visible now" in page
    fields = {"how": "reschedule", "reference": reference}

    assert "in 7 days" in page
    assert "in 30 days" not in page

    for minutes, least in ((720, 43_000), (10_080, 604_000), (0, 0)):
        answer = visitor.post(f"queues/rescheduled/transfer?minutes={minutes}", fields)
        assert answer.status == 303
        (message,) = extension(node.url, "PeekMessages", QueueUrl=url)["Messages"]
        assert message.get("VisibleInSeconds", 0) >= least
    assert message["State"] == "visible"

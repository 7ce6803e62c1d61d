"""The timeline of a message: by keyboard, followed into another queue, with few rights."""

import json
from pathlib import Path
from typing import Any

from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import signed_in


def dead_letter(sqs: Any, name: str, account: str = "000000000000") -> str:
    """Return the id of a message that was moved from a queue of this name to its `-dead`."""
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    target = f"arn:aws:sqs:us-east-1:{account}:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 2})
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sent = str(sqs.send_message(QueueUrl=url, MessageBody="followed")["MessageId"])
    once = {"VisibilityTimeout": 0}
    eventually(lambda: not sqs.receive_message(QueueUrl=url, **once).get("Messages"))
    (message,) = sqs.receive_message(QueueUrl=dead)["Messages"]
    sqs.change_message_visibility(
        QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=600
    )
    return sent


def heads(browser: Browser) -> list[str]:
    # At one time: the page may be about to refresh.
    found = "[...document.querySelectorAll('.event strong')].map((each) => each.innerText)"
    return list(browser.run(f"return {found}"))


def test_message_is_followed_by_keyboard_into_its_dead_letter_queue(
    node: NodeProcess, browser: Browser, screenshots: Path
) -> None:
    sent = dead_letter(client(node.url), "trail")
    browser.look("desktop", "light")
    browser.complaints()
    browser.open(f"{node.url}/console/queues/trail/messages")
    browser.tab_to("Find by ID")
    browser.press(KEYS.ENTER)
    browser.wait("Find the events of a message")
    browser.press("/", sent, KEYS.ENTER)

    browser.wait("Moved to the dead-letter queue")

    lived = ["Sent", "First received", "Moved to the dead-letter queue", "In flight"]
    assert heads(browser) == lived
    moved = browser.texts(".event")[2]
    assert "from trail to trail-dead · received 2 times · by skipmq" in moved
    assert "received 3 times" in browser.texts(".event")[3]
    browser.inspect(screenshots, "timeline")


def test_timeline_is_linked_from_the_message_and_refreshes_itself(
    node: NodeProcess, browser: Browser
) -> None:
    sqs = client(node.url)
    url = sqs.create_queue(QueueName="changing")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="<b>x</b>")
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/changing/messages")
    browser.click(".message .preview")
    with browser.hastened():
        browser.tab_to("Timeline")
        browser.press(KEYS.ENTER)
        eventually(lambda: heads(browser) == ["Sent", "Visible"])

    sqs.receive_message(QueueUrl=url)

    eventually(lambda: heads(browser) == ["Sent", "First received", "In flight"])
    assert browser.complaints() == []


def test_queues_without_a_right_have_no_name_in_it(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    sent = dead_letter(client(signing.url, **admin), "private", ACCOUNT)
    limited = signed_in(
        signing, keys.create(ACCOUNT, "--role", "reader", "--queue", "private-dead")
    )

    page = limited.get(f"queues/private-dead/timeline?message={sent}")

    assert page.status == 200
    assert "a queue that your key may not view" in page.body
    assert ">private<" not in page.body
    assert limited.get(f"queues/private/timeline?message={sent}").status == 403
    for wrong, status in (("nonsense", 400), ("", 200)):
        answer = limited.get(f"queues/private-dead/timeline?message={wrong}")
        assert answer.status == status

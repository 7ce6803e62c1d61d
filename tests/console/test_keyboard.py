"""What people do in the console, in a browser and without a mouse."""

import json
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import NoSuchElementException

from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys

_number = count(1)


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture
def name() -> str:
    return f"typed-{next(_number)}"


@pytest.fixture
def page(node: NodeProcess, browser: Browser) -> str:
    """Give the address of the console, for a browser at rest."""
    browser.look("desktop", "light")
    browser.complaints()
    return f"{node.url}/console"


def test_queue_is_made_used_and_deleted(
    page: str, browser: Browser, sqs: Any, name: str, screenshots: Path
) -> None:
    browser.open(f"{page}/queues")
    browser.press(KEYS.TAB)
    assert browser.focused() == "Skip to the content"
    browser.picture(screenshots / "skip.png")
    browser.tab_to("Create queue")
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.focused().startswith("Name"))
    browser.press(name, KEYS.ENTER)
    browser.wait(f"Queue {name} created.")
    assert browser.sees("The queue is empty")

    browser.tab_to("Send a message")
    browser.press(KEYS.ENTER)
    browser.tab_to("Body")
    browser.press('{"typed": true}')
    browser.tab_to("Add attribute")
    browser.press(KEYS.ENTER)
    assert browser.focused() == "Name of attribute 2"
    browser.press("colour", KEYS.TAB, KEYS.TAB, "red")
    browser.tab_to("Send")
    browser.press(KEYS.ENTER)
    browser.wait("Sent as")
    browser.picture(screenshots / "sent.png")
    assert browser.complaints() == []

    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    (found,) = sqs.receive_message(
        QueueUrl=url, VisibilityTimeout=0, MessageAttributeNames=["All"]
    )["Messages"]
    assert found["Body"] == '{"typed": true}'
    assert found["MessageAttributes"]["colour"]["StringValue"] == "red"

    browser.tab_to("Purge or delete")
    browser.press(KEYS.ENTER)
    assert set(browser.each(".button-danger", "!e.disabled")) == {False}
    browser.tab_to(f"Type {name}")
    browser.tab_to(f"Type {name}")
    browser.press(name)
    assert browser.each(".button-danger", "!e.disabled") == [False, True]
    browser.picture(screenshots / "removal-typed.png")
    browser.press(KEYS.ENTER)
    browser.wait(f"Deleted the queue {name}.")
    assert sqs.list_queues(QueueNamePrefix=name).get("QueueUrls") is None
    assert browser.complaints() == []


def test_search_is_a_key_away_and_answers_as_it_is_typed(
    page: str, browser: Browser, sqs: Any, name: str
) -> None:
    for each in ("apple", "pear"):
        sqs.create_queue(QueueName=f"{name}-{each}")
    browser.open(f"{page}/queues")

    browser.press("/", f"{name}-PEA")

    eventually(lambda: browser.text("#matches") == "1 match")
    assert browser.texts("tbody th") == [f"{name}-pear"]
    assert browser.driver.current_url.endswith(f"?q={name}-PEA&tag=&sort=trouble")
    browser.press(KEYS.BACKSPACE, KEYS.BACKSPACE, KEYS.BACKSPACE)
    eventually(lambda: browser.text("#matches") == "2 matches")
    browser.tab_to("Queue")
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.each("thead [aria-sort]", "e.ariaSort") == ["ascending"])
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.text("tbody th") == f"{name}-pear")
    assert browser.focused().startswith("Queue")
    assert browser.each("thead [aria-sort]", "e.ariaSort") == ["descending"]
    browser.driver.back()
    eventually(lambda: browser.text("tbody th") == f"{name}-apple")
    assert browser.complaints() == []


def test_messages_are_filtered_chosen_and_moved(
    page: str, browser: Browser, sqs: Any, name: str, screenshots: Path
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    target = sqs.create_queue(QueueName=f"{name}-target")["QueueUrl"]
    for body in ("red 1", "blue 1", "red 2"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    browser.open(f"{page}/queues/{name}/messages")

    browser.press("/", "red")
    eventually(lambda: browser.text("#filtered") == "2 of 3 shown")
    browser.press(KEYS.ESCAPE, "j", "x")
    assert (browser.focused(), browser.text("[data-chosen]")) == ("red 1", "1 selected")
    # The actions are above the rows.
    browser.press("/", KEYS.ESCAPE)
    browser.tab_to("Select all")
    browser.press(KEYS.SPACE)
    assert browser.text("[data-chosen]") == "2 selected"
    browser.tab_to("To queue")
    browser.press(f"{name}-target")
    browser.picture(screenshots / "chosen.png")
    browser.tab_to("Move")
    browser.press(KEYS.ENTER)

    browser.wait(f"To {name}-target: 2 moved.")
    found = sqs.receive_message(QueueUrl=target, MaxNumberOfMessages=10)["Messages"]
    assert sorted(each["Body"] for each in found) == ["red 1", "red 2"]
    assert browser.complaints() == []


def test_attribute_that_is_refused_is_shown_where_it_was_typed(
    page: str, browser: Browser, sqs: Any, name: str, screenshots: Path
) -> None:
    sqs.create_queue(QueueName=name)
    browser.open(f"{page}/queues/{name}/settings")

    browser.tab_to("Visibility timeout")
    browser.press("99999", KEYS.ENTER)

    browser.wait("Invalid value for the parameter VisibilityTimeout.")
    assert browser.each("[aria-invalid]", "[e.name, e.value]") == [["VisibilityTimeout", "99999"]]
    browser.picture(screenshots / "refused.png")
    assert browser.complaints() == []


def test_page_refreshes_itself_while_it_is_in_view(
    page: str, browser: Browser, sqs: Any, name: str, screenshots: Path
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    with browser.hastened():
        browser.open(f"{page}/queues?q={name}")
    browser.tab_to(name)

    sqs.send_message(QueueUrl=url, MessageBody="x")

    eventually(lambda: browser.text("[data-label=Visible]") == "1")
    assert browser.focused() == name

    browser.hide(hidden=True)
    browser.let_pass(2)  # What was asked for before.
    asked = browser.run("return window.asked")
    browser.let_pass(6)
    assert browser.run("return window.asked") == asked
    browser.hide(hidden=False)
    eventually(lambda: browser.run("return window.asked") > asked)

    browser.click("#live")
    browser.let_pass(2)
    asked = browser.run("return window.asked")
    browser.let_pass(6)
    assert browser.run("return window.asked") == asked
    browser.click("#live")

    browser.cut_off(offline=True)
    eventually(lambda: browser.shows("#offline"))
    assert browser.text("#live") == "Not updating"
    browser.picture(screenshots / "offline.png")
    browser.cut_off(offline=False)
    eventually(lambda: not browser.shows("#offline"))
    assert browser.text("#live") == "Live"
    assert any("ERR_INTERNET_DISCONNECTED" in each for each in browser.complaints())
    assert browser.complaints() == []


def test_colours_are_chosen_and_kept(page: str, browser: Browser, screenshots: Path) -> None:
    browser.open(f"{page}/queues")
    back = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(back)

    for choice in ("light", "dark"):
        browser.tab_to("Colours")
        browser.press(KEYS.ENTER)
        eventually(lambda choice=choice: browser.each("html", "e.dataset.theme") == [choice])
    browser.open(f"{page}/create")

    assert browser.run(back) != light
    browser.tab_to("Colours: dark. Switch to auto")
    browser.picture(screenshots / "chosen-dark.png")
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.each("html", "e.dataset.theme") == ["auto"])
    assert browser.complaints() == []


@pytest.mark.slow
def test_redrive_shows_its_progress_and_is_cancelled(
    page: str, browser: Browser, sqs: Any, name: str, screenshots: Path
) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name}-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    entries = [{"Id": str(n), "MessageBody": f"{n}"} for n in range(10)]
    for _ in range(4):
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    empty = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
    eventually(lambda: not sqs.receive_message(QueueUrl=url, **empty).get("Messages"))
    assert sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])[
        "Attributes"
    ] == {"ApproximateNumberOfMessages": "40"}
    with browser.hastened():
        browser.open(f"{page}/queues/{name}-dead/redrive")
        browser.tab_to("Rate limit")
        browser.run("document.querySelector('[name=rate]').value = ''")
        browser.press("1", KEYS.ENTER)
        browser.wait("at most 1 a second")
        browser.tab_to("Start redrive")
        browser.press(KEYS.ENTER)
        browser.wait("Started the redrive.")
    progress = "return document.querySelector('#tasks progress')?.value"
    eventually(lambda: browser.run(progress))
    browser.picture(screenshots / "redrive-runs.png")
    browser.tab_to("Cancel")
    browser.press(KEYS.ENTER)

    browser.wait("Cancelled the task")
    eventually(lambda: browser.sees("cancelled") and not browser.count("#tasks progress"))
    assert browser.complaints() == []


def test_viewer_signs_in_and_may_press_nothing(
    signing: NodeProcess, keys: Keys, browser: Browser, screenshots: Path
) -> None:
    admin, reader = keys.create(), keys.create(ACCOUNT, "--role", "reader")
    sqs = client(signing.url, **admin, tries=5)
    eventually(lambda: _made(sqs))
    browser.look("phone", "dark")
    browser.open(f"{signing.url}/console/queues/looked-at/delete")
    browser.picture(screenshots / "sign-in.png")
    eventually(lambda: browser.focused() == "Access key ID")
    browser.press(reader["key"], KEYS.TAB, "wrong", KEYS.ENTER)
    browser.wait("Could not sign in")
    browser.picture(screenshots / "sign-in-refused.png")
    assert browser.complaints() == []

    def enter() -> bool:
        with suppress(NoSuchElementException):  # The next page may be there by now.
            browser.enter("[name=secret]", reader["secret"], KEYS.ENTER)
        return browser.sees("looked-at")

    eventually(enter)

    browser.wait("Your key lacks the right DeleteQueue.")
    assert browser.each(".button-danger", "!e.disabled") == [False, False]
    browser.picture(screenshots / "viewer.png")
    assert browser.complaints() == []
    browser.click("details.menu summary")
    browser.picture(screenshots / "menu.png")
    browser.press(KEYS.ESCAPE)
    assert not browser.shows(".panel")
    browser.look("desktop", "light")
    browser.press(KEYS.ENTER)
    browser.tab_to("Sign out")
    browser.press(KEYS.ENTER)
    browser.wait("Access key ID")


def _made(sqs: Any) -> bool:
    try:
        return bool(sqs.create_queue(QueueName="looked-at"))
    except sqs.exceptions.ClientError:
        return False


def test_keys_go_to_pages_and_walk_through_rows(page: str, browser: Browser, sqs: Any) -> None:
    for name in ("walked-a", "walked-b"):
        sqs.create_queue(QueueName=name)
    browser.look("desktop", "light")
    browser.open(f"{page}/database")

    browser.press("g", "q")
    browser.wait("Queues")
    browser.press("/", "walked-")
    eventually(lambda: browser.text("#matches") == "2 matches")
    browser.press(KEYS.ESCAPE)
    assert browser.each("#q", "e.value") == ["walked-"]
    seen = []
    for key in "jjjk":
        browser.press(key)
        seen.append(browser.focused())
    browser.press(KEYS.ENTER)

    assert seen == ["walked-a", "walked-b", "walked-b", "walked-a"]
    eventually(lambda: browser.text("h1") == "walked-a")
    assert browser.complaints() == []


def test_list_of_keys_opens_and_closes_and_typing_is_not_a_key(page: str, browser: Browser) -> None:
    browser.look("desktop", "light")
    browser.open(f"{page}/create")
    browser.enter("[name=name]", "gq?jk")
    assert browser.each("[name=name]", "e.value") == ["gq?jk"]
    browser.run("document.activeElement.blur()")

    browser.press("?")

    assert browser.shows("#shortcuts")
    assert "Next row" in browser.text("#shortcuts")
    assert browser.complaints() == []
    browser.press(KEYS.ESCAPE)
    assert not browser.shows("#shortcuts")


def test_page_has_the_command_that_does_the_same(page: str, browser: Browser, sqs: Any) -> None:
    sqs.create_queue(QueueName="commanded")
    browser.open(f"{page}/queues/commanded/charts")

    assert browser.text("#terminal") == "skipmq queue stats commanded"
    assert browser.shows("[data-copy]")
    browser.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    browser.click("[data-copy]")

    eventually(lambda: browser.text("[data-copy]") == "Copied")

"""The page of the audit log: filters, pages, records that unfold and stay so."""

from pathlib import Path
from typing import Any

import pytest

from skipmq.console.pages import access
from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually, raw
from support.key_commands import ACCOUNT, Keys
from support.visitor import signed_in

QUEUE = "audited"


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    """Give a client, after a change of a queue."""
    found = client(node.url)
    url = found.create_queue(QueueName=QUEUE)["QueueUrl"]
    found.tag_queue(QueueUrl=url, Tags={"team": "shop"})
    return found


@pytest.fixture
def page(node: NodeProcess, browser: Browser) -> str:
    browser.look("desktop", "light")
    browser.complaints()
    return f"{node.url}/console"


def lines(browser: Browser) -> list[str]:
    return browser.texts(".audit summary")


def shows(browser: Browser, url: str, number: int) -> None:
    """Open a page of the log when it has so many records, which are written later."""
    eventually(lambda: raw(url).body.count(' id="record-') == number)
    browser.open(url)
    assert len(lines(browser)) == number


@pytest.mark.usefixtures("sqs")
def test_queue_leads_to_its_records_and_each_unfolds(page: str, browser: Browser) -> None:
    shows(browser, f"{page}/audit?queue={QUEUE}", 2)
    browser.open(f"{page}/queues/{QUEUE}/messages")
    browser.click(".arn a")
    browser.wait("TagQueue")

    tagged, created = lines(browser)
    browser.click(".audit summary")

    assert "TagQueue" in tagged
    assert f"{QUEUE}\n" in created
    assert "CreateQueue" in created
    assert browser.text(".audit [open]").count('"team": "shop"') == 1
    assert "127.0.0.1" in browser.text(".audit [open]")
    assert browser.complaints() == []


def test_record_of_the_console_says_so_and_comes_by_itself(
    page: str, browser: Browser, sqs: Any
) -> None:
    sqs.create_queue(QueueName="leaving")
    shows(browser, f"{page}/audit?queue=leaving", 1)
    with browser.hastened():
        browser.open(f"{page}/audit?queue=leaving")
    browser.enter(".audit summary", KEYS.ENTER)
    opened = browser.text(".audit [open]")
    tab = browser.driver.current_window_handle

    browser.driver.switch_to.new_window("tab")
    browser.open(f"{page}/queues/leaving/delete")
    browser.enter("[name=typed]", "leaving", KEYS.ENTER)
    browser.wait("Queues")
    browser.driver.close()
    browser.driver.switch_to.window(tab)

    eventually(lambda: len(lines(browser)) == 2)
    assert "console" in lines(browser)[0]
    assert browser.text(".audit [open]") == opened
    assert browser.count(".audit [open]") == 1
    assert browser.complaints() == []


def test_filters_choose_records_and_pages_lead_to_older_ones(
    page: str, browser: Browser, sqs: Any
) -> None:
    url = sqs.create_queue(QueueName="many")["QueueUrl"]
    for n in range(access.PAGE):
        sqs.tag_queue(QueueUrl=url, Tags={"n": f"{n}"})
    eventually(lambda: 'id="older"' in raw(f"{page}/audit?queue=many").body, why="all is written")

    browser.open(f"{page}/audit")
    browser.enter("[name=queue]", "many", KEYS.ENTER)
    eventually(lambda: (shown := lines(browser)) and all("many" in line for line in shown))
    newest = lines(browser)
    browser.click("#older")
    eventually(lambda: len(lines(browser)) == 1)

    assert len(newest) == access.PAGE
    assert "CreateQueue" in lines(browser)[0]
    assert browser.each("[name=queue]", "e.value") == ["many"]
    browser.click("#newest")
    eventually(lambda: len(lines(browser)) == access.PAGE)
    assert browser.complaints() == []


def test_key_without_the_right_is_told_so_and_asks_once(signing: NodeProcess, keys: Keys) -> None:
    visitor = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))

    answer = visitor.get("audit")

    assert answer.status == 200
    assert "Your key may not view the audit log" in answer.body
    assert f'hx-get="{visitor.address_of("audit")}' not in answer.body
    admin = signed_in(signing, keys.create())
    eventually(lambda: "ListAuditRecords" in admin.get("audit?outcome=AccessDenied").body)


LINES = """return [...document.querySelectorAll(".audit summary > *")]
  .filter(e => e.innerText.trim())
  .map(e => [e.innerText, e.getBoundingClientRect(), parseFloat(getComputedStyle(e).lineHeight)])
  .map(([text, box, line]) => [text, Math.round(box.height / line), box.right])"""


@pytest.mark.parametrize("width", ["phone", "desktop"])
def test_long_outcome_leaves_room_for_the_action(
    page: str, browser: Browser, sqs: Any, node: NodeProcess, width: str, tmp_path: Path
) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.untag_queue(QueueUrl=f"{node.url}/000000000000/gone-{width}", TagKeys=["a"])
    browser.look(width, "light")
    shows(browser, f"{page}/audit?queue=gone-{width}", 1)
    browser.picture(tmp_path / f"audit-{width}.png")

    found = {text: (lines, right) for text, lines, right in browser.run(LINES)}

    assert found["UntagQueue"][0] == 1
    assert found["NonExistentQueue"][0] == 1
    assert max(right for _, right in found.values()) <= browser.run("return innerWidth")
    assert browser.complaints() == []

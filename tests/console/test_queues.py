"""The list of queues: its orders, filters and columns, and what is left of them on a phone."""

import json
import re
from html import unescape
from typing import Any

import pytest

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.visitor import Visitor

ARN = "arn:aws:sqs:us-east-1:000000000000"


@pytest.fixture(scope="module")
def shop(node: NodeProcess) -> str:
    """Give queues whose names contain the text that is returned."""
    sqs = client(node.url)
    sqs.create_queue(QueueName="listed-dead")
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:listed-dead", "maxReceiveCount": 1})
    failing = sqs.create_queue(
        QueueName="listed-failing", Attributes={"RedrivePolicy": policy}, tags={"team": "search"}
    )["QueueUrl"]
    sqs.send_message(QueueUrl=failing, MessageBody="poison")
    for _ in range(2):
        sqs.receive_message(QueueUrl=failing, VisibilityTimeout=0)
    full = sqs.create_queue(QueueName="listed-full")["QueueUrl"]
    for n in range(3):
        sqs.send_message(QueueUrl=full, MessageBody=str(n))
    sqs.create_queue(QueueName="listed-line.fifo", Attributes={"FifoQueue": "true"})
    visitor = Visitor(node.url)
    # Counts are added up once a second.
    eventually(lambda: "listed-full" in visitor.get("queues?q=listed&only=backlog").body)
    eventually(lambda: "listed-failing" in visitor.get("queues?q=listed&only=failing").body)
    return "listed"


@pytest.fixture
def page(node: NodeProcess, shop: str) -> str:
    return f"{node.url}/console/us-east-1/000000000000/queues?q={shop}"


def rows(browser: Browser) -> list[str]:
    return browser.texts("tbody th a")


def test_queues_in_trouble_come_first_and_say_why(browser: Browser, page: str) -> None:
    browser.look("desktop", "light")

    browser.open(page)

    assert rows(browser) == ["listed-failing", "listed-full", "listed-dead", "listed-line.fifo"]
    assert browser.texts("tbody .badge") == ["dead-lettered", "dead letters"]


def test_columns_sort_on_the_server_and_turn(browser: Browser, page: str) -> None:
    browser.look("desktop", "light")
    browser.open(page)

    browser.click("#sort-visible")
    eventually(lambda: browser.each("thead [aria-sort]", "e.ariaSort") == ["descending"])
    assert rows(browser)[0] == "listed-full"
    browser.click("#sort-visible")

    eventually(lambda: browser.each("thead [aria-sort]", "e.ariaSort") == ["ascending"])
    assert rows(browser)[-1] == "listed-full"
    assert "sort=visible&dir=asc" in browser.driver.current_url
    assert browser.run("return document.querySelector('#sort').value") == "visible"


def listed(page: str) -> list[str]:
    """Return the names of a page's rows."""
    return re.findall(r"<a [^>]*>(listed-[^<]*)</a>", page.partition("<tbody")[2])


def link(page: str, identity: str) -> str:
    """Return where a link of a page leads to."""
    return unescape(page.partition(f'id="{identity}" href="')[2].partition('"')[0])


@pytest.mark.parametrize(
    ("column", "first"),
    [("visible", "listed-full"), ("dead-lettered", "listed-failing"), ("sent", "listed-full")],
)
def test_heading_of_a_column_leads_to_its_order(
    node: NodeProcess, shop: str, column: str, first: str
) -> None:
    visitor = Visitor(node.url)
    page = visitor.get(f"queues?q={shop}").body

    descending = visitor.get(link(page, f"sort-{column}")).body
    ascending = visitor.get(link(descending, f"sort-{column}")).body

    assert (listed(descending)[0], listed(ascending)[-1]) == (first, first)


def test_filter_is_in_the_address(browser: Browser, page: str) -> None:
    browser.look("desktop", "light")
    browser.open(page)

    browser.click("#only-backlog")

    eventually(lambda: rows(browser) == ["listed-full"])
    browser.open(browser.driver.current_url)
    assert rows(browser) == ["listed-full"]
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("only", "found"),
    [
        ("backlog", ["listed-full"]),
        ("not-received", ["listed-full"]),
        ("failing", ["listed-failing"]),
        ("dead-letters", ["listed-dead"]),
        ("fifo", ["listed-line.fifo"]),
    ],
)
def test_link_of_a_filter_leads_to_its_queues(
    node: NodeProcess, shop: str, only: str, found: list[str]
) -> None:
    visitor = Visitor(node.url)
    page = visitor.get(f"queues?q={shop}").body

    assert listed(visitor.get(link(page, f"only-{only}")).body) == found


def test_tag_filters(node: NodeProcess, shop: str) -> None:
    visitor = Visitor(node.url)

    for tag, number in (("team", 1), ("team%3Dsearch", 1), ("team%3Dother", 0)):
        body = visitor.get(f"queues?q={shop}&tag={tag}").body
        assert ("listed-failing" in body, "No queue matches" in body) == (number == 1, number == 0)


def test_columns_are_chosen_and_remembered(node: NodeProcess, shop: str) -> None:
    visitor = Visitor(node.url)
    assert 'id="sort-visible"' in visitor.get(f"queues?q={shop}").body

    form = {"column": ["messages", "curve", "<script>"], "only": "backlog", "sort": "delayed"}
    answer = visitor.post("columns", form)

    assert answer.status == 303
    # The list stays as it was filtered and sorted.
    assert answer.headers["Location"].endswith("/queues?only=backlog&sort=delayed")
    body = visitor.get(f"queues?q={shop}").body
    assert ('id="sort-messages"' in body, "Last hour" in body) == (True, True)
    assert 'id="sort-visible"' not in body
    # The order has its column.
    assert 'id="sort-visible"' in visitor.get(f"queues?q={shop}&sort=visible").body


def test_queue_is_a_line_on_a_phone_and_sorted_by_a_select(browser: Browser, page: str) -> None:
    browser.look("phone", "light")
    browser.open(page)

    shown = browser.each("tbody tr:first-child td", "[e.dataset.label, e.checkVisibility()]")
    assert [label for label, is_shown in shown if is_shown] == ["Oldest", "Visible"]
    assert all(height < 72 for height in browser.each("tbody tr", "e.offsetHeight"))
    browser.run(
        "const e = document.querySelector('#sort'); e.value = 'dead-lettered';"
        "e.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    eventually(lambda: "sort=dead-lettered" in browser.driver.current_url)

    shown = browser.each("tbody tr:first-child td", "[e.dataset.label, e.checkVisibility()]")
    assert [label for label, is_shown in shown if is_shown] == ["Oldest", "Dead-lettered"]
    assert browser.complaints() == []


def test_unknown_order_and_filter_are_the_default(node: NodeProcess, shop: str) -> None:
    answer: Any = Visitor(node.url).get(f"queues?q={shop}&sort=size&only=x&dir=y&page=0")

    assert (answer.status, "listed-full" in answer.body) == (200, True)

"""Every page in a browser: in two widths, in both schemes of colours, and by axe-core."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from bench.pages import addresses
from support.browser import Browser
from support.http import NodeProcess, client
from support.programs import not_here
from support.visitor import Visitor

LONG = "a-name-as-long-as-names-of-queues-may-be-which-is-eighty-characters-0123456789ab"

AXE = Path(__file__).parent / "accessibility" / "node_modules" / "axe-core" / "axe.min.js"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture(scope="module")
def queues(sqs: Any, node: NodeProcess) -> Any:
    """Give a node what there is to see: queues of each kind, with messages of each state."""
    dead = sqs.create_queue(QueueName="orders-dead")["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:000000000000:orders-dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
    orders = sqs.create_queue(
        QueueName="orders",
        Attributes={"RedrivePolicy": policy, "Policy": _policy()},
        tags={"team": "payments", "cost-centre": "4711"},
    )["QueueUrl"]
    for n in range(1, 26):
        body = {"order": n, "customer": f"c-{n * 37}", "lines": [{"sku": f"S{n}", "count": n}]}
        attributes = {
            "trace": {"DataType": "String", "StringValue": f"t-{n}"},
            "weight": {"DataType": "Number", "StringValue": f"{n}.50"},
        }
        sqs.send_message(
            QueueUrl=orders, MessageBody=json.dumps(body), MessageAttributes=attributes
        )
    sqs.send_message(QueueUrl=orders, MessageBody="later", DelaySeconds=900)
    sqs.receive_message(QueueUrl=orders, MaxNumberOfMessages=4, VisibilityTimeout=600)
    for n in range(3):
        sqs.send_message(QueueUrl=dead, MessageBody=f'{{"failed": {n}}}')
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    mails = sqs.create_queue(QueueName="mails.fifo", Attributes=fifo)["QueueUrl"]
    for n in range(12):
        sqs.send_message(QueueUrl=mails, MessageBody=f"mail {n}", MessageGroupId=f"g{n % 3}")
    sqs.receive_message(QueueUrl=mails, VisibilityTimeout=600)
    Visitor(node.url).post("queues/mails.fifo/groups/pause", {"id": "g9", "hours": "8"})
    sns = client(node.url, "query", service="sns")
    topic = sns.create_topic(Name="orders-paid")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn.removesuffix("-dead"))
    sqs.create_queue(QueueName=LONG)
    for n in range(60):
        sqs.create_queue(QueueName=f"tenant-{n:03}")
    return sqs


def _policy() -> str:
    statement = {
        "Sid": "partner",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::210987654321:root"},
        "Action": "sqs:SendMessage",
        "Resource": "arn:aws:sqs:us-east-1:000000000000:orders",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


# What is looked at unfolded.
FOLDED = {"create": "main summary", "messages": ".message .preview", "audit": ".audit summary"}
PAGES = {
    "overview": ("", "Needs attention"),
    "places": ("places", "Accounts and regions"),
    # Other tests at this node have made more queues than a page has.
    "queues": ("queues?q=orders", "orders-dead"),
    "queues-none": ("queues?q=nothing-of-this-name", "No queue name contains"),
    "create": ("create", "Create queue"),
    "queue": ("queues/orders/overview", "Oldest message"),
    "queue-dead": ("queues/orders-dead/overview", "Dead-letter queue of"),
    "messages": ("queues/orders/messages", "Per page"),
    "messages-fifo": ("queues/mails.fifo/messages", "mail 0"),
    "messages-empty": (f"queues/{LONG}/messages", "The queue is empty"),
    "send": ("queues/orders/send", "Message attributes"),
    "send-fifo": ("queues/mails.fifo/send", "Deduplication ID"),
    "settings": ("queues/orders/settings", "Visibility timeout"),
    "settings-fifo": ("queues/mails.fifo/settings", "Deduplication scope"),
    "redrive": ("queues/orders-dead/redrive", "Dead-letter queue of"),
    "search": ("queues/orders/search?body=order", "Searched 26 messages"),
    "removal": ("queues/orders/delete", "to confirm"),
    "dead-letters": ("dead-letters?q=orders", "orders-dead"),
    "dead-letters-none": ("dead-letters?q=nothing-of-this-name", "No dead-letter queue"),
    "audit": ("audit?queue=orders", "CreateQueue"),
    "audit-none": ("audit?queue=nothing-of-this-name", "No matching records"),
    "database": ("database", "Primary uptime"),
    "sessions": ("database/sessions", "Terminate"),
    "nodes": ("nodes", "Worker"),
    "consumers": ("queues/orders/consumers", "in the last ten minutes"),
    "groups": ("queues/mails.fifo/groups", "Make visible now"),
    "tasks": ("tasks", "Tasks"),
    "topics": ("topics", "orders-paid"),
    "topic": ("topics/orders-paid", "Publish message"),
    "keys": ("keys", "Signatures are off"),
    "charts": ("queues/orders/charts", "Messages per minute"),
    "tail": ("queues/orders/tail", "tail"),
    "timeline-none": (f"queues/orders/timeline?message={NOBODY}", "Message not found"),
    "runbook": ("../../runbook", "The first five minutes"),
    "no-queue": ("queues/nothing/messages", "Queue not found"),
    "no-page": ("nothing/here", "Page not found"),
}


# Of the templates of others, in another state.
ALIKE = {
    *("queues-none", "queue-dead", "messages-empty", "send-fifo", "settings", "dead-letters-none"),
    *("audit-none", "timeline-none", "no-page"),
}


# Whose texts axe-core looks at in the gate, too; `inspect` measures those of all pages.
COLOURED = {"overview", "messages"}


def some(gate: Collection[str]) -> list[Any]:
    """Return all pages as parameters, of which those that the gate has are not slow."""
    return [pytest.param(page, marks=[] if page in gate else [pytest.mark.slow]) for page in PAGES]


def axe() -> str:
    if not AXE.exists():
        not_here("axe-core is not installed: `make clients` installs it")
    return AXE.read_text()


def opened(browser: Browser, node: NodeProcess, page: str) -> None:
    """Open a page, and unfold what is looked at unfolded."""
    path, text = PAGES[page]
    browser.open(f"{node.url}/console/us-east-1/000000000000/{path}")
    # What a node writes later, as records of the audit log, comes with a refresh.
    browser.wait(text)
    if page in FOLDED:
        browser.click(FOLDED[page])


@pytest.mark.parametrize("page", some(PAGES.keys() - ALIKE))
@pytest.mark.usefixtures("queues")
def test_page_is_sound_in_both_widths_and_schemes_and_axe_finds_nothing_serious(
    node: NodeProcess, browser: Browser, screenshots: Path, page: str
) -> None:
    browser.look("phone", "light")
    opened(browser, node, page)

    browser.inspect(screenshots, page)

    assert browser.findings(axe()) == []


@pytest.mark.parametrize("page", some(COLOURED))
@pytest.mark.usefixtures("queues")
def test_axe_finds_no_faint_text_in_either_scheme(
    node: NodeProcess, browser: Browser, page: str
) -> None:
    browser.look("phone", "light")
    opened(browser, node, page)

    assert browser.findings(axe(), contrast=True) == []
    browser.look("desktop", "dark")
    assert browser.findings(axe(), contrast=True) == []


@pytest.mark.usefixtures("queues")
def test_benchmark_opens_pages_that_there_are(node: NodeProcess) -> None:
    visitor = Visitor(node.url)

    found = {
        page: visitor.get(page.format(id=NOBODY)).status for page in addresses("orders").values()
    }

    assert set(found.values()) == {200}, found


def test_faint_text_and_a_button_without_a_name_are_found(
    node: NodeProcess, browser: Browser
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/us-east-1/000000000000/database")
    browser.run(
        "document.querySelector('main').append(document.createElement('button'));"
        "document.querySelector('h1').style.color = '#ccc'"
    )

    (button,) = browser.findings(axe())
    (heading,) = browser.findings(axe(), contrast=True)
    measured = browser.complaints()

    assert button.startswith("button-name")
    assert heading.startswith("color-contrast: <h1")
    assert [each.partition(" ")[0] for each in measured] == ["contrast", "no"]

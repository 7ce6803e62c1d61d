"""Fields are completed with what is there, for whoever may see it."""

import re
from typing import Any

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, records, signed_in


def options(page: str, field: str = "") -> list[str]:
    """Return the options of a list of a page, or of an answer that is nothing else."""
    found = page.partition(f'<datalist id="{field}">')[2].partition("</datalist>")[0]
    return re.findall(r'<option value="([^"]*)">', found if field else page)


def test_names_of_queues_complete_as_they_are_typed(node: NodeProcess, browser: Browser) -> None:
    sqs = client(node.url)
    for name in ("fruit", "fruit-apples", "fruit-pears", "vegetables"):
        queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="a carrot")
    browser.open(f"{node.url}/console/queues/vegetables/messages")
    browser.tab_to("To queue")

    def offered() -> Any:
        return browser.run(
            "return [...document.querySelector('#queue-names').options].map(each => each.value)"
        )

    eventually(offered)
    browser.press("fruit-")
    eventually(lambda: offered() == ["fruit-apples", "fruit-pears"])
    assert browser.complaints() == []


def test_attributes_of_messages_complete_a_filter(node: NodeProcess) -> None:
    sqs = client(node.url)
    queue = sqs.create_queue(QueueName="attributed")["QueueUrl"]
    for colour in ("red", 'gr"een', "red"):
        attributes = {
            "colour": {"DataType": "String", "StringValue": colour},
            "key": {"DataType": "Binary", "BinaryValue": b"\0"},
        }
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)

    page = Visitor(node.url).get("queues/attributed/search").body

    assert options(page, "attributes") == ["colour", "key"]
    assert options(page, "values") == ["gr&#34;een", "red"]


def test_nothing_is_offered_to_whoever_may_not_see_it(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    boss = signed_in(signing, admin)
    sqs = client(signing.url, **admin)
    queue = sqs.create_queue(QueueName="secret-plans")["QueueUrl"]
    attributes = {"plan": {"DataType": "String", "StringValue": "escape"}}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    worker = signed_in(
        signing, keys.create(ACCOUNT, "--role", "consumer", "--queue", "secret-plans")
    )
    begun = "complete/queues?destination=secret-p"

    assert options(boss.get(begun).body) == ["secret-plans"]
    assert options(worker.get(begun).body) == []
    assert "escape" in boss.get("queues/secret-plans/search").body
    assert "escape" not in worker.get("queues/secret-plans/search").body
    assert records(signing, worker, "ListQueues") == []
    assert Visitor(signing.url).get(begun).status in {302, 303, 401}

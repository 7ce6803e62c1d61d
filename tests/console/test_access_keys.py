"""The pages of access keys."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.browser import Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in

Page = Callable[[str], str]


def row(page: str, queue: str) -> list[str]:
    """Return the rights in a queue's row, in the order of the columns."""
    cells = page.partition(f">{queue}</a></th>")[2].partition("</tr>")[0].split("</td>")[:-1]
    return ["yes" if ">yes<" in each else "no" for each in cells]


def test_key_shows_what_it_may_do_by_queue(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    consumer = keys.create(ACCOUNT, "--role", "consumer", "--queue", "rights-orders")
    visitor = signed_in(signing, admin)
    sqs = client(signing.url, **admin)
    for name in ("rights-orders", "rights-other"):
        sqs.create_queue(QueueName=name)

    def shown() -> str | None:  # A node knows of a new key a moment later.
        body = visitor.get(f"keys/{consumer['key']}?q=rights-").body
        return body if "yes" in row(body, "rights-orders") else None

    page = eventually(shown)

    assert "Role consumer for rights-orders" in page
    assert row(page, "rights-orders") == ["no", "yes", "yes", "no", "no", "yes", *["no"] * 6]
    assert row(page, "rights-other") == ["no"] * 12
    assert set(row(visitor.get(f"keys/{admin['key']}").body, "rights-other")) == {"yes"}


def test_policy_of_a_queue_counts(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    reader = keys.create(ACCOUNT, "--role", "reader")
    visitor = signed_in(signing, admin)
    sqs = client(signing.url, **admin)
    queue = sqs.create_queue(QueueName="rights-denied")["QueueUrl"]
    statement: dict[str, Any] = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:PeekMessages",
        "Resource": "*",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})

    page = visitor.get(f"keys/{reader['key']}?q=rights-denied").body

    assert row(page, "rights-denied")[3] == "no"


def test_consumer_keeps_the_name_of_its_revoked_key(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    key = keys.create(ACCOUNT, "--name", "leaver", "--role", "consumer")
    visitor = signed_in(signing, admin)
    queue = client(signing.url, **admin).create_queue(QueueName="left")["QueueUrl"]
    client(signing.url, **key).receive_message(QueueUrl=queue)

    keys.run("revoke", "--yes", key["key"])
    eventually(lambda: visitor.get(f"keys/{key['key']}").status == 404)

    named = f'leaver <code class="faint">{key["key"]}'
    eventually(lambda: named in visitor.get("queues/left/consumers").body)


def test_keys_are_listed_without_secrets_for_admins_only(
    signing: NodeProcess, keys: Keys, browser: Browser, screenshots: Path
) -> None:
    admin, reader = keys.create(), keys.create(ACCOUNT, "--role", "reader")
    other = keys.create("210987654321")
    visitor = signed_in(signing, admin)

    page = visitor.get("keys").body

    assert admin["key"] in page
    assert reader["key"] in page
    assert other["key"] not in page
    assert admin["secret"] not in page
    assert visitor.get(f"keys/{other['key']}").status == 404
    refused = signed_in(signing, reader)
    assert "Your key may not list access keys" in refused.get("keys").body
    assert refused.get(f"keys/{reader['key']}").status == 403
    browser.open(f"{signing.url}/console/sign-in")
    browser.enter("[name=key_id]", admin["key"])
    browser.enter("[name=secret]", admin["secret"])
    browser.click("main form button")
    browser.wait("Queues")
    for path in ("keys", f"keys/{reader['key']}"):
        browser.open(f"{signing.url}/console/{path}")
        browser.wait(reader["key"])
        browser.inspect(screenshots, path.replace("/", "-"))


def test_node_without_signatures_says_so(node: NodeProcess) -> None:
    assert "Signatures are off" in Visitor(node.url).get("keys").body

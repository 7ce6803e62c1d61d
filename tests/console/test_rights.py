"""What a key's rights allow in the console: the node decides, as it does for clients."""

import json
from typing import Any

import pytest

from support.forms import CHANGES, fields, state
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, links, records, signed_in


@pytest.fixture(scope="module")
def key(keys: Keys) -> dict[str, str]:
    """Give a key that may do everything."""
    return keys.create()


@pytest.fixture(scope="module")
def viewer(signing: NodeProcess, keys: Keys) -> Visitor:
    """Give a visitor whose key only looks."""
    return signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))


@pytest.fixture(scope="module")
def sqs(signing: NodeProcess, key: dict[str, str]) -> Any:
    """Give a client that may do everything, at a node that has a queue."""
    signed_in(signing, key)
    found = client(signing.url, **key)
    url = found.create_queue(QueueName="readable", tags={"team": "a"})["QueueUrl"]
    found.send_message(QueueUrl=url, MessageBody="first")
    return found


@pytest.mark.usefixtures("sqs")
def test_viewer_sees_every_page(viewer: Visitor) -> None:
    for page in (
        "queues",
        "queues/readable/messages",
        "queues/readable/settings",
        "queues/readable/redrive",
    ):
        answer = viewer.get(page)
        assert (answer.status, "readable" in answer.body) == (200, True)
    assert "first" in viewer.get("queues/readable/messages").body
    assert "Your key lacks the right DeleteQueue." in viewer.get("queues/readable/delete").body


@pytest.mark.parametrize("path", [path for path in CHANGES if path != "scope"])
def test_viewer_changes_nothing(viewer: Visitor, sqs: Any, path: str) -> None:
    before = state(sqs, "readable")
    form = fields(path, "readable")

    answer = viewer.post(path.format(name="readable"), form, csrf=viewer.csrf("queues"))

    # A handle that names no queue is wrong whoever has it.
    expected = "TaskHandle" if path.endswith("cancel") else "AccessDenied"
    assert expected in answer.body
    assert state(sqs, "readable") == before


def test_what_is_done_in_the_console_is_on_the_record(
    signing: NodeProcess, key: dict[str, str]
) -> None:
    visitor = signed_in(signing, key)

    visitor.post("create", {"name": "recorded", "kind": "standard"}, csrf=visitor.csrf("queues"))

    (record,) = eventually(lambda: records(signing, visitor, "CreateQueue"))
    assert (record["outcome"], record["access_key"]) == ("done", key["key"])
    assert record["queue"].endswith(":recorded")


def test_what_the_viewer_is_refused_is_on_the_record(signing: NodeProcess, viewer: Visitor) -> None:
    form = {"typed": "readable"}

    viewer.post("queues/readable/delete", form, csrf=viewer.csrf("queues"))

    assert eventually(lambda: records(signing, viewer, "DeleteQueue"))[0]["level"] == "warning"


def test_key_for_some_queues_sees_those(signing: NodeProcess, keys: Keys, sqs: Any) -> None:
    sqs.create_queue(QueueName="unreadable")
    visitor = signed_in(signing, keys.create(ACCOUNT, "--role", "reader", "--queue", "readable"))

    assert "Open a queue by name" in visitor.get("queues").body
    found = visitor.get("open?name=readable").headers["Location"]
    assert found == visitor.address_of("queues/readable/overview")
    assert visitor.get("queues/readable/messages").status == 200
    assert visitor.get("queues/unreadable/messages").status == 403
    # Of a queue that is not there it learns as little.
    assert visitor.get("queues/no-such/messages").status == 403


def test_counts_are_hidden_where_the_queues_policy_denies_them(viewer: Visitor, sqs: Any) -> None:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:GetQueueAttributes",
        "Resource": "*",
    }
    url = sqs.create_queue(QueueName="secretive")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": json.dumps({"Statement": [statement]})}
    )

    row = viewer.get("queues?q=secretive").body.partition("<tbody")[2].partition("</tbody>")[0]

    assert row.count("may not read the attributes") == 5  # In the place of each number.


def test_operator_pauses_and_resumes_and_sets_nothing_else(
    signing: NodeProcess, keys: Keys, sqs: Any
) -> None:
    operator = signed_in(signing, keys.create(ACCOUNT, "--role", "operator"))
    settings = fields("queues/{name}/settings", "readable")

    for paused in ("true", "false"):
        operator.post("queues/readable/pause", {"paused": paused}, csrf=operator.csrf("queues"))
        assert state(sqs, "readable")[0]["Paused"] == paused

    refused = operator.post("queues/readable/settings", settings, csrf=operator.csrf("queues"))
    assert "AccessDenied" in refused.body


@pytest.mark.usefixtures("sqs")
def test_menu_has_the_pages_that_a_key_may_open(
    signing: NodeProcess, keys: Keys, viewer: Visitor
) -> None:
    narrow = signed_in(signing, keys.create(ACCOUNT, "--role", "reader", "--queue", "readable"))
    producer = signed_in(signing, keys.create(ACCOUNT, "--role", "producer"))

    assert links(viewer.get("tasks"), "Pages") == [
        "Overview", "Queues", "Dead letters", "Tasks", "Topics", "Schedules"
    ]  # fmt: skip
    assert links(narrow.get("queues"), "Pages") == ["Queues"]
    # What it opens first is no refusal, which would be recorded.
    assert narrow.get("/console/").headers["Location"] == narrow.address_of("queues")
    assert narrow.get("queues").status == 200
    tabs = "Pages of this queue"
    assert links(viewer.get("queues/readable/overview"), tabs) == [
        "Overview", "Messages", "Consumers", "Groups", "Charts", "Settings"
    ]  # fmt: skip
    assert links(producer.get("queues/readable/overview"), tabs) == [
        "Overview", "Charts", "Send", "Settings"
    ]  # fmt: skip
    assert "Audit log" not in viewer.get("queues/readable/overview").body
    refused = [line for line in signing.lines if '"AccessDenied"' in line]
    assert not any(
        f'"client": "{each.address}"' in line for each in (narrow, producer) for line in refused
    )


@pytest.mark.usefixtures("sqs")
def test_reader_cannot_type_where_it_cannot_save(viewer: Visitor) -> None:
    page = viewer.get("queues/readable/settings").body

    assert '<fieldset class="stack" disabled>' in page
    assert 'aria-label="Policy" readonly' in page
    assert page.count("Your key lacks the right SetQueueAttributes.") == 2

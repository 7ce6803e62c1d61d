"""The search of a queue: what it finds is shown, counted, and moved, copied or deleted."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, Keys
from support.sql import number
from support.visitor import Visitor, records, signed_in

SCOPE = "console/us-east-1/000000000000"


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


def field(page: str, name: str) -> str:
    """Return the value of a field of a page's forms."""
    return page.partition(f'name="{name}" value="')[2].partition('"')[0]


def test_exactly_what_was_found_is_moved_by_keyboard(
    node: NodeProcess, browser: Browser, screenshots: Path
) -> None:
    sqs = client(node.url)
    url, other = filled(sqs, "coloured")
    browser.look("desktop", "light")
    browser.complaints()
    browser.open(f"{node.url}/{SCOPE}/queues/coloured/search")
    browser.tab_to("JSON path")
    browser.press("$.red", KEYS.ENTER)
    browser.wait("10 messages found. Searched 20 messages: the whole queue.")
    assert browser.count(".message") == 10
    sqs.send_message(QueueUrl=url, MessageBody='{"red": true, "later": true}')
    browser.inspect(screenshots, "search-found")
    browser.tab_to("Move or copy")
    browser.press(KEYS.ENTER)
    browser.tab_to("To queue")
    browser.press("coloured-other")
    browser.tab_to("Move 10 messages from coloured")
    browser.press(KEYS.ENTER)

    browser.wait("To coloured-other: 10 moved.")

    assert (waiting(sqs, url), waiting(sqs, other)) == ("11", "10")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"body": '"n": 1'}, 11),
        ({"body": '"n": 1', "path": "$.red"}, 5),
        ({"receives": "1"}, 3),
        ({"minutes": "1000"}, 0),
        ({"attribute": "colour"}, 1),
        ({"attribute": "colour", "value": "green"}, 0),
        ({"failure": "Timeout # s"}, 1),
        ({"none": "1"}, 20),
        ({"go": "1"}, 21),
    ],
    ids=str,
)
def test_members_of_the_filter(node: NodeProcess, query: dict[str, str], found: int) -> None:
    sqs = client(node.url)
    name = "searched"
    if not sqs.list_queues(QueueNamePrefix=f"{name}-other").get("QueueUrls"):
        url, _ = filled(sqs, name)
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=3, VisibilityTimeout=900)
        attributes = {"colour": "red", "FailureReason": "Timeout 3 s"}
        sqs.send_message(
            QueueUrl=url,
            MessageBody="no JSON",
            MessageAttributes={
                key: {"DataType": "String", "StringValue": value}
                for key, value in attributes.items()
            },
        )

    page = Visitor(node.url).get(f"queues/{name}/search?{urlencode(query)}").body

    assert f"<strong>{found} message{'s' * (found != 1)} found.</strong>" in page
    assert ("No message matches" in page) == (found == 0)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"path": "red"}, "The JSON path is invalid"),
        ({"path": '$.a ? (@ like_regex "x")'}, "The JSON path is invalid"),
        ({"receives": "many"}, "Must be an integer"),
        ({"receives": "0"}, "at least 1"),
        ({"value": "x"}, "requires an attribute name"),
        ({"body": "x" * 300}, "1 to 256 characters"),
        ({"go": "1", "after": "1.2.nonsense"}, "Invalid or expired next token"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_filter_is_refused_and_stays_in_the_form(
    node: NodeProcess, query: dict[str, str], text: str
) -> None:
    client(node.url).create_queue(QueueName="wrong")

    answer = Visitor(node.url).get(f"queues/wrong/search?{urlencode(query)}")

    assert (answer.status, text in answer.body) == (400, True)
    assert "Could not search the queue" in answer.body


def test_large_queue_is_searched_in_steps_and_a_task_takes_what_was_there(
    node: NodeProcess, browser: Browser
) -> None:
    sqs = client(node.url)
    url, other = filled(sqs, "large", 2)
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        queue = number(owner, "select skipmq.queue_id('large')")
        owner.execute(
            "insert into skipmq.message (id, visible_at, sent_at, enqueued_at, queue_id,"
            " message_id, body) select nextval('skipmq.message_id_seq'), t, t, t, %s,"
            " gen_random_uuid(), case when n %% 100000 = 0 then '{\"red\": true}' else 'x' end"
            " from generate_series(1, 201000) n,"
            " lateral (select now() + n * interval '1 us' - interval '1 s' as t) x",
            (queue,),
        )
    # Without the script a button continues it.
    page = Visitor(node.url).get("queues/large/search?body=nowhere").body
    assert 'id="continue-search"' in page
    assert field(page, "after").startswith("0.")
    browser.look("desktop", "light")
    # Behind another tab it waits, and can be stopped.
    with browser.behind():
        browser.open(f"{node.url}/{SCOPE}/queues/large/search?body=%22red%22%3A+true")
    so_far = browser.text("#found [role=status]")
    browser.click("#stop-search")
    browser.hide(hidden=False)
    eventually(lambda: browser.shows("#continue-search"))
    assert browser.text("#found [role=status]") == so_far
    assert not browser.shows("#stop-search")
    browser.click("#continue-search button")
    # It continues by itself; each step adds to what is shown.
    browser.wait("3 messages found. Searched 201,002 messages: the whole queue.")

    assert (browser.count(".found .message"), browser.count(".found progress")) == (3, 0)
    browser.click(".actions details:not(:has([value=delete])) > summary")
    browser.enter("[name=destination]", "large-other")
    sqs.send_message(QueueUrl=url, MessageBody='{"red": true}')
    browser.click(".actions [value=move]")
    browser.wait("Started to move messages.")
    eventually(lambda: waiting(sqs, other) == "3", seconds=120)
    browser.open(f"{node.url}/{SCOPE}/queues/large/search?path=$.red")
    assert browser.complaints() == []


def test_task_shows_its_progress_and_is_cancelled(node: NodeProcess) -> None:
    sqs = client(node.url)
    url, other = filled(sqs, "copied-slowly", 200)
    visitor = Visitor(node.url)
    form = {"how": "copy", "destination": "copied-slowly-other", "rate": "1", "path": "$.red"}
    assert visitor.post("queues/copied-slowly/search", form).status == 303
    eventually(lambda: int(waiting(sqs, other)) > 1)

    page = visitor.get("queues/copied-slowly/redrive").body

    assert "<progress" in page
    assert "with <code>$.red</code>" in page
    assert visitor.post(
        "queues/copied-slowly/redrive/cancel", {"handle": field(page, "handle")}
    ).status
    eventually(lambda: ">cancelled<" in visitor.get("queues/copied-slowly/redrive").body)
    assert waiting(sqs, url) == "200"


def test_deletion_names_number_and_queue_and_leaves_no_text_in_the_log(
    signing: NodeProcess, keys: Keys
) -> None:
    admin = keys.create()
    visitor = signed_in(signing, admin)
    url, _ = filled(client(signing.url, **admin), "doomed", 4)
    page = visitor.get("queues/doomed/search?path=$.red&body=red").body
    assert "Delete 2 messages from doomed permanently" in page

    found = visitor.post(
        "queues/doomed/search", {"how": "delete", "references": field(page, "references")}
    )
    assert (found.status, "2 deleted." in visitor.get("queues/doomed/messages").body) == (303, True)
    task = {"how": "delete", "body": "n", "path": "$.n > 1", "failure": ""}
    assert visitor.post("queues/doomed/search", task).status == 303
    eventually(lambda: waiting(client(signing.url, **admin), url) == "1")
    (record,) = eventually(lambda: records(signing, visitor, "StartMessageTask"))
    assert (record["parameters"]["BodyContains"], record["parameters"]["BodyPath"]) == (
        "***", "***"
    )  # fmt: skip
    assert record["outcome"] == "done"


def test_search_and_task_need_the_rights_of_what_they_do(signing: NodeProcess, keys: Keys) -> None:
    admin = keys.create()
    signed_in(signing, admin)
    filled(client(signing.url, **admin), "guarded", 2)
    consumer = signed_in(signing, keys.create(ACCOUNT, "--role", "consumer"))
    reader = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))

    for visitor in (consumer, reader):
        assert visitor.post("queues/guarded/search", {"how": "delete"}).status == 403
    assert consumer.get("queues/guarded/search?go=1").status == 403
    assert "2 messages found" in reader.get("queues/guarded/search?go=1").body

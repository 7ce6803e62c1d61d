"""What the forms of the console do, and refuse, over plain HTTP."""

import json
from html import unescape
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from support.forms import CHANGES, attributes, fields, state
from support.http import NodeProcess, client, eventually, raw
from support.visitor import Visitor
from support.wire import exchange

_number = count(1)
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"


@pytest.fixture(scope="module")
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture(scope="module")
def visitor(node: NodeProcess) -> Visitor:
    return Visitor(node.url)


@pytest.fixture
def name() -> str:
    return f"queue-{next(_number)}"


@pytest.fixture
def queue(sqs: Any, name: str) -> str:
    url = sqs.create_queue(QueueName=name, tags={"team": "a"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="first")
    return str(url)


OF_ANOTHER_SITE: list[dict[str, str]] = [
    {"csrf": ""},
    {"csrf": "another"},
    {"Origin": "https://attacker.example"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Host": "attacker.example"},
]


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.usefixtures("queue")
def test_form_of_another_site_does_nothing(
    sqs: Any, visitor: Visitor, name: str, path: str
) -> None:
    before, own = state(sqs, name), {"csrf": visitor.csrf()}
    form = fields(path, name)

    answers = [
        visitor.post(path.format(name=name), form, **own | wrong) for wrong in OF_ANOTHER_SITE
    ]

    found = [(answer.status, "AccessDenied" in answer.body) for answer in answers]
    assert found == [(403, True)] * len(OF_ANOTHER_SITE)
    assert state(sqs, name) == before


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.usefixtures("queue")
def test_link_changes_nothing(sqs: Any, visitor: Visitor, name: str, path: str) -> None:
    before = state(sqs, name)
    given = "&".join(f"{key}={value}" for key, value in fields(path, name).items())

    answer = visitor.get(f"{path.format(name=name)}?{given}")

    assert answer.status in (200, 404)
    assert state(sqs, name) == before


def test_page_of_another_site_reads_nothing(node: NodeProcess, visitor: Visitor) -> None:
    for headers in ({"Host": "attacker.example"}, {"Sec_Fetch_Site": "cross-site"}):
        answer = visitor.get("queues", **headers)
        assert (answer.status, "AccessDenied" in answer.body) == (403, True)
    lines = [json.loads(line) for line in node.lines if line.startswith("{")]
    assert any(each["event"] == "audit" and each["outcome"] == "AccessDenied" for each in lines)


def test_every_answer_has_its_headers(visitor: Visitor, node: NodeProcess) -> None:
    pages = ["", "queues", "nothing", "queues/no-such/messages", "static/console.js", "static/none"]
    answers = [visitor.get(page) for page in pages]
    answers.append(visitor.post("create", csrf="wrong"))
    answers.append(raw(f"{node.url}/console/queues", b"", {"Host": "attacker.example"}))

    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
    assert visitor.get("queues").headers["Cache-Control"] == "no-store"


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("value", ["9" * 5_000, "9" * 500, "\u00b2", "\u0663" * 5_000])
def test_number_of_any_length_is_refused_next_to_its_field(
    visitor: Visitor, name: str, value: str
) -> None:
    forms = (
        (f"queues/{name}/settings", {"VisibilityTimeout": value, "MaximumMessageSize": value}),
        ("create", {"name": "new", "VisibilityTimeout": value}),
        (f"queues/{name}/settings", {"dead_letter_queue": "x", "receives": value}),
        (f"queues/{name}/send", {"body": "x", "DelaySeconds": value}),
        (f"queues/{name}/redrive", {"rate": value}),
    )
    for path, given in forms:
        answer = visitor.post(path, given)

        assert answer.status == 400, (path, answer.body[-2_000:])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(node: NodeProcess, method: str) -> None:
    assert raw(f"{node.url}/console/queues", method=method).status == 405


def test_queue_is_created_with_its_attributes(sqs: Any, visitor: Visitor, name: str) -> None:
    form = {"name": name, "kind": "fifo", "VisibilityTimeout": "45", "HistoryMode": "full"}

    answer = visitor.post(
        "create", form | {"ContentBasedDeduplication": "true", "DelaySeconds": ""}
    )

    assert (answer.status, answer.headers["Location"]) == (
        303,
        visitor.address_of(f"queues/{name}.fifo/messages"),
    )
    found = attributes(sqs, sqs.get_queue_url(QueueName=f"{name}.fifo")["QueueUrl"])
    assert found["VisibilityTimeout"] == "45"
    assert found["ContentBasedDeduplication"] == "true"
    assert found["HistoryMode"] == "full"
    assert f"Queue {name}.fifo created." in visitor.get(f"queues/{name}.fifo/messages").body
    assert f"Queue {name}.fifo created" not in visitor.get(f"queues/{name}.fifo/messages").body


def test_error_of_sqs_stands_next_to_the_form(
    sqs: Any, visitor: Visitor, queue: str, name: str
) -> None:
    form = {"VisibilityTimeout": "43201", "was-VisibilityTimeout": "30", "DelaySeconds": "7"}

    answer = visitor.post(f"queues/{name}/settings", form | {"was-DelaySeconds": "0"})

    assert answer.status == 400
    assert "Invalid value for the parameter VisibilityTimeout." in answer.body
    assert 'name="VisibilityTimeout" value="43201"' in answer.body
    assert 'name="DelaySeconds" value="7"' in answer.body
    assert attributes(sqs, queue)["DelaySeconds"] == "0"


def test_every_invalid_field_of_a_form_is_named(visitor: Visitor, queue: str, name: str) -> None:
    del queue
    form = {"VisibilityTimeout": "43201", "was-VisibilityTimeout": "30", "DelaySeconds": "-1"}
    changed = visitor.post(f"queues/{name}/settings", form | {"was-DelaySeconds": "0"})
    created = visitor.post("create", {"name": "a b", "kind": "standard", "DelaySeconds": "901"})

    for answer in (changed, created):
        assert answer.status == 400
        assert "Invalid value for the parameter DelaySeconds." in answer.body
    assert "Invalid value for the parameter VisibilityTimeout." in changed.body
    assert changed.body.count('aria-invalid="true"') == 2
    assert "Can only include alphanumeric characters" in created.body
    assert created.body.count('aria-invalid="true"') == 2


def test_head_of_a_page_has_its_length_and_no_body(node: NodeProcess, visitor: Visitor) -> None:
    create = visitor.address_of("create")
    for path, status in ((create, 200), ("/console/none", 404)):
        got, head = (exchange(node.port, path=path, method=each) for each in ("GET", "HEAD"))

        assert (got.status, head.status, head.body) == (status, status, "")
        assert head.headers["Content-Length"] == got.headers["Content-Length"]


def test_attributes_that_were_not_touched_stay_as_others_set_them(
    sqs: Any, visitor: Visitor, queue: str, name: str
) -> None:
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "9"})
    shown = {"was-DelaySeconds": "0", "DelaySeconds": "0"}
    changed = {"was-VisibilityTimeout": "30", "VisibilityTimeout": "31"}

    assert visitor.post(f"queues/{name}/settings", shown | changed).status == 303

    found = attributes(sqs, queue)
    assert (found["DelaySeconds"], found["VisibilityTimeout"]) == ("9", "31")


def test_dead_letter_queue_is_named_and_taken_away(
    sqs: Any, visitor: Visitor, queue: str, name: str
) -> None:
    sqs.create_queue(QueueName=f"{name}-dead")
    none = {"was-dead_letter_queue": "", "was-receives": ""}

    wrong = visitor.post(f"queues/{name}/settings", none | {"dead_letter_queue": f"{name}-dead"})
    done = visitor.post(
        f"queues/{name}/settings", none | {"dead_letter_queue": f"{name}-dead", "receives": "4"}
    )

    assert (wrong.status, "maxReceiveCount" in wrong.body) == (400, True)
    assert done.status == 303
    policy = json.loads(attributes(sqs, queue)["RedrivePolicy"])
    assert policy["maxReceiveCount"] == 4
    assert f'value="{name}-dead"' in visitor.get(f"queues/{name}/settings").body
    was = {"was-dead_letter_queue": f"{name}-dead", "was-receives": "4"}
    form = was | {"dead_letter_queue": "", "receives": ""}
    assert visitor.post(f"queues/{name}/settings", form).status == 303
    assert "RedrivePolicy" not in attributes(sqs, queue)


def test_tags_and_policy_are_changed(sqs: Any, visitor: Visitor, queue: str, name: str) -> None:
    policy = '{"Version":"2012-10-17","Statement":[]}'
    for path, form in (
        ("tags", {"key": "cost", "value": "4711"}),
        ("tags/remove", {"key": "team"}),
        ("policy", {"policy": policy}),
    ):
        assert visitor.post(f"queues/{name}/settings/{path}", form).status == 303

    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"cost": "4711"}
    assert attributes(sqs, queue)["Policy"] == policy
    wrong = visitor.post(f"queues/{name}/settings/policy", {"policy": "{"})
    assert (wrong.status, "parameter Policy" in wrong.body) == (400, True)


def test_message_is_sent_as_it_was_typed(sqs: Any, visitor: Visitor, name: str) -> None:
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    form = {
        "body": "line 1\r\nline 2 <b> ü 🎉",
        "key-0": "colour", "type-0": "String", "value-0": "red",
        "key-3": "raw", "type-3": "Binary", "value-3": "AP8=",
    }  # fmt: skip

    assert visitor.post(f"queues/{name}/send", form).status == 303

    (found,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert found["Body"] == "line 1\nline 2 <b> ü 🎉"
    assert found["MessageAttributes"]["colour"]["StringValue"] == "red"
    assert found["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\xff"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"body": ""}, "MessageBody"),
        ({"body": "x", "DelaySeconds": "901"}, "DelaySeconds"),
        ({"body": "x", "DelaySeconds": "soon"}, "Must be an integer"),
        ({"body": "x", "DelaySeconds": "99999999999"}, "InvalidParameterValue"),
        ({"body": "x", "key-0": "a", "type-0": "Binary", "value-0": "?"}, "not base64"),
        ({"body": "x", "key-0": "a", "type-0": "Number", "value-0": "red"}, "Number"),
        ({"body": "x", "MessageDeduplicationId": "1"}, "MessageDeduplicationId"),
        ({"body": "x" * 1_048_577}, "shorter than 1048576 bytes"),
    ],
    ids=lambda given: str(given)[:40],
)
@pytest.mark.usefixtures("queue")
def test_message_that_cannot_be_sent_stays_in_the_form(
    visitor: Visitor, name: str, form: dict[str, str], text: str
) -> None:
    answer = visitor.post(f"queues/{name}/send", form)

    assert (answer.status, text in answer.body) == (400, True)
    assert form["body"] in answer.body


def test_largest_message_is_sent_and_shown_whole(sqs: Any, visitor: Visitor, name: str) -> None:
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    # Escaped in a form each is three bytes.
    body = "<" * 1_048_575 + "!"

    assert visitor.post(f"queues/{name}/send", {"body": body}).status == 303

    assert sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)["Messages"][0]["Body"] == body
    page = visitor.get(f"queues/{name}/messages").body
    assert "1 MiB" in page
    assert len(page) < 100_000
    (link,) = [each for each in page.split('"') if f"/queues/{name}/messages/" in each]
    file = visitor.get(f"{unescape(link)}/body")
    assert file.body == body
    assert file.headers["Content-Disposition"].startswith("attachment; filename=")
    shown = visitor.get(unescape(link)).body
    assert unescape(shown.partition("<pre")[2].partition(">")[2].partition("</pre>")[0]) == body


def test_chosen_messages_are_copied_and_moved(
    sqs: Any, visitor: Visitor, queue: str, name: str
) -> None:
    target = sqs.create_queue(QueueName=f"{name}-target")["QueueUrl"]
    page = visitor.get(f"queues/{name}/messages").body
    reference = page.partition('name="reference" value="')[2].partition('"')[0]
    form = {"reference": reference, "destination": f"{name}-target"}

    assert visitor.post(f"queues/{name}/transfer", form | {"how": "copy"}).status == 303
    assert "1 copied" in visitor.get(f"queues/{name}/messages").body
    assert visitor.post(f"queues/{name}/transfer", form | {"how": "move"}).status == 303
    assert "1 moved" in visitor.get(f"queues/{name}/messages").body
    assert attributes(sqs, target)["ApproximateNumberOfMessages"] == "2"
    assert attributes(sqs, queue)["ApproximateNumberOfMessages"] == "0"
    none = visitor.post(f"queues/{name}/transfer", form | {"destination": "no-such-queue"})
    assert (none.status, "The specified queue does not exist" in none.body) == (400, True)


def test_chosen_messages_are_deleted(sqs: Any, visitor: Visitor, queue: str, name: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="stays")
    page = visitor.get(f"queues/{name}/messages").body
    reference = page.partition('name="reference" value="')[2].partition('"')[0]
    form = {"reference": [reference, f"999999999-{uuid4()}"], "how": "delete"}
    assert visitor.post(f"queues/{name}/transfer", form).status == 303

    page = visitor.get(f"queues/{name}/messages").body
    assert "1 deleted, 1 no longer in the queue." in page
    assert "stays" in page
    assert attributes(sqs, queue)["ApproximateNumberOfMessages"] == "1"


def test_redrive_moves_messages_back(sqs: Any, visitor: Visitor, queue: str, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    policy = {"deadLetterTargetArn": attributes(sqs, dead)["QueueArn"], "maxReceiveCount": 1}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": json.dumps(policy)})
    sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0)
    eventually(lambda: not sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0).get("Messages"))
    assert name in visitor.get(f"queues/{name}-dead/redrive").body

    wrong = visitor.post(f"queues/{name}-dead/redrive", {"rate": "501"})
    assert (wrong.status, "between 1 and 500" in wrong.body) == (400, True)
    asked = visitor.post(f"queues/{name}-dead/redrive", {"rate": "10"})
    assert (asked.status, "at most 10 a second" in asked.body) == (200, True)
    assert "of 1 moved" not in asked.body
    form = {"rate": "10", "confirmed": "yes"}
    assert visitor.post(f"queues/{name}-dead/redrive", form).status == 303

    page = f"queues/{name}-dead/redrive/tasks"
    eventually(lambda: "completed" in visitor.get(page, HX_Request="true").body)
    assert "1 of 1 moved" in visitor.get(page).body
    assert attributes(sqs, queue)["ApproximateNumberOfMessages"] == "1"


def test_purge_and_delete_want_the_name_typed(
    sqs: Any, visitor: Visitor, queue: str, name: str
) -> None:
    for path in ("purge", "delete"):
        answer = visitor.post(f"queues/{name}/{path}", {"typed": f"{name}x"})
        assert (answer.status, "Type the name" in answer.body) == (400, True)
    assert attributes(sqs, queue)["ApproximateNumberOfMessages"] == "1"

    assert visitor.post(f"queues/{name}/purge", {"typed": name}).status == 303
    assert attributes(sqs, queue)["ApproximateNumberOfMessages"] == "0"
    assert visitor.post(f"queues/{name}/delete", {"typed": name}).status == 303
    with pytest.raises(ClientError, match="does not exist"):
        sqs.get_queue_url(QueueName=name)
    assert visitor.get(f"queues/{name}/messages").status == 400


def test_what_was_sent_is_never_markup(sqs: Any, visitor: Visitor, name: str) -> None:
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    value = {"DataType": "String", "StringValue": EVIL}
    for body in (EVIL, json.dumps({"a": EVIL})):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes={"evil": value})
    statement = {
        "Sid": EVIL,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:PurgeQueue",
        "Resource": "*",
    }
    sqs.set_queue_attributes(
        QueueUrl=queue,
        Attributes={"Policy": json.dumps({"Statement": [statement]}), "KmsMasterKeyId": EVIL},
    )

    pages = [
        visitor.get(f"queues/{name}/messages"),
        visitor.get(f"queues/{name}/settings"),
        visitor.get(f"queues?q={'%3Cscript%3Ealert(1)%3C/script%3E'}"),
        visitor.get(f"queues/{name}/messages?state=%3Cscript%3E&size=%3Cscript%3E"),
        visitor.get("%3Cscript%3Ealert(1)%3C/script%3E"),
        visitor.post("create", {"name": EVIL, "VisibilityTimeout": EVIL}),
        visitor.post(f"queues/{name}/send", {"body": EVIL, "DelaySeconds": EVIL}),
        visitor.post(f"queues/{name}/settings/tags", {"key": EVIL, "value": EVIL}),
        visitor.post(f"queues/{name}/settings/policy", {"policy": EVIL}),
        visitor.post(f"queues/{name}/redrive", {"destination": EVIL, "rate": EVIL}),
        visitor.post(f"queues/{name}/redrive", {"destination": EVIL}),
        visitor.post(f"queues/{name}/transfer", {"reference": EVIL, "destination": EVIL}),
        visitor.post("scope", {"account": EVIL, "region": EVIL}),
    ]

    for page in pages:
        assert "<script>alert" not in page.body
        assert "<img" not in page.body
    assert sum("alert(1)" in page.body for page in pages) >= 8

"""Signed requests end to end, with keys that the command line has made, behind either door."""

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import psycopg
import pytest
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from skipmq.actions.skipmq.table import EXTENSIONS
from skipmq.actions.sqs.table import ACTIONS
from skipmq.actions.topics.table import TOPICS
from support.http import (
    Answer,
    NodeProcess,
    WsgiProcess,
    client,
    eventually,
    raw,
)
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.sigv4 import signed

OTHER = "210987654321"
UNSIGNED = "MissingAuthenticationToken"


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture(scope="module")
def keys(url: str) -> Keys:
    return Keys(url)


@pytest.fixture(scope="module")
def key(keys: Keys) -> dict[str, str]:
    """Give a key that no test changes."""
    return keys.create()


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, url: str, key: dict[str, str]) -> Iterator[NodeProcess]:
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    del key  # It is there before the node starts.
    settings = {"auth": "on", "master_key": MASTER_KEY, "log_level": "debug"}
    with door(database_url=as_node(url), workers=2, **settings) as process:
        yield process.ready()
        main = psutil.Process(process.process.pid)
        for each in (main, *main.children(recursive=True)):
            assert MASTER_KEY not in " ".join(each.cmdline())
    assert MASTER_KEY not in process.log


@pytest.fixture(scope="module")
def second_node(url: str) -> Iterator[NodeProcess]:
    with NodeProcess(
        database_url=as_node(url), workers=1, auth="on", master_key=MASTER_KEY
    ) as process:
        yield process.ready()


def refusal(sqs: Any) -> str:
    """Return the code with which a client is refused, or nothing when it is not."""
    try:
        sqs.list_queues()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def until_known(sqs: Any) -> Any:
    """Return a client once the worker that its connection leads to knows the key."""
    eventually(lambda: all(not refusal(sqs) for _ in range(10)))
    return sqs


@pytest.fixture
def sqs(node: NodeProcess, wire: str, key: dict[str, str]) -> Any:
    return client(node.url, wire, **key)


def test_client_that_signs_works_in_the_account_of_its_key(sqs: Any, name: str) -> None:
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    sqs.send_message_batch(
        QueueUrl=queue, Entries=[{"Id": str(n), "MessageBody": "ä&=+ %"} for n in range(10)]
    )

    (message, *_) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    assert f"/{ACCOUNT}/{name}" in queue
    assert queue in sqs.list_queues(QueueNamePrefix=name)["QueueUrls"]


def test_accounts_have_queues_of_their_own(
    node: NodeProcess, keys: Keys, sqs: Any, wire: str, name: str
) -> None:
    other = until_known(client(node.url, wire, **keys.create(OTHER)))

    mine, theirs = (c.create_queue(QueueName=name)["QueueUrl"] for c in (sqs, other))

    assert f"/{OTHER}/" in theirs
    assert other.list_queues(QueueNamePrefix=name)["QueueUrls"] == [theirs]
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [mine]


def test_queues_of_another_account_are_closed(
    node: NodeProcess, keys: Keys, sqs: Any, wire: str, name: str
) -> None:
    other = until_known(client(node.url, wire, **keys.create(OTHER)))
    mine = sqs.create_queue(QueueName=name)["QueueUrl"]
    theirs = other.create_queue(QueueName=name)["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:{OTHER}:{name}"
    handle = b64encode(
        json.dumps({"taskId": "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "sourceArn": arn}).encode()
    ).decode()
    entry = {"Id": "1", "ReceiptHandle": "x"}
    requests: dict[str, dict[str, Any]] = {
        "add_permission": {"Label": "l", "AWSAccountIds": [ACCOUNT], "Actions": ["SendMessage"]},
        "change_message_visibility": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
        "change_message_visibility_batch": {"Entries": [{**entry, "VisibilityTimeout": 1}]},
        "delete_message": {"ReceiptHandle": "x"},
        "delete_message_batch": {"Entries": [entry]},
        "delete_queue": {},
        "get_queue_attributes": {"AttributeNames": ["All"]},
        "list_dead_letter_source_queues": {},
        "list_queue_tags": {},
        "purge_queue": {},
        "receive_message": {},
        "remove_permission": {"Label": "l"},
        "send_message": {"MessageBody": "x"},
        "send_message_batch": {"Entries": [{"Id": "1", "MessageBody": "x"}]},
        "set_queue_attributes": {"Attributes": {"DelaySeconds": "1"}},
        "tag_queue": {"Tags": {"a": "b"}},
        "untag_queue": {"TagKeys": ["a"]},
    }
    calls = [(action, {"QueueUrl": theirs, **more}) for action, more in requests.items()]
    calls += [
        ("get_queue_url", {"QueueName": name, "QueueOwnerAWSAccountId": OTHER}),
        ("start_message_move_task", {"SourceArn": arn}),
        ("list_message_move_tasks", {"SourceArn": arn}),
        ("cancel_message_move_task", {"TaskHandle": handle}),
    ]
    # All but those that name no queue of anybody else.
    assert len(calls) == len(sqs.meta.service_model.operation_names) - 2

    for action, parameters in calls:
        with pytest.raises(ClientError) as caught:
            getattr(sqs, action)(**parameters)
        assert caught.value.response["Error"]["Code"] == "AccessDenied", action

    own = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.start_message_move_task(SourceArn=own, DestinationArn=arn)
    assert other.get_queue_url(QueueName=name)["QueueUrl"] == theirs
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == mine


def test_region_of_the_scope_selects_the_region(
    node: NodeProcess, key: dict[str, str], wire: str, name: str
) -> None:
    here, there = (client(node.url, wire, region=r, **key) for r in ("eu-west-1", "us-west-2"))

    here.create_queue(QueueName=name)

    assert "QueueUrls" not in there.list_queues(QueueNamePrefix=name)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secret": "wrong"}, "SignatureDoesNotMatch"),
        ({"key": "AKIAUNKNOWNUNKNOWN77"}, "InvalidClientTokenId"),
        ({"key": "123456789012"}, "InvalidClientTokenId"),
        ({"token": "unasked"}, "InvalidClientTokenId"),
    ],
)
def test_wrong_credentials_are_refused(
    node: NodeProcess, key: dict[str, str], wire: str, change: dict[str, str], code: str
) -> None:
    sqs = client(node.url, wire, **(key | change))

    with pytest.raises(ClientError) as caught:
        sqs.list_queues()

    answer = caught.value.response
    assert answer["Error"]["Code"] == code
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert key["secret"] not in str(answer)


def test_key_is_refused_while_it_is_disabled_and_when_it_is_revoked(
    node: NodeProcess, second_node: NodeProcess, keys: Keys, wire: str
) -> None:
    made = keys.create()
    both = [until_known(client(n.url, wire, **made)) for n in (node, second_node)]

    def refused() -> bool:
        return all(refusal(c) == "InvalidClientTokenId" for c in both for _ in range(10))

    keys.run("disable", made["key"])
    eventually(refused)
    keys.run("enable", made["key"])
    for each in both:
        until_known(each)
    keys.run("revoke", made["key"], "--yes")
    eventually(refused)


def test_change_whose_notification_is_lost_is_found_all_the_same(
    node: NodeProcess, url: str, keys: Keys, wire: str
) -> None:
    made = keys.create()
    sqs = until_known(client(node.url, wire, **made))

    with psycopg.connect(url) as owner:
        owner.execute("delete from skipmq.access_key where key_id = %s", (made["key"],))
        owner.execute("update skipmq.cluster set access_key_version = access_key_version + 1")

    eventually(lambda: all(refusal(sqs) == "InvalidClientTokenId" for _ in range(10)))


def test_temporary_credentials_work_until_they_expire(
    node: NodeProcess, url: str, keys: Keys, wire: str
) -> None:
    session = keys.session(keys.create()["key"])
    sqs = until_known(client(node.url, wire, **session))
    without = client(node.url, wire, **(session | {"token": None}))
    others = client(node.url, wire, **(session | {"token": "another"}))

    assert refusal(without) == refusal(others) == "InvalidClientTokenId"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("select skipmq.change_access_key(%s, null, '0')", (session["key"],))

    eventually(lambda: all(refusal(sqs) == "ExpiredToken" for _ in range(10)))


def test_temporary_credentials_end_with_their_key(node: NodeProcess, keys: Keys, wire: str) -> None:
    made = keys.create()
    sqs = until_known(client(node.url, wire, **keys.session(made["key"])))

    keys.run("revoke", made["key"], "--yes")

    eventually(lambda: all(refusal(sqs) == "InvalidClientTokenId" for _ in range(10)))


def test_rotated_key_works_beside_the_new_one(node: NodeProcess, keys: Keys, wire: str) -> None:
    made = keys.create()
    old_one = until_known(client(node.url, wire, **made))
    new = keys.run("rotate", made["key"])

    until_known(client(node.url, wire, key=new["access_key_id"], secret=new["secret_access_key"]))
    assert not refusal(old_one)
    (old,) = [one for one in keys.run("list")["keys"] if one["access_key_id"] == made["key"]]
    assert old["expires"]


def test_use_of_a_key_is_noted(keys: Keys, sqs: Any, key: dict[str, str]) -> None:
    assert not refusal(sqs)

    def used() -> Any:
        return next(k for k in keys.run("list")["keys"] if k["access_key_id"] == key["key"])[
            "last_used"
        ]

    assert eventually(used)


@pytest.mark.parametrize("action", [*ACTIONS, *EXTENSIONS])
def test_every_action_must_be_signed(node: NodeProcess, action: str) -> None:
    of = "SkipMQ" if action in EXTENSIONS else "AmazonSQS"
    target = {"X-Amz-Target": f"{of}.{action}", "Content-Type": "application/x-amz-json-1.0"}

    posted = raw(f"{node.url}/", b"{}", target)
    form = raw(f"{node.url}/{ACCOUNT}/orders", f"Action={action}".encode())
    got = raw(f"{node.url}/{ACCOUNT}/orders?Action={action}")

    assert json.loads(posted.body)["__type"] == (
        "com.amazon.coral.service#MissingAuthenticationTokenException"
    )
    assert posted.headers["x-amzn-query-error"] == f"{UNSIGNED};Sender"
    assert f"<Code>{UNSIGNED}</Code>" in form.body
    assert f"<Code>{UNSIGNED}</Code>" in got.body
    assert (posted.status, form.status, got.status) == (400, 403, 403)


def test_every_action_on_topics_must_be_signed_but_for_links(node: NodeProcess) -> None:
    for action, record in TOPICS.items():
        form = f"Action={action.replace('TopicPermission', 'Permission')}&TopicArn=x".encode()
        answers = [raw(node.url, form), raw(f"{node.url}/?{form.decode()}")]

        assert UNSIGNED in answers[0].body
        assert (UNSIGNED in answers[1].body) is not record.is_link
    smuggled = raw(
        f"{node.url}/?Action=Unsubscribe&x=y", b"Action=CreateTopic&Name=x", method="GET"
    )
    assert UNSIGNED in smuggled.body


@pytest.mark.parametrize("path", ["/", "/a/b", "/a/b/", "/queue/orders?Action=ListQueues", "/?x=1"])
@pytest.mark.parametrize("body", [b"", b"{}", b"Action=ListQueues", b"\xff"])
def test_no_request_without_a_signature_reaches_an_action(
    node: NodeProcess, path: str, body: bytes
) -> None:
    for headers in ({}, {"X-Amz-Target": "AmazonSQS.ListQueues"}, {"X-Amz-Target": "nothing"}):
        assert UNSIGNED in raw(node.url + path, body, headers, "POST").body
    assert UNSIGNED in raw(node.url + path).body


def test_health_needs_no_signature(node: NodeProcess) -> None:
    assert raw(f"{node.url}/health/live").status == 200
    assert raw(f"{node.url}/health/ready").status == 200


class _Shifted(SigV4Auth):
    """A signer whose clock differs."""

    def __init__(self, key: dict[str, str], by: timedelta) -> None:
        super().__init__(Credentials(key["key"], key["secret"]), "sqs", "us-east-1")
        self._by = by

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        shifted = datetime.now(UTC) + self._by  # noqa: TID251 - as botocore's.
        request.context["timestamp"] = shifted.strftime(SIGV4_TIMESTAMP)
        super()._modify_request_before_signing(request)


def _list_queues(node: NodeProcess, key: dict[str, str], by: timedelta) -> Answer:
    body = b"Action=ListQueues&Version=2012-11-05"
    request = AWSRequest(
        "POST",
        f"{node.url}/",
        data=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    _Shifted(key, by).add_auth(request)
    return raw(f"{node.url}/", body, dict(request.headers.items()))


@pytest.mark.parametrize("minutes", [-14, 14])
def test_clock_of_a_client_may_differ_a_little(
    node: NodeProcess, key: dict[str, str], minutes: int
) -> None:
    assert _list_queues(node, key, timedelta(minutes=minutes)).status == 200


@pytest.mark.parametrize("minutes", [-16, 16, -60 * 24 * 365])
def test_clock_of_a_client_may_not_differ_much(
    node: NodeProcess, key: dict[str, str], minutes: int
) -> None:
    answer = _list_queues(node, key, timedelta(minutes=minutes))

    assert answer.status == 400
    assert "<Code>RequestExpired</Code>" in answer.body


def test_presigned_url_works_and_cannot_be_changed(
    node: NodeProcess, sqs: Any, key: dict[str, str], name: str
) -> None:
    sqs.create_queue(QueueName=name)
    address = f"{node.url}/{ACCOUNT}/{name}?Action=SendMessage&MessageBody=hello%20you"
    by = _Credentials(key)
    request = signed("GET", address, b"", headers={}, key=by, seconds=60)
    url = f"{node.url}{request.path}?{request.query}"

    sent, changed = raw(url), raw(url.replace("hello", "other"))

    assert (sent.status, changed.status) == (200, 403)
    assert "<Code>SignatureDoesNotMatch</Code>" in changed.body
    queue = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert message["Body"] == "hello you"


class _Credentials:
    def __init__(self, key: dict[str, str]) -> None:
        self.id, self.secret = key["key"], key["secret"]

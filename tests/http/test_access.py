"""Who may do what, end to end: roles and policies of keys, policies of queues, other accounts."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from skipmq.actions.access import SHARED
from skipmq.actions.dispatch import EVERY
from support.access import code, known
from support.http import NodeProcess, WsgiProcess, client, eventually, raw
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node

OTHER = "210987654321"


@pytest.fixture(scope="module")
def keys(embedded_databases: Databases) -> Keys:
    return Keys(embedded_databases.migrated())


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, keys: Keys) -> Iterator[NodeProcess]:
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    settings = {"auth": "on", "master_key": MASTER_KEY, "trusted_proxies": "127.0.0.1"}
    with door(database_url=as_node(keys.url), workers=1, **settings) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def admin(node: NodeProcess, keys: Keys) -> Any:
    return known(client(node.url, **keys.create()))


@pytest.fixture(scope="module")
def stranger(node: NodeProcess, keys: Keys) -> Any:
    """Give a client of another account that may do everything there."""
    return known(client(node.url, **keys.create(OTHER, "--name", "carol")))


@pytest.fixture
def queue(admin: Any, name: str) -> str:
    return str(admin.create_queue(QueueName=name)["QueueUrl"])


def made(node: NodeProcess, keys: Keys, *options: str, wire: str = "json") -> Any:
    return known(client(node.url, wire, **keys.create(ACCOUNT, *options)))


def share(admin: Any, queue: str, *statements: dict[str, Any]) -> None:
    """Give a queue a policy."""
    whole = [{"Effect": "Allow", "Resource": "*", "Principal": "*"} | each for each in statements]
    document = json.dumps({"Version": "2012-10-17", "Statement": whole})
    admin.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": document})


def test_what_policies_can_share_are_actions() -> None:
    assert EVERY.keys() >= SHARED


def test_producer_sends_to_its_queues_only(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, name: str, wire: str
) -> None:
    theirs = admin.create_queue(QueueName=f"other-{name}")["QueueUrl"]
    producer = made(node, keys, "--role", "producer", "--queue", f"{name[:-1]}*", wire=wire)

    assert producer.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    assert producer.get_queue_url(QueueName=name)["QueueUrl"]
    entries = [{"Id": "1", "MessageBody": "x"}]
    assert producer.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]
    assert code(producer.send_message, QueueUrl=theirs, MessageBody="x") == "AccessDenied"
    assert code(producer.send_message_batch, QueueUrl=theirs, Entries=entries) == "AccessDenied"
    assert code(producer.receive_message, QueueUrl=queue) == "AccessDenied"
    assert code(producer.delete_queue, QueueUrl=queue) == "AccessDenied"
    assert code(producer.list_queues) == "AccessDenied"
    assert code(producer.create_queue, QueueName=f"{name}-2") == "AccessDenied"
    with pytest.raises(
        ClientError, match=rf"user/AKIA\w+ is not authorized.*sqs:PurgeQueue.*{name}"
    ):
        producer.purge_queue(QueueUrl=queue)


def test_consumer_settles_and_reader_looks(
    node: NodeProcess, keys: Keys, admin: Any, queue: str
) -> None:
    consumer, reader = (made(node, keys, "--role", role) for role in ("consumer", "reader"))
    admin.send_message(QueueUrl=queue, MessageBody="x")

    (message,) = consumer.receive_message(QueueUrl=queue)["Messages"]
    handle = {"Id": "1", "ReceiptHandle": message["ReceiptHandle"]}
    done = consumer.change_message_visibility_batch(
        QueueUrl=queue, Entries=[handle | {"VisibilityTimeout": 60}]
    )
    assert done["Successful"]
    assert code(reader.delete_message_batch, QueueUrl=queue, Entries=[handle]) == "AccessDenied"
    assert consumer.delete_message_batch(QueueUrl=queue, Entries=[handle])["Successful"]
    assert code(consumer.send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"
    assert queue in reader.list_queues()["QueueUrls"]
    assert reader.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert code(reader.receive_message, QueueUrl=queue) == "AccessDenied"
    assert code(reader.tag_queue, QueueUrl=queue, Tags={"a": "b"}) == "AccessDenied"


def test_who_may_not_ask_learns_nothing(
    node: NodeProcess, keys: Keys, stranger: Any, queue: str, name: str
) -> None:
    producer = made(node, keys, "--role", "producer", "--queue", "none-of-these")
    missing = queue.replace(name, "missing")

    for sqs in (producer, stranger):
        for url in (queue, missing):
            assert code(sqs.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"
            found = {"QueueName": url.rpartition("/")[2], "QueueOwnerAWSAccountId": ACCOUNT}
            assert code(sqs.get_queue_url, **found) == "AccessDenied"


def test_rights_are_changed_and_sessions_follow(node: NodeProcess, keys: Keys, queue: str) -> None:
    found = keys.create(ACCOUNT, "--role", "reader")
    both = [known(client(node.url, **k)) for k in (found, keys.session(found["key"]))]
    for sqs in both:
        assert code(sqs.send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"

    keys.run("permit", found["key"], "--role", "producer")

    for sqs in both:
        eventually(lambda s=sqs: code(s.send_message, QueueUrl=queue, MessageBody="x") == "")
        assert code(sqs.list_queues) == "AccessDenied"


def test_policy_of_a_key(
    node: NodeProcess, keys: Keys, queue: str, name: str, tmp_path: Any
) -> None:
    file = tmp_path / "policy.json"
    allow = {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}
    deny = {"Effect": "Deny", "Action": "sqs:Delete*", "Resource": f"arn:aws:sqs:*:*:{name}"}
    file.write_text(json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]}))
    sqs = made(node, keys, "--policy", str(file))

    assert sqs.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    entry = {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]}
    assert code(sqs.delete_message, **entry) == "AccessDenied"
    assert code(sqs.delete_queue, QueueUrl=queue) == "AccessDenied"


def test_queue_is_shared_with_another_account(admin: Any, stranger: Any, queue: str) -> None:
    account = queue.split("/")[-2]
    assert account == ACCOUNT
    assert code(stranger.send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"

    admin.add_permission(
        QueueUrl=queue, Label="send", AWSAccountIds=[OTHER], Actions=["SendMessage"]
    )
    eventually(lambda: code(stranger.send_message, QueueUrl=queue, MessageBody="x") == "")
    assert code(stranger.receive_message, QueueUrl=queue) == "AccessDenied"
    (message,) = admin.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["SenderId"] == OTHER

    admin.remove_permission(QueueUrl=queue, Label="send")
    eventually(
        lambda: code(stranger.send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"
    )


def test_policy_never_gives_other_accounts_what_is_the_owners(
    admin: Any, stranger: Any, queue: str
) -> None:
    share(admin, queue, {"Action": "*"})

    eventually(lambda: code(stranger.receive_message, QueueUrl=queue) == "")
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{queue.rpartition('/')[2]}"
    for call, more in (
        (stranger.delete_queue, {"QueueUrl": queue}),
        (stranger.set_queue_attributes, {"QueueUrl": queue, "Attributes": {}}),
        (stranger.tag_queue, {"QueueUrl": queue, "Tags": {"a": "b"}}),
        (stranger.list_queue_tags, {"QueueUrl": queue}),
        (stranger.remove_permission, {"QueueUrl": queue, "Label": "x"}),
        (stranger.start_message_move_task, {"SourceArn": arn}),
        (stranger.list_message_move_tasks, {"SourceArn": arn}),
    ):
        assert code(call, **more) == "AccessDenied", call


def test_explicit_deny_binds_the_owners_keys_too(admin: Any, queue: str) -> None:
    share(admin, queue, {"Effect": "Deny", "Action": "sqs:PurgeQueue"})

    eventually(lambda: code(admin.purge_queue, QueueUrl=queue) == "AccessDenied")
    assert admin.send_message(QueueUrl=queue, MessageBody="x")["MessageId"]


def test_policy_names_a_user(node: NodeProcess, keys: Keys, admin: Any, queue: str) -> None:
    alice, bob = (made(node, keys, "--role", "reader", "--name", each) for each in ("alice", "bob"))
    user = f"arn:aws:iam::{ACCOUNT}:user/alice"
    share(admin, queue, {"Action": "sqs:SendMessage", "Principal": {"AWS": user}})

    eventually(lambda: code(alice.send_message, QueueUrl=queue, MessageBody="x") == "")
    assert code(bob.send_message, QueueUrl=queue, MessageBody="x") == "AccessDenied"


def test_condition_on_the_address_is_of_the_client_behind_the_proxy(
    node: NodeProcess, keys: Keys, admin: Any, queue: str
) -> None:
    reader = made(node, keys, "--role", "reader")
    sent: list[str] = []
    reader.meta.events.register(
        "before-send.sqs",
        lambda request, **_: request.headers.update({"X-Forwarded-For": sent[-1]}),
    )
    condition = {
        "IpAddress": {"aws:SourceIp": "192.0.2.0/24"},
        "Bool": {"aws:SecureTransport": "false"},
    }
    share(admin, queue, {"Action": "sqs:SendMessage", "Condition": condition})

    def answers(addresses: str) -> str:
        sent.append(addresses)
        return code(reader.send_message, QueueUrl=queue, MessageBody="x")

    eventually(lambda: answers("192.0.2.7") == "")
    assert answers("198.51.100.1") == "AccessDenied"
    # The client's own claim stands left of what the proxy has added.
    assert answers("192.0.2.7, 198.51.100.1") == "AccessDenied"
    assert answers("198.51.100.1, 192.0.2.7") == ""
    # A proxy that listens on both families forwards an address of IPv4 so.
    assert answers("::ffff:192.0.2.7") == ""


def test_move_task_needs_both_its_ends(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, name: str, tmp_path: Any
) -> None:
    dead = admin.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    admin.create_queue(QueueName=f"{name}-else")
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    redrive = json.dumps({"deadLetterTargetArn": f"{arn}-dead", "maxReceiveCount": 1})
    admin.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive})

    def mover(*resources: str) -> Any:
        statements = [
            {"Effect": "Allow", "Action": "sqs:*", "Resource": f"{arn}-dead"},
            {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [*resources]},
        ]
        file = tmp_path / "policy.json"
        file.write_text(json.dumps({"Statement": statements}))
        return made(node, keys, "--policy", str(file))

    start = {"SourceArn": f"{arn}-dead"}
    without = mover("arn:aws:sqs:*:*:nothing")
    assert code(without.start_message_move_task, **start) == "AccessDenied"
    elsewhere = start | {"DestinationArn": f"{arn}-else"}
    assert code(mover(arn).start_message_move_task, **elsewhere) == "AccessDenied"
    found = mover(arn).start_message_move_task(**start)["TaskHandle"]
    assert code(without.list_message_move_tasks, **start) == ""
    assert code(admin.cancel_message_move_task, TaskHandle=found) in (
        "",
        "InvalidParameterValue",  # It is done.
    )
    assert code(admin.receive_message, QueueUrl=dead) == ""


def test_redrive_needs_the_right_to_send_to_where_messages_came_from(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, name: str, tmp_path: Any
) -> None:
    """Not only to the queues that are sources now."""
    dead = admin.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    today = admin.create_queue(QueueName=f"{name}-today")["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    redrive = {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": f"{arn}-dead", "maxReceiveCount": 1})
    }
    admin.set_queue_attributes(QueueUrl=queue, Attributes=redrive)
    admin.send_message(QueueUrl=queue, MessageBody="x")
    while admin.receive_message(QueueUrl=queue, VisibilityTimeout=0).get("Messages"):
        pass
    admin.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    admin.set_queue_attributes(QueueUrl=today, Attributes=redrive)

    def mover(*resources: str) -> Any:
        statements = [
            {"Effect": "Allow", "Action": "sqs:*", "Resource": f"{arn}-dead"},
            {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [*resources]},
        ]
        file = tmp_path / "policy.json"
        file.write_text(json.dumps({"Statement": statements}))
        return made(node, keys, "--policy", str(file))

    start = {"SourceArn": f"{arn}-dead"}
    with pytest.raises(ClientError, match=rf"not authorized.*sqs:SendMessage.*{name}$"):
        mover(f"{arn}-today").start_message_move_task(**start)
    assert mover(f"{arn}-today", arn).start_message_move_task(**start)["TaskHandle"]
    assert eventually(lambda: admin.receive_message(QueueUrl=queue).get("Messages"))
    assert "Messages" not in admin.receive_message(QueueUrl=dead)


def test_arn_in_another_form_opens_nothing(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, name: str
) -> None:
    del queue
    producer = made(node, keys, "--role", "producer")
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"

    for other in (f"{arn}:x", f"ARN{arn[3:]}", arn.replace("aws", "aws-cn", 1), "x"):
        for sqs in (producer, admin):
            assert code(sqs.list_message_move_tasks, SourceArn=other) in (
                "ResourceNotFoundException",
                "InvalidParameterValue",
                "InvalidAddress",
            ), other
    assert code(producer.list_message_move_tasks, SourceArn=arn) == "AccessDenied"


def test_refusals_and_changes_are_in_the_audit_log(
    node: NodeProcess, keys: Keys, admin: Any, queue: str, name: str
) -> None:
    producer = made(node, keys, "--role", "producer", "--name", f"p-{name}")
    producer.send_message(QueueUrl=queue, MessageBody="a body that is nobody else's business")
    code(producer.delete_queue, QueueUrl=queue)
    admin.tag_queue(QueueUrl=queue, Tags={"team": "blue"})
    answer = raw(f"{node.url}/", b"Action=ListQueues")
    assert answer.status == 403
    wrong = client(node.url, key="AKIANOBODYNOBODYNOBO")
    assert code(wrong.list_queues) == "InvalidClientTokenId"

    def records(**wanted: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in node.lines if '"audit"' in line]
        return [each for each in found if all(each.get(k) == v for k, v in wanted.items())]

    eventually(lambda: records(outcome="MissingAuthenticationToken", client="127.0.0.1"))
    claimed = {"outcome": "InvalidClientTokenId", "claimed_access_key": "AKIANOBODYNOBODYNOBO"}
    assert eventually(lambda: records(**claimed))
    user = f"arn:aws:iam::{ACCOUNT}:user/p-{name}"
    (refused,) = eventually(lambda: records(action="DeleteQueue", user=user))
    assert refused["outcome"] == "AccessDenied"
    assert refused["access_key"].startswith("AKIA")
    assert refused["queue"].endswith(f":{name}")
    code(admin.tag_queue, QueueUrl=queue, Tags={"long": "x" * 1_000_000})
    (long,) = eventually(lambda: records(action="TagQueue", outcome="InvalidParameterValue"))
    assert len(json.dumps(long)) < 20_000
    done = {"action": "TagQueue", "outcome": "done", "queue": refused["queue"]}
    (tagged,) = eventually(lambda: records(**done))
    assert tagged["parameters"]["Tags"] == {"team": "blue"}
    assert tagged["account"] == ACCOUNT
    assert "nobody else's business" not in node.log


def test_queue_that_another_account_asked_for_too_early_is_there_when_it_is_created(
    admin: Any, stranger: Any, name: str
) -> None:
    url = admin.create_queue(QueueName=f"{name}-other")["QueueUrl"].removesuffix("-other")
    send = {"QueueUrl": url, "MessageBody": "x"}
    for _ in range(2):
        assert code(stranger.send_message, **send) == "AccessDenied"
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [everybody]})

    admin.create_queue(QueueName=name, Attributes={"Policy": document})

    assert code(stranger.send_message, **send) == ""


def test_cancel_of_a_task_of_an_absent_queue_is_not_found_whoever_asks(
    admin: Any, stranger: Any, queue: str, name: str
) -> None:
    del queue

    def cancel(sqs: Any, source: str) -> tuple[int, str, str]:
        task = {"taskId": "00000000-0000-0000-0000-000000000000", "sourceArn": source}
        handle = base64.b64encode(json.dumps(task).encode()).decode()
        with pytest.raises(ClientError) as caught:
            sqs.cancel_message_move_task(TaskHandle=handle)
        answer = caught.value.response
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        return status, answer["Error"]["Code"], answer["Error"]["Message"]

    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    missing = "The resource that you specified for the SourceArn parameter doesn't exist."

    for sqs in (admin, stranger):
        found = cancel(sqs, f"{arn}-missing")
        assert found == (404, "ResourceNotFoundException", missing)
    assert cancel(stranger, arn)[1] == "AccessDenied"
    assert cancel(admin, arn) == (404, "ResourceNotFoundException", "Task does not exist.")

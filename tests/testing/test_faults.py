"""Faults that a test asks for, and that no other node has them."""

import json
from base64 import b64encode
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from skipmq.testing import Account, Server, TestingError
from support.http import NodeProcess, client, raw
from support.postgres import Databases, as_node

CONTROLS = {
    "InjectFault": {"Action": "*", "Kind": "fail"},
    "ListUnmetFaults": {},
    "MoveClock": {"Seconds": 1},
    "Reset": {},
    "RestoreSnapshot": {"Snapshot": 1},
    "TakeSnapshot": {},
}


@pytest.fixture
def once(account: Account) -> Any:
    """Give a client that tries each request once."""
    return account.client(config=Config(retries={"total_max_attempts": 1}))


def control(url: str, name: str, **headers: str) -> tuple[int, str]:
    target = {"X-Amz-Target": f"SkipMQTest.{name}"}
    answer = raw(url, json.dumps(CONTROLS[name]).encode(), target | headers)
    return answer.status, answer.body


def test_requests_are_refused_so_many_times(account: Account, once: Any, queue: str) -> None:
    account.fail("SendMessage", times=2, code="ThrottlingException")

    for _ in range(2):
        with pytest.raises(ClientError, match="ThrottlingException"):
            once.send_message(QueueUrl=queue, MessageBody="x")
    once.send_message(QueueUrl=queue, MessageBody="x")

    assert account.messages(queue).bodies() == ["x"]


def test_client_tries_again(account: Account, sqs: Any, queue: str) -> None:
    account.fail("ReceiveMessage", times=2)

    answer = sqs.receive_message(QueueUrl=queue)

    assert answer["ResponseMetadata"]["RetryAttempts"] == 2


def test_error_is_the_same_on_the_query_wire(server: Server) -> None:
    server.fail("ListQueues", code="OverLimit")
    sqs = client(server.url, "query")

    with pytest.raises(sqs.exceptions.OverLimit):
        sqs.list_queues()


def test_connection_is_dropped_before_or_after_the_act(
    account: Account, once: Any, queue: str
) -> None:
    account.drop("SendMessage")
    account.drop("SendMessage", done=True)

    for body in ("lost", "stored"):
        with pytest.raises(ConnectionClosedError):
            once.send_message(QueueUrl=queue, MessageBody=body)

    assert account.messages(queue).bodies() == ["stored"]


def test_answer_is_late(account: Account, queue: str) -> None:
    impatient = Config(read_timeout=0.2, retries={"total_max_attempts": 1})
    account.slow("SendMessage", 20)

    with pytest.raises(Exception, match="Read timeout"):
        account.client(config=impatient).send_message(QueueUrl=queue, MessageBody="x")


@pytest.mark.parametrize("wire", ["json", "query"])
def test_message_is_delivered_twice_though_it_is_deleted(server: Server, wire: str) -> None:
    sqs = client(server.url, wire)
    queue = sqs.create_queue(QueueName="twice")["QueueUrl"]
    server.duplicate()
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    found = []

    for _ in range(3):
        received = sqs.receive_message(QueueUrl=queue).get("Messages", [])
        found.append([(each["MessageId"], each["Body"]) for each in received])
        for each in received:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])

    assert found[0] == found[1] != []
    assert found[2] == []
    number = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert number["ApproximateNumberOfMessages"] == "0"
    server.check_faults()
    server.reset()


def test_message_of_a_fifo_queue_is_visible_again_at_once(account: Account, sqs: Any) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = sqs.create_queue(QueueName="twice.fifo", Attributes=attributes)["QueueUrl"]
    for body in ("x", "y"):
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="a")
    account.duplicate()

    found = [sqs.receive_message(QueueUrl=queue).get("Messages", []) for _ in range(3)]

    assert [[each["Body"] for each in messages] for messages in found] == [["x"], ["x"], []]


def test_faults_that_no_request_has_met_are_known(account: Account, sqs: Any, queue: str) -> None:
    account.slow("ReceiveMessage", 0, times=2)
    sqs.receive_message(QueueUrl=queue)
    account.check_faults()

    account.fail("SendMessage")
    account.duplicate()

    text = "no request has met fail of SendMessage, duplicate of ReceiveMessage: the test"
    with pytest.raises(TestingError, match=text):
        account.check_faults()


def test_faults_are_of_one_account_and_end_with_a_reset(
    server: Server, account: Account, once: Any
) -> None:
    account.fail("*", times=100)

    assert server.client().list_queues()
    account.reset()
    assert once.list_queues()


def test_faults_are_not_for_what_the_test_asks_itself(
    account: Account, once: Any, queue: str
) -> None:
    account.fail("*")

    assert account.messages(queue) == []
    account.drain(lambda: None)
    with pytest.raises(ClientError, match="ServiceUnavailable"):
        once.list_queues()


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"times": -1}, "Times is -1, and must be between 1 and 1000000"),
        ({"times": 0}, "Times is 0, and"),
        ({"times": 10**15}, r"Times is 1e\+15, and"),
        ({"seconds": -1}, "Seconds is -1, and must be between 0 and 3600"),
        ({"seconds": 1e300}, r"Seconds is 1e\+300, and"),
    ],
    ids=str,
)
def test_endless_and_negative_faults_are_refused(
    account: Account, sqs: Any, fault: dict[str, float], text: str
) -> None:
    with pytest.raises(TestingError, match=text):
        account.slow("*", **{"seconds": 1, **fault})  # type: ignore[arg-type]

    assert sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_faults_that_wait_are_few_and_those_that_are_over_do_not_count(
    account: Account, sqs: Any
) -> None:
    for _ in range(1_000):
        account.fail("PurgeQueue")
    with pytest.raises(TestingError, match="This account has 1000 faults"):
        account.fail("ListQueues")

    with pytest.raises(ClientError):
        sqs.purge_queue(QueueUrl=f"{account.url}/{account.number}/none")

    account.fail("ListQueues", times=3)
    account.reset()
    assert sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_impossible_faults_are_refused(account: Account) -> None:
    with pytest.raises(TestingError, match="There is no action Receive"):
        account.fail("Receive")
    with pytest.raises(TestingError, match="There is no error Broken: A"):
        account.fail("ReceiveMessage", code="Broken")


def test_pages_of_other_sites_control_nothing(server: Server) -> None:
    for name in CONTROLS:
        for header in ({"Origin": "http://attacker.example"}, {"Host": "attacker.example"}):
            status, body = control(server.url, name, **header)
            assert (status, "AccessDenied" in body) == (400, True)


def test_node_on_a_database_of_yours_has_no_controls(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        node.ready()
        found = {name: control(node.url, name) for name in CONTROLS}

    assert {status for status, _ in found.values()} == {400}
    assert all("UnknownOperationException" in body for _, body in found.values())
    embedded_databases.drop(url)


def test_no_setting_and_no_option_opens_the_controls(embedded_databases: Databases) -> None:
    """Only --ephemeral does, which is refused with a database of yours."""
    url = embedded_databases.migrated()
    with NodeProcess("--ephemeral", database_url=url, workers=1) as node:
        code = node.process.wait(60)

    assert code == 2
    assert "--ephemeral is for the embedded database" in node.log
    embedded_databases.drop(url)


def test_server_that_checks_signatures_takes_no_unsigned_controls() -> None:
    with (
        Server(auth="on", master_key=b64encode(bytes(32)).decode()) as server,
        pytest.raises(TestingError, match="Reset at the server"),
    ):
        server.reset()


def test_only_one_worker_is_controlled() -> None:
    """Another would know nothing of a fault, nor of a moved clock."""
    with (
        Server(workers=2) as several,
        pytest.raises(TestingError, match="Reset at the server"),
    ):
        several.reset()

"""A test server and its accounts, as tests use them."""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skipmq.testing import Account, Server, TestingError
from skipmq.testing.clients import session
from support.http import client
from support.processes import ask, is_alive, until, until_gone

QUEUES = {
    "jobs": {
        "VisibilityTimeout": 7,
        "RedrivePolicy": {
            "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead",
            "maxReceiveCount": 1,
        },
    },
    "dead": {},
    "lines.fifo": {"FifoQueue": True, "ContentBasedDeduplication": True},
}
DECLARED = """
[queues.dead]
[queues.jobs]
VisibilityTimeout = 7
[queues.jobs.RedrivePolicy]
deadLetterTargetArn = "arn:aws:sqs:us-east-1:000000000000:dead"
maxReceiveCount = 1
"""
PROGRAM = """
import boto3
sqs = boto3.client("sqs")
queue = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="from another process")
"""


def consume(sqs: Any, queue: str) -> int:
    """Delete what a receive gives; return how many messages it gave."""
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    for message in received:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return len(received)


def test_messages_are_looked_at_and_stay_as_they_are(
    account: Account, sqs: Any, queue: str
) -> None:
    attributes = {
        "tries": {"DataType": "Number", "StringValue": "3"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    for number in range(120):
        sqs.send_message(
            QueueUrl=queue, MessageBody=json.dumps({"n": number}), MessageAttributes=attributes
        )
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=60)

    found = account.messages("orders")

    assert found[:120] == account.messages(queue)[:120]
    assert type(found)(found[:120]).json() == [{"n": number} for number in range(120)]
    assert found.bodies()[-1] == "later"
    assert [found[0].state, found[-1].state] == ["visible", "delayed"]
    assert 50 < found[-1].visible_in <= 60
    assert found[0].attributes == {"tries": "3", "raw": b"\x00\xff"}
    assert {message.receive_count for message in found} == {0}


def test_message_in_flight_shows_its_receives(account: Account, sqs: Any) -> None:
    attributes = {"FifoQueue": "true"}
    queue = sqs.create_queue(QueueName="lines.fifo", Attributes=attributes)["QueueUrl"]
    sent = sqs.send_message(
        QueueUrl=queue, MessageBody="a", MessageGroupId="g", MessageDeduplicationId="d"
    )
    sqs.receive_message(QueueUrl=queue)

    (message,) = account.messages("lines.fifo")

    assert (message.state, message.receive_count) == ("in-flight", 1)
    assert (message.group, message.deduplication_id) == ("g", "d")
    assert message.message_id == sent["MessageId"]


def test_queue_that_is_not_there_is_named(account: Account) -> None:
    with pytest.raises(TestingError, match="orders: The specified queue does not exist"):
        account.messages("orders")


def test_accounts_do_not_see_each_other(server: Server, account: Account, queue: str) -> None:
    other = server.new_account()

    assert "QueueUrls" not in other.client().list_queues()
    assert account.client().list_queues()["QueueUrls"] == [queue]
    elsewhere = account.client(region_name="eu-west-3")
    assert "QueueUrls" not in elsewhere.list_queues()
    assert elsewhere.send_message(QueueUrl=queue, MessageBody="tea")["MessageId"]


def test_unchanged_program_in_another_process_finds_the_queues(
    account: Account, queue: str
) -> None:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}  # noqa: TID251

    subprocess.run([sys.executable, "-c", PROGRAM], env=variables | account.env, check=True)

    assert account.messages(queue).bodies() == ["from another process"]


def test_sql_of_the_environment_sends_to_the_default_account(server: Server) -> None:
    server.client().create_queue(QueueName="outbox")

    ask(server.env["SKIPMQ_DATABASE_URL"], "select skipmq.send_message('outbox', 'by SQL')")

    assert server.messages("outbox").bodies() == ["by SQL"]
    server.reset()


def test_reset_leaves_nothing_but_declared_queues(server: Server) -> None:
    account = server.new_account(QUEUES)
    sqs = account.client()
    sqs.send_message(QueueUrl=f"{account.url}/{account.number}/jobs", MessageBody="x")
    sqs.create_queue(QueueName="other")
    account.clock.advance(hours=1)
    account.fail("*", times=1000)

    account.reset()

    names = {url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]}
    assert names == set(QUEUES)
    assert account.messages("jobs") == []
    now = time.time()  # noqa: TID251 - what the server's clock is put back to.
    sqs.send_message(QueueUrl=f"{account.url}/{account.number}/jobs", MessageBody="y")
    answer = sqs.receive_message(
        QueueUrl=f"{account.url}/{account.number}/jobs", MessageSystemAttributeNames=["All"]
    )
    assert abs(int(answer["Messages"][0]["Attributes"]["SentTimestamp"]) / 1000 - now) < 60


def test_name_of_a_queue_deleted_at_an_advanced_time_is_free_after_a_reset(
    account: Account, sqs: Any, queue: str
) -> None:
    account.clock.advance(days=1)
    sqs.delete_queue(QueueUrl=queue)

    account.reset()

    assert sqs.create_queue(QueueName="orders")["QueueUrl"] == queue
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert consume(sqs, queue) == 1


def test_queues_are_declared_by_a_dict_or_a_file(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(DECLARED)

    for declared in (QUEUES, file, str(file)):
        account = server.new_account(declared)
        url = f"{account.url}/{account.number}/jobs"
        found = account.client().get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        policy = json.loads(found["Attributes"]["RedrivePolicy"])
        assert found["Attributes"]["VisibilityTimeout"] == "7"
        assert policy["deadLetterTargetArn"].endswith(f":{account.number}:dead")


@pytest.mark.parametrize(
    ("text", "said"), [("[queues", "cannot be read as TOML"), ("port = 1", "declares no queues")]
)
def test_file_without_queues_is_refused(
    server: Server, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(text)

    with pytest.raises(TestingError, match=said):
        server.new_account(file)


def test_drain_runs_a_consumer_until_its_queues_are_empty(server: Server) -> None:
    account = server.new_account(QUEUES)
    sqs, url = account.client(), f"{account.url}/{account.number}/"
    for name in ("jobs", "dead"):
        for number in range(12):
            sqs.send_message(QueueUrl=url + name, MessageBody=str(number))

    account.drain(lambda: consume(sqs, f"{url}jobs"))

    assert (len(account.messages("jobs")), len(account.messages("dead"))) == (0, 12)


def test_drain_runs_a_coroutine(account: Account, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    async def consumer() -> None:
        await asyncio.to_thread(consume, sqs, queue)

    account.drain(consumer)

    assert account.messages(queue) == []


def test_drain_says_what_is_left_and_raises_what_the_consumer_raises(
    account: Account, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=60)

    with pytest.raises(TestingError, match="1 delayed in orders"):
        account.drain(lambda: None, timeout=0.05)
    with pytest.raises(ZeroDivisionError):
        account.drain(lambda: 1 / 0)


def test_server_that_cannot_start_says_why() -> None:
    with pytest.raises(TestingError, match="SKIPMQ_HISTORIES: there is no such setting"):
        Server(histories="off").start()
    with pytest.raises(TestingError, match="leave database_url out"):
        Server(database_url="postgresql://localhost/shop")


def test_server_has_its_settings_and_is_gone_when_stopped_though_a_fork_of_its_starter_runs() -> (
    None
):
    """While it ran, it had the settings that it was given."""
    context = multiprocessing.get_context("fork")
    event = context.Event()
    server = Server(region="eu-central-1").start()
    queue = server.client().create_queue(QueueName="orders")["QueueUrl"]
    found = server.client(region_name="us-west-2").get_queue_attributes(
        QueueUrl=queue, AttributeNames=["QueueArn"]
    )
    fork = context.Process(target=event.wait, daemon=True)
    fork.start()

    server.stop()

    arn = "arn:aws:sqs:eu-central-1:000000000000:orders"
    assert found["Attributes"]["QueueArn"] == arn
    assert fork.is_alive()
    until_gone(server.pid)
    event.set()
    fork.join()
    server.stop()


def test_server_is_gone_with_its_killed_starter(place: Path) -> None:
    program = "from skipmq.testing import Server\nprint(Server().start().pid, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(place)},  # noqa: TID251
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert is_alive(pid)

        starter.kill()

    until_gone(pid)
    until(lambda: not list(place.iterdir()), "the folder is gone")


def test_interrupt_of_the_terminal_leaves_the_server_to_its_tests(server: Server) -> None:
    assert os.getsid(server.pid) != os.getsid(0)


def test_missing_client_is_named(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:
    monkeypatch.setattr("skipmq.testing.account.session", session.__wrapped__)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "boto3", None)
        with pytest.raises(TestingError, match=r"pip install 'skipmq\[testing\]'"):
            account.client()
        without.setitem(sys.modules, "aiobotocore.session", None)
        with pytest.raises(TestingError, match="pip install aiobotocore"):
            account.aclient()


def test_asynchronous_client_works(account: Account) -> None:
    """With the aiobotocore of `make clients`, in a process of its own."""
    place = Path(__file__).parents[2] / ".cache" / "clients" / "aiobotocore"
    if not place.exists():
        pytest.skip("run `make clients`")
    program = """
import asyncio, sys
from skipmq.testing import Account
async def main(account):
    async with account.aclient() as sqs:
        queue = (await sqs.create_queue(QueueName="orders"))["QueueUrl"]
        await sqs.send_message(QueueUrl=queue, MessageBody="x")
asyncio.run(main(Account(*sys.argv[1:], "")))
"""
    variables = os.environ | {"PYTHONPATH": str(place)}  # noqa: TID251
    words = [sys.executable, "-c", program, account.url, account.number, account.region]
    subprocess.run(words, env=variables, check=True)

    assert account.messages("orders").bodies() == ["x"]


def test_process_of_tests_imports_no_server() -> None:
    program = (
        "import sys; from skipmq.testing import Server\n"
        "with Server() as s: s.messages\n"
        "print(*[m for m in sys.modules if m.startswith('skipmq')])\n"
        "print({'boto3', 'psycopg', 'flask', 'asyncpg'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    ours, others = done.stdout.splitlines()
    assert {m for m in ours.split() if not m.startswith("skipmq.testing")} == {
        "skipmq",
        "skipmq.extras",
        "skipmq.release",
    }
    assert others == "set()"


def test_server_answers_clients_of_any_key(server: Server) -> None:
    with suppress(TestingError):
        server.reset()
    found = client(server.url, key="anything").create_queue(QueueName="any")["QueueUrl"]

    assert found.endswith("/000000000000/any")
    server.reset()

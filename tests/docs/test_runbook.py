"""Entries of the runbook, followed to the letter: there is a fault, and then it is over.

tests/deploy/test_runbook.py does so for faults of a cluster.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from string import Template
from threading import Thread
from typing import Any

import psycopg
import pytest
from markdown_it import MarkdownIt
from psycopg.conninfo import conninfo_to_dict

from skipmq.broker import runbook
from support import forks, pages, servers
from support.commands import invoke
from support.http import SKIPMQ, NodeProcess, client, environment, eventually
from support.key_commands import MASTER_KEY, Keys
from support.pages import Block
from support.postgres import Databases
from support.programs import need
from support.sql import Queue, number
from support.standby import wait_for_standby

SECTIONS = {each.slug: each.text for each in runbook.sections()}
ACCOUNTS = count(440_000_000_000)


def block(section: str, holds: str) -> Block:
    """Return the block of an entry that has a text."""
    tokens = MarkdownIt("commonmark").parse(SECTIONS[section])
    (found,) = [each for each in tokens if each.type == "fence" and holds in each.content]
    return Block(found.info, found.content, 0)


class Shop:
    """An account of its own at a node that checks signatures, and whoever is on call."""

    def __init__(self, node: NodeProcess, keys: Keys) -> None:
        self.account = str(next(ACCOUNTS))
        self._node, self._keys = node, keys
        self.sqs = self.client()
        eventually(lambda: self.queue("failed"), why="the node knows the key")

    def client(self, *options: str) -> Any:
        return client(self._node.url, **self._keys.create(self.account, *options))

    def queue(self, name: str, **attributes: str) -> str | None:
        """Return the URL of a queue; None if the key is not known yet."""
        try:
            made = self.sqs.create_queue(QueueName=name, Attributes=attributes)
        except self.sqs.exceptions.ClientError as error:
            if "InvalidClientTokenId" in str(error):
                return None
            raise
        return str(made["QueueUrl"])

    def orders(self, **attributes: str) -> str:
        """Return the URL of a queue whose dead letters go to the queue `failed`."""
        arn = f"arn:aws:sqs:us-east-1:{self.account}:failed"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        url = self.queue("orders", RedrivePolicy=policy, VisibilityTimeout="0", **attributes)
        assert url
        return url

    def holds(self, name: str) -> int:
        names = ["ApproximateNumberOfMessages"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.queue(name), AttributeNames=names)
        return int(found["Attributes"][names[0]])

    def fail(self, number: int) -> None:
        """Have messages of the queue `orders` dead-lettered."""
        url = self.orders()
        for each in range(number):
            self.sqs.send_message(QueueUrl=url, MessageBody=f"{each}")
        while self.holds("failed") < number:
            self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)

    def follow(self, section: str, holds: str, **values: object) -> list[str]:
        """Run a block of an entry, with yes as the answer; return what each command printed."""
        settings = {
            "database_url": self._keys.url,
            "account": self.account,
            "master_key": MASTER_KEY,
        }
        variables = environment(settings) | {"COLUMNS": "200"}
        printed = []
        for given in pages.commands(block(section, holds)):
            words = [Template(each).safe_substitute(values, ACCOUNT=self.account) for each in given]
            if words[0] == "psql":  # It takes the place of its process.
                done = forks.run([*SKIPMQ, *words], variables)
                assert done.returncode == 0, done.stderr
                printed.append(done.stdout)
                continue
            ended = invoke(tuple(words), variables, "y\n")
            assert ended.code == 0, (words, ended.stdout + ended.stderr)
            printed.append(ended.stdout)
        assert printed
        return printed


@pytest.fixture(scope="module")
def keys(embedded_databases: Databases) -> Iterator[Keys]:
    url = embedded_databases.migrated()
    yield Keys(url)
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def node(keys: Keys) -> Iterator[NodeProcess]:
    settings = {"auth": "on", "master_key": MASTER_KEY, "purge_cooldown": 0}
    with NodeProcess(database_url=keys.url, workers=1, **settings) as process:
        yield process.ready()


@pytest.fixture
def shop(node: NodeProcess, keys: Keys) -> Shop:
    return Shop(node, keys)


def test_dead_letters_without_a_source_go_where_they_are_sent(shop: Shop) -> None:
    url = shop.orders()
    shop.sqs.send_message(QueueUrl=shop.queue("failed"), MessageBody="of an SDK")

    shop.follow("the-dead-letter-queue-fills", "--to orders")

    assert [each["Body"] for each in shop.sqs.receive_message(QueueUrl=url)["Messages"]] == [
        "of an SDK"
    ]
    assert shop.holds("failed") == 0


def test_redrive_that_runs_away_is_stopped_and_begun_again(shop: Shop) -> None:
    shop.fail(12)
    arn = f"arn:aws:sqs:us-east-1:{shop.account}:failed"
    shop.sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=1)

    tasks, _, _ = shop.follow("a-redrive-runs-away", "--cancel")

    assert "failed" in tasks
    assert shop.sqs.receive_message(QueueUrl=shop.queue("orders")).get("Messages") is None
    eventually(lambda: _task(shop, arn) == "CANCELLED")
    assert shop.holds("failed") > 0

    shop.follow("a-redrive-runs-away", "--rate 5")

    assert (shop.holds("failed"), shop.holds("orders")) == (0, 12)
    assert shop.sqs.receive_message(QueueUrl=shop.queue("orders"))["Messages"]


def _task(shop: Shop, arn: str) -> str:
    (newest,) = shop.sqs.list_message_move_tasks(SourceArn=arn, MaxResults=1)["Results"]
    return str(newest["Status"])


def purged(shop: Shop) -> None:
    url = shop.orders(HistoryMode="full")
    for body in ("one", "two"):
        shop.sqs.send_message(QueueUrl=url, MessageBody=body)
    shop.sqs.purge_queue(QueueUrl=url)

    def is_told() -> bool:
        audit, kept, _ = shop.follow("messages-were-purged-or-deleted-by-mistake", "as whole")
        return "Purge" in audit and re.search(r"\n *2 \| +2 ", kept) is not None

    # The janitor moves what was purged to the history.
    eventually(is_told)


def test_purge_is_told_and_what_can_come_back(shop: Shop) -> None:
    purged(shop)

    assert shop.holds("orders") == 0


@pytest.mark.slow
def test_purged_messages_come_back(shop: Shop) -> None:
    need("java")
    purged(shop)

    shop.follow("messages-were-purged-or-deleted-by-mistake", "replay")

    assert shop.holds("orders") == 2


def test_refused_caller_is_found_and_permitted(shop: Shop, keys: Keys) -> None:
    url = shop.orders()
    shop.sqs.send_message(QueueUrl=url, MessageBody="a")
    made = keys.create(shop.account, "--role", "reader", "--name", "warehouse")
    consumer = client(shop.sqs.meta.endpoint_url, **made)
    eventually(lambda: "AccessDenied" in _error(consumer, url))
    for _ in range(10):
        _error(consumer, url)
    # Of all accounts, where none is named.
    everywhere = environment({"database_url": keys.url})
    words = ("trouble", "--limit", "100", "--json")
    eventually(lambda: "warehouse is refused on orders" in invoke(words, everywhere).stdout)

    def is_told() -> bool:
        audit, listed, _ = shop.follow("a-caller-is-refused", "permit", KEY=made["key"])
        assert "warehouse" in listed
        return "AccessDenied" in audit

    eventually(is_told)
    eventually(lambda: _error(consumer, url) == "")


def _error(sqs: Any, url: str) -> str:
    try:
        sqs.receive_message(QueueUrl=url)
    except sqs.exceptions.ClientError as error:
        return str(error)
    return ""


def test_group_in_flight_is_released(shop: Shop) -> None:
    url = shop.queue("ledger.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    for body in ("first", "second"):
        shop.sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="account-7")
    shop.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, VisibilityTimeout=600)
    assert "Messages" not in shop.sqs.receive_message(QueueUrl=url)

    groups, _ = shop.follow("receivers-idle-while-messages-wait", "queue groups")

    assert "account-7" in groups
    (again,) = shop.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)["Messages"]
    assert again["Body"] == "first"


def test_messages_that_expire_stay_for_a_longer_time(shop: Shop) -> None:
    url = shop.orders(MessageRetentionPeriod="60")

    shop.follow("messages-expire", "MessageRetentionPeriod")

    found = shop.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["MessageRetentionPeriod"])
    assert found["Attributes"] == {"MessageRetentionPeriod": "1209600"}


def test_session_of_another_program_is_found_and_ended(shop: Shop, keys: Keys) -> None:
    with psycopg.connect(keys.url, application_name="nightly report") as connection:
        process = connection.info.backend_pid

        sessions, _ = shop.follow("too-many-sessions", "--terminate", PROCESS=process)

        assert "nightly report" in sessions
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def test_all_sessions_of_a_program_are_ended(shop: Shop, keys: Keys) -> None:
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(psycopg.connect(keys.url, application_name="bi")) for _ in range(3)
        ]

        (ended,) = shop.follow("too-many-sessions", "count(pg_terminate", PROGRAM="bi")

        assert "3" in ended
        for session in sessions:
            with pytest.raises(psycopg.OperationalError):
                session.execute("select 1")


def test_files_of_others_are_found(tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    backups.mkdir()
    (backups / "old").write_bytes(bytes(3 << 20))
    data = tmp_path / "data"
    data.mkdir()

    with (tmp_path / "log").open("wb") as log:
        log.write(bytes(16 << 20))
        log.flush()
        (tmp_path / "log").unlink()
        found = _shell(block("disk-full", "du -xh"), DATA=str(data))

    # The folder itself takes nothing in some file systems.
    assert re.search(rf"3\.[01]M\t{re.escape(str(backups))}", found)
    assert "16777216 bytes: /proc/" in found


def test_sends_go_on_without_the_standby_that_nobody_takes_off_the_list(
    server_folder: Path,
) -> None:
    need("psql")
    with servers.start(server_folder / "alone", ephemeral=True, migrated=True) as server:
        url = Databases(server).migrated()
        parts = conninfo_to_dict(url)
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        variables = {name: str(parts[key]) for key, name in names.items() if key in parts}
        waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"
        with psycopg.connect(url, autocommit=True) as owner:
            wait_for_standby(owner, "gone")
            sending = Thread(target=_send, args=(url,))
            sending.start()
            eventually(lambda: number(owner, waiting) == 1)
            short = _replication(url)

            found = _shell(block("no-standby-acknowledges", "show synchronous"), **variables)

            sending.join()
            assert "gone" in found
            assert not short["ok"]
            assert short["detail"].startswith("0 of 1 standbys")
            assert _replication(url)["ok"]
            assert number(owner, "select count(*) from skipmq.message where body = 'a'") == 1


def _replication(url: str) -> dict[str, Any]:
    """Return what `skipmq doctor` says of it; `/health/ready` has the same words."""
    checks = json.loads(invoke(("doctor", "--json"), environment({"database_url": url})).stdout)
    (found,) = [each for each in checks["checks"] if each["check"] == "replication"]
    return dict(found)


def _send(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as sender:
        Queue(sender, "orders").send("a")


def _shell(found: Block, **variables: str) -> str:
    """Run a block as it stands; return what it printed."""
    done = subprocess.run(
        ["sh", "-euc", found.text],
        env=environment({}) | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout

"""What a node says while its database is there and does not do what nodes need."""

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

import botocore.exceptions
import psycopg
import pytest

from skipmq.database.pool import Pool
from skipmq.database.statement import INTEGER, Search
from skipmq.protocol import errors
from skipmq.protocol.limits import DEFAULT_ACCOUNT
from support import standby
from support.clock import connect
from support.http import NodeProcess, client, eventually, extension, raw
from support.postgres import Connection, Databases, as_node
from support.servers import start
from support.sql import number
from support.visitor import Visitor

WORKERS = 2
# Requests for health that reach each of the workers.
MANY = 12
# Nothing that could be compressed into the room that a page has.
BODY = os.urandom(50_000).hex()
Hinder: TypeAlias = Callable[..., AbstractContextManager[None]]
How: TypeAlias = tuple[str, ...]


@pytest.fixture
def own_url(embedded_databases: Databases) -> Iterator[str]:
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


@pytest.fixture(scope="module")
def url(embedded_databases: Databases) -> Iterator[str]:
    """Give the database of the node, which is writable before and after each test."""
    url = embedded_databases.migrated()
    yield url
    embedded_databases.drop(url)


def started(url: str) -> NodeProcess:
    return NodeProcess(database_url=as_node(url), workers=WORKERS, failover_wait=0)


@pytest.fixture(scope="module")
def node(url: str) -> Iterator[NodeProcess]:
    with started(url) as process:
        yield process.ready()


def set_read_only(admin: Connection, url: str, value: str) -> None:
    """Have a database take writes or not, as a primary that an operator has closed does."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    admin.execute(f"alter database {name} set default_transaction_read_only = {value}")
    admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = %s and pid <> pg_backend_pid()",
        (name,),
    )


@contextmanager
def read_only(databases: Databases, url: str) -> Iterator[None]:
    with psycopg.connect(databases.server.url, autocommit=True) as admin:
        set_read_only(admin, url, "on")
        try:
            yield
        finally:
            set_read_only(admin, url, "off")


@contextmanager
def no_connection(databases: Databases, url: str) -> Iterator[None]:
    """Have a database that is there and takes no more sessions."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(databases.server.url, autocommit=True) as admin:
        admin.execute(f"alter database {name} connection limit 0")
        end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        # One that was just being opened is not in sight, and let in.
        eventually(lambda: not admin.execute(end, (name,)).fetchall())
        yield
        admin.execute(f"alter database {name} connection limit -1")


@contextmanager
def without_privilege(databases: Databases, url: str, statement: str) -> Iterator[None]:
    del databases
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"revoke {statement} from skipmq_node")
        yield
        owner.execute(f"grant {statement} to skipmq_node")


@contextmanager
def full_disk(databases: Databases, url: str) -> Iterator[None]:
    """Have the messages of a database on a disk that has no room for another one."""
    with (
        psycopg.connect(databases.server.url, autocommit=True) as admin,
        psycopg.connect(url, autocommit=True) as owner,
        mounted(admin) as folder,
    ):
        admin.execute(f"create tablespace small location '{folder}'")
        owner.execute("alter table skipmq.message set tablespace small")
        owner.execute("alter table skipmq.disk_probe set tablespace small")
        filler = Path(folder) / "filler"
        with filler.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
            while opened.write(b"0" * 8192):
                pass
        assert os.statvfs(folder).f_bavail == 0
        yield
        filler.unlink()
        eventually(lambda: is_moved_back(owner))
        admin.execute("drop tablespace small")


def is_moved_back(owner: Connection) -> bool:
    """Move the tables of a broker that is at work to the disk that has room."""
    try:
        with owner.transaction():
            owner.execute("set local lock_timeout = '1s'")
            owner.execute("alter table skipmq.message set tablespace pg_default")
            owner.execute("alter table skipmq.disk_probe set tablespace pg_default")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


@contextmanager
def mounted(admin: Connection) -> Iterator[str]:
    """Give a file system of its own, for the account of the server."""
    row = admin.execute("show data_directory").fetchone()
    assert row is not None
    account = Path(row[0]).stat()
    folder = tempfile.mkdtemp(prefix="skipmq-small-")
    options = f"size=24m,mode=700,uid={account.st_uid},gid={account.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        Path(folder).rmdir()


def is_everywhere(node: NodeProcess, state: str, status: int) -> bool:
    """Return whether all workers say the same of the database; ask no more when one does not."""
    answers = (raw(f"{node.url}/health/ready") for _ in range(MANY))
    return all(
        (each.status, json.loads(each.body)["database"]) == (status, state) for each in answers
    )


def shows(node: NodeProcess, state: str, *, available: int) -> bool:
    """Return whether the metrics have this state of the database, and no other."""
    lines = node.metrics().splitlines()
    states = [line for line in lines if line.startswith("skipmq_database_state{")]
    found = [line for line in states if not line.endswith(" 0.0")]
    is_shown = found == [f'skipmq_database_state{{state="{state}"}} 1.0']
    return is_shown and f"skipmq_database_available {available}.0" in lines


@cache
def client_of(node: NodeProcess) -> Any:
    return client(node.url)


def send(node: NodeProcess, queue: str) -> str:
    """Send a message; return the error's text, nothing when it was stored."""
    try:
        client_of(node).send_message(QueueUrl=queue, MessageBody=BODY)
    except botocore.exceptions.ClientError as error:
        return "{Code}: {Message}".format(**error.response["Error"])
    return ""


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
REFUSED = "ServiceUnavailable: The database refuses this node a privilege"
SEND = "execute on function skipmq.send_messages"
STATES = [
    pytest.param(
        "read_only",
        read_only,
        (),
        "ServiceUnavailable: The database takes no writes",
        id="read-only",
    ),
    pytest.param(
        "no_connection",
        no_connection,
        (),
        "ServiceUnavailable: The database has no free connection",
        id="no-connection",
    ),
    pytest.param(
        "disk_full", full_disk, (), "ServiceUnavailable: The disk", id="disk-full", marks=needs_root
    ),
    pytest.param("no_privilege", without_privilege, (SEND,), REFUSED, id="function"),
    pytest.param(
        "no_privilege",
        without_privilege,
        ("usage on schema skipmq",),
        REFUSED,
        id="schema",
        marks=pytest.mark.slow,  # As a function: the same error of PostgreSQL.
    ),
]


@pytest.mark.parametrize(("name", "hinder", "how", "text"), STATES)
def test_state_is_named_by_health_metrics_log_and_errors_of_all_workers(
    node: NodeProcess,
    embedded_databases: Databases,
    url: str,
    name: str,
    hinder: Hinder,
    how: How,
    text: str,
) -> None:
    queue = client(node.url).create_queue(QueueName="orders")["QueueUrl"]
    so_far = len(node.lines)

    with hinder(embedded_databases, url, *how):
        eventually(lambda: text in send(node, queue))
        eventually(lambda: is_everywhere(node, name, 503))
        eventually(lambda: shows(node, name, available=0))
        assert raw(f"{node.url}/health/live").status == 200

    eventually(lambda: is_everywhere(node, "writable", 200))
    assert send(node, queue) == ""
    eventually(lambda: shows(node, "writable", available=1))
    assert any(f'"state": "{name}"' in line for line in node.lines[so_far:])
    assert "Traceback" not in node.log


def test_pages_that_only_read_are_shown_while_the_database_takes_no_writes(
    node: NodeProcess, embedded_databases: Databases, url: str
) -> None:
    kept(node)

    with read_only(embedded_databases, url):
        eventually(lambda: is_everywhere(node, "read_only", 503))
        # Another test opens all pages, on a standby, which refuses more.
        assert_readable(node, ("queues", "queues/readable/messages"))

    eventually(lambda: is_everywhere(node, "writable", 200))


def test_pages_that_only_read_are_shown_while_there_are_only_standbys(public_folder: Path) -> None:
    place = public_folder / "only-standbys"
    with ExitStack() as stack:
        primary = stack.enter_context(start(place / "first", migrated=True))
        url = Databases(primary).migrated()
        standby.copy(primary.url, place / "second")
        other = stack.enter_context(start(place / "second"))
        node = stack.enter_context(started(of_both(url, other.url))).ready()
        message = kept(node)
        with connect(url) as owner, connect(other.url) as reader:
            written = number(owner, "select pg_current_wal_lsn()")
            applied = "select pg_last_wal_replay_lsn() >= %s"
            eventually(lambda: number(reader, applied, written))
        primary.release()

        eventually(lambda: is_everywhere(node, "read_only", 503))
        assert_readable(node, pages_of(message))


def of_both(url: str, other: str) -> str:
    """Return the URL of a database on either of two servers."""
    hosts = [parse_qs(urlsplit(each).query)["host"][0] for each in (url, other)]
    return urlsplit(url)._replace(query=urlencode({"host": ",".join(hosts)})).geturl()


def kept(node: NodeProcess) -> dict[str, str]:
    """Send a message to a queue; return what it is to the console."""
    sqs = client(node.url)
    queue = sqs.create_queue(QueueName="readable")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="kept")
    (message,) = extension(node.url, "PeekMessages", QueueUrl=queue)["Messages"]
    return dict(message)


def assert_shown(visitor: Visitor, page: str, text: str = "") -> None:
    """Open a page, which on a busy machine may be cut at its deadline, or have less."""
    eventually(lambda: (seen := visitor.get(page)).status == 200 and text in seen.body, why=page)


def pages_of(message: Mapping[str, str]) -> list[str]:
    """Return the pages that only read."""
    paths = (
        "overview", "messages", f"messages/{message['MessageReference']}", "tail", "search",
        f"timeline?message={message['MessageId']}", "consumers", "charts", "send", "settings",
        "redrive", "delete", "counts",
    )  # fmt: skip
    pages = ("queues", "dead-letters", "nodes", "tasks", "audit", "topics", "schedules")
    return [*pages, *(f"queues/readable/{path}" for path in paths)]


def assert_readable(node: NodeProcess, pages: Sequence[str]) -> None:
    """Open pages that only read."""
    visitor = Visitor(node.url)
    has = {"queues/readable/messages": "kept", "queues": "/queues/readable/overview"}
    for page in pages:
        assert_shown(visitor, page, has.get(page, ""))
    assert has.keys() <= set(pages)
    assert_shown(visitor, "/console/us-east-1/000000000000/", 'id="to-queues"')
    # What is read has little time, which a busy machine may take.
    home = "/console/us-east-1/000000000000/"
    eventually(lambda: "not known" not in (page := visitor.get(home).body) and "read only" in page)


@pytest.mark.parametrize(("name", "hinder", "how", "text"), [STATES[0], STATES[3]])
def test_node_that_starts_without_a_database_to_write_to_waits_for_it(
    embedded_databases: Databases, own_url: str, name: str, hinder: Hinder, how: How, text: str
) -> None:
    with hinder(embedded_databases, own_url, *how):
        node = started(own_url)
        eventually(lambda: is_said(node, name))
        assert text in send(node, f"{node.url}/{DEFAULT_ACCOUNT}/orders")
        eventually(lambda: "waiting until the database accepts writes" in node.log)
        assert "serves SQS at" not in node.log
        # Without the key of the sessions nobody could tell a forged one.
        assert raw(f"{node.url}/console/us-east-1/000000000000/queues").status == 503
        assert raw(f"{node.url}/metrics").status == 200
    with node:
        node.ready()
        eventually(lambda: raw(f"{node.url}/console/us-east-1/000000000000/queues").status == 200)
        eventually(lambda: "serves SQS at" in node.log)
    assert "Traceback" not in node.log


def test_worker_that_begins_while_rights_are_lost_says_so(
    node: NodeProcess, embedded_databases: Databases, url: str
) -> None:
    with without_privilege(embedded_databases, url, "usage on schema skipmq"):
        before = node.workers()
        for each in before:
            each.kill()
        eventually(lambda: len(set(node.workers()) - set(before)) == WORKERS)

        eventually(lambda: is_said(node, "no_privilege"))
        eventually(lambda: is_everywhere(node, "no_privilege", 503))
    eventually(lambda: is_everywhere(node, "writable", 200))
    assert "Traceback" not in node.log


def test_full_primary_behind_a_read_only_server_is_not_taken_for_read_only(
    embedded_databases: Databases, own_url: str, server_folder: Path
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(own_url)["dbname"]
    with start(server_folder / "read-only", ephemeral=True) as other:
        with psycopg.connect(other.url, autocommit=True) as admin:
            admin.execute(f"create database {name}")
            admin.execute("create role skipmq_node login")
            set_read_only(admin, other.url.replace("/postgres?", f"/{name}?"), "on")
        hosts = [
            str(psycopg.conninfo.conninfo_to_dict(server.url)["host"])
            for server in (embedded_databases.server, other)
        ]
        servers = f"host={','.join(hosts)} dbname={name} user=skipmq_node"
        with NodeProcess(database_url=servers, workers=WORKERS, failover_wait=0) as node:
            queue = client(node.ready().url).create_queue(QueueName="orders")["QueueUrl"]
            with no_connection(embedded_databases, own_url):
                eventually(lambda: "has no free connection" in send(node, queue))
                eventually(lambda: is_everywhere(node, "no_connection", 503))
            eventually(lambda: is_everywhere(node, "writable", 200))
    assert '"state": "read_only"' not in node.log


def is_said(node: NodeProcess, state: str) -> bool:
    """Return whether a node that has just begun answers, and names a state."""
    with contextlib.suppress(OSError):
        return f'"{state}"' in raw(f"{node.url}/health/ready").body
    return False


async def test_search_has_its_deadline_while_the_database_takes_no_writes(own_url: str) -> None:
    pool = Pool(as_node(own_url), size=1)
    pool.availability.mark_unavailable(psycopg.errors.ReadOnlySqlTransaction("read-only"))
    sleep = Search("select pg_sleep($1)", INTEGER)

    with pytest.raises(errors.ServiceUnavailable, match="did not answer in time"):
        await pool.rows(sleep, (5,), deadline=monotonic() + 0.2)

    await asyncio.gather(*pool._cancelling)  # noqa: SLF001
    pool.close()

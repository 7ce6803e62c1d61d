from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import count
from typing import Any
from zlib import crc32

import psycopg
import pytest

from support import conformance
from support.http import NodeProcess, WsgiProcess, client, extension
from support.inbox import Inbox
from support.postgres import Connection, Databases, as_node

_number = count(1)
# Files whose tests run in both protocols: each action, member and error, requests and texts as
# bytes, and what signs or forges a request.
_BOTH = ("conformance", "wire", "error_texts", "hostile_texts", "signatures", "browsers")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave one of the two protocols to a test of what is behind them; in the other it is slow.

    Which one is by its name and its parameters, so that each protocol gets its share of every file.
    """
    callspec, subject = getattr(item, "callspec", None), item.path.stem.removeprefix("test_")
    # What is in flight is counted to 120,000, which takes longer than its two encodings are worth.
    if callspec is None or (subject.startswith(_BOTH) and subject != "conformance_in_flight"):
        return
    wire = callspec.params.get("wire")
    same_for_both = item.nodeid.replace("query", "json").encode()
    if wire and wire != ("json", "query")[crc32(same_for_both) % 2]:
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, embedded_databases: Databases) -> Iterator[NodeProcess]:
    """Give a node on a database of its own, of two workers behind either door."""
    url = embedded_databases.migrated()
    node = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    with node(database_url=as_node(url), workers=2, log_level="debug") as process:
        process.owner_url = url
        yield process.ready()


@pytest.fixture(scope="session")
def second_broker(broker: NodeProcess) -> Iterator[NodeProcess]:
    """Give another node on the same database."""
    with NodeProcess(database_url=as_node(broker.owner_url), workers=1) as process:
        yield process.ready()


@pytest.fixture
def owner(broker: NodeProcess) -> Iterator[Connection]:
    """Give a connection of the owner of the broker's database."""
    with psycopg.connect(broker.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["json", "query"])
def wire(request: pytest.FixtureRequest) -> str:
    """Run the test over the AWS JSON and over the Query protocol."""
    return str(request.param)


@pytest.fixture(scope="session")
def clients(broker: NodeProcess) -> dict[str, Any]:
    return {wire: client(broker.url, wire) for wire in ("json", "query")}


@pytest.fixture
def sqs(clients: dict[str, Any], wire: str) -> Any:
    return clients[wire]


@pytest.fixture
def ask(broker: NodeProcess) -> Callable[..., dict[str, Any]]:
    """Give what runs an action beyond SQS and returns its answer."""

    return partial(extension, broker.url)


@pytest.fixture
def name() -> str:
    """Give a queue name that no other test has."""
    return f"queue-{next(_number)}"


@pytest.fixture
def queue(sqs: Any, name: str) -> str:
    """Give the URL of a new queue."""
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


@pytest.fixture(scope="session")
def sns(broker: NodeProcess) -> Any:
    return client(broker.url, "query", service="sns")


@pytest.fixture(scope="session")
def queues(broker: NodeProcess) -> Any:
    return client(broker.url)


@pytest.fixture
def topic(sns: Any) -> str:
    """Give the ARN of a new topic."""
    return str(sns.create_topic(Name=f"topic-{next(_number)}")["TopicArn"])


@pytest.fixture
def fifo_topic(sns: Any) -> str:
    name = f"topic-{next(_number)}.fifo"
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true"}
    return str(sns.create_topic(Name=name, Attributes=attributes)["TopicArn"])


@pytest.fixture
def inbox(queues: Any) -> Callable[..., Inbox]:
    return lambda suffix="", **attributes: Inbox(queues, suffix, **attributes)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test of the conformance table when it has not done what the table says of it."""
    if not pyfuncitem.path.stem.startswith("test_conformance_"):
        return (yield)
    arguments = pyfuncitem.funcargs
    promised = conformance.promises(pyfuncitem.originalname, arguments.get("action"))
    if not promised:
        return (yield)
    with conformance.recording(arguments["sqs"]) as facts:
        result = yield
    broken = sorted(map(str, promised - facts))
    assert not broken, f"the conformance table says that this test does also: {broken}"
    return result

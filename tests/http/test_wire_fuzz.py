"""Whatever a client sends, a node answers with a result or a whole error of SQS."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.client import HTTPException, HTTPResponse
from io import BytesIO

import hypothesis
import psutil
import psycopg
import pytest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, example, given, settings

from skipmq.protocol import errors
from support.hostile import NAME, OTHER
from support.hostile_http import Message, messages, streams
from support.http import ROOT, Answer, NodeProcess, client
from support.key_commands import MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.wire import read, told

# Where what has failed is kept; `make fuzz` begins with it.
FAILED = ROOT / ".hypothesis" / "wire"
# Less than a node waits for the rest of a body.
SECONDS = 9.0
# Bytes that a worker may grow by after the warm-up: its caches, which are bounded, fill up.
GROWTH = 96 * 1_048_576
WARM_UP, EXAMPLES, IN_A_ROUND = 25, 15, 500
SIGNED = Credentials("AKIAIOSFODNN7EXAMPLE", "a secret that is not the key's")


def _classes(error: type[errors.SqsError]) -> Iterator[type[errors.SqsError]]:
    yield error
    for each in error.__subclasses__():
        yield from _classes(each)


NAMES = {name for each in _classes(errors.SqsError) for name in (each.shape, each.code)}


class Target:
    """A node that is attacked, and what must stay as it is."""

    def __init__(self, node: NodeProcess, key: dict[str, str] | None) -> None:
        self.node = node
        self.sqs = client(node.url, **(key or {}))
        self.credentials = Credentials(key["key"], key["secret"]) if key else SIGNED
        self.queue = self.sqs.create_queue(QueueName="untouched")["QueueUrl"]
        self.sqs.create_queue(QueueName=NAME)
        self.sqs.create_queue(QueueName=OTHER, Attributes={"FifoQueue": "true"})
        for number in range(10):
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=f"message {number}")
        self.workers = {worker.pid for worker in node.workers()}

    def memory(self) -> int:
        """Return the proportional set size of the workers, in bytes."""
        pids = [psutil.Process(pid) for pid in self.workers]
        return sum(process.memory_full_info().pss for process in pids)

    def check(self) -> None:
        """Fail unless the node works as before and has lost nothing."""
        assert "request failed" not in self.node.log
        assert "Traceback" not in self.node.log
        assert {worker.pid for worker in self.node.workers()} == self.workers
        queue = self.sqs.create_queue(QueueName="afterwards")["QueueUrl"]
        self.sqs.send_message(QueueUrl=queue, MessageBody="works")
        (message,) = self.sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
        self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        with psycopg.connect(self.node.owner_url) as owner:
            left = owner.execute(
                "select m.body from skipmq.message m join skipmq.queue q using (queue_id)"
                " where q.name = 'untouched' and m.receive_count = 0 order by 1"
            ).fetchall()
        assert [body for (body,) in left] == [f"message {number}" for number in range(10)]


@pytest.fixture(scope="module", params=["open", "signed"])
def target(request: pytest.FixtureRequest, embedded_databases: Databases) -> Iterator[Target]:
    url = embedded_databases.migrated()
    is_signed = request.param == "signed"
    key = Keys(url).create() if is_signed else None
    auth = {"auth": "on", "master_key": MASTER_KEY} if is_signed else {}
    with NodeProcess(database_url=as_node(url), workers=1, **auth) as node:
        node.owner_url = url
        yield Target(node.ready(), key)


def written(port: int, data: bytes, *, ends: bool) -> bytes:
    """Write on a connection, end the writing side if told to, and return what is answered."""
    began, pieces = time.monotonic(), []
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 20):
                pieces.append(piece)
        except TimeoutError:
            raise
        except OSError:
            pass  # It has refused what it has not read.
    assert time.monotonic() - began < SECONDS
    return b"".join(pieces)


class _Answered:
    """Bytes in the place of a socket."""

    def __init__(self, data: BytesIO) -> None:
        self.data = data

    def makefile(self, _: str) -> BytesIO:
        return self.data


def answers(data: bytes, method: str = "POST") -> list[Answer]:
    data = data.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    found, stream = [], BytesIO(data)
    stream.close = lambda: None  # type: ignore[method-assign]
    while stream.tell() < len(data):
        response = HTTPResponse(_Answered(stream), method=method)  # type: ignore[arg-type]
        response.begin()
        found.append(read(response))
    return found


def judged(answer: Answer) -> None:
    """Fail unless an answer is a result, a whole error of SQS, or a way to the console."""
    if answer.status == 200 or leads_to_console(answer):
        return
    if answer.headers["Content-Type"] == "application/json":
        assert 400 <= answer.status < 500
        assert json.loads(answer.body)["Error"]["Code"] in NAMES
    else:
        assert told(answer) in NAMES


def leads_to_console(answer: Answer) -> bool:
    return answer.status == 302 and answer.headers["Location"] == "/console/" and not answer.body


def saved(data: bytes, check: Callable[[], None]) -> None:
    """Keep what was sent when the answer to it is wrong."""
    try:
        check()
    except (AssertionError, HTTPException, OSError, KeyError, ValueError):
        FAILED.mkdir(parents=True, exist_ok=True)
        (FAILED / sha256(data).hexdigest()[:16]).write_bytes(data)
        raise


def requested(target: Target, message: Message) -> None:
    data = message.written()

    def check() -> None:
        (answer,) = answers(written(target.node.port, data, ends=False), message.method)
        if message.method == "HEAD":
            assert answer.status in (400, 404, 405)
            assert not answer.body
            return
        if message.method in ("X", "post"):  # Methods that HTTP does not have.
            assert (answer.status, answer.body) == (501, "")
            return
        judged(answer)
        if leads_to_console(answer):
            assert (message.method, message.path.partition("?")[0]) == ("GET", "/")
            assert b"text/html" in data.lower()
            return
        assert ("x-amz-json" in answer.headers["Content-Type"]) == message.is_json

    saved(data, check)


def streamed(target: Target, data: bytes) -> None:
    def check() -> None:
        for answer in answers(written(target.node.port, data, ends=True)):
            # What is not HTTP the server refuses itself, without a body.
            if answer.status == 200 or answer.body or leads_to_console(answer):
                judged(answer)
            else:
                assert 400 <= answer.status < 500 or answer.status in (501, 505)

    saved(data, check)


def attacks(target: Target) -> list[Callable[[], None]]:
    """Return what sends each kind of request."""

    @given(message=messages() | messages(target.credentials))
    @example(message=Message({"Host": "localhost", "Accept": "text/html"}, b"", "GET"))
    def request(message: Message) -> None:
        requested(target, message)

    @given(data=streams())
    def stream(data: bytes) -> None:
        streamed(target, data)

    return [request, stream]


def run(attack: Callable[[], None], examples: int, *, fixed: bool) -> None:
    """Send so many requests, the same ones always or those of a new seed, which it shows."""
    if not fixed:
        seed = time.monotonic_ns()
        print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails.
        attack = hypothesis.seed(seed)(attack)
    settings(
        max_examples=examples,
        deadline=None,
        derandomize=fixed,
        database=None,
        suppress_health_check=[*HealthCheck],
    )(attack)()


def test_whatever_is_sent_is_answered(target: Target) -> None:
    for attack in attacks(target):
        run(attack, WARM_UP, fixed=True)
    before = target.memory()

    for attack in attacks(target):
        run(attack, EXAMPLES, fixed=True)
    for attack in attacks(target):
        run(attack, EXAMPLES, fixed=False)

    target.check()
    assert target.memory() - before < GROWTH


def test_what_was_once_answered_wrongly_is_answered(target: Target) -> None:
    for file in sorted(FAILED.glob("*")):
        streamed(target, file.read_bytes())
    target.check()


@pytest.mark.slow
def test_whatever_is_sent_for_long_is_answered(
    target: Target, pytestconfig: pytest.Config, capfd: pytest.CaptureFixture[str]
) -> None:
    """`make fuzz` says for how long; each half of the time is for one of the two nodes."""
    seconds = pytestconfig.getoption("--fuzz-seconds") / 2
    began, sent, before = time.monotonic(), 0, target.memory()
    while (passed := time.monotonic() - began) < seconds:
        for attack in attacks(target):
            run(attack, IN_A_ROUND, fixed=False)
            sent += IN_A_ROUND
        target.check()
        grown = (target.memory() - before) / 1_048_576
        with capfd.disabled():
            print(f"{passed:5.0f} of {seconds:.0f} s, {sent} requests, {grown:+.1f} MB")  # noqa: T201
        assert target.memory() - before < GROWTH

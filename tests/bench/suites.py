"""What a broker costs a suite of tests: its start, an empty state, twenty short tests."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench import machine, peers
from bench.load import Failed, Outcome
from bench.peers import ELASTICMQ, MOTO, SKIPMQ_NAME
from bench.record import Pair
from bench.run import Measure, Run
from skipmq.testing import Account, Server
from support.programs import CREDENTIALS

TESTS = 20
_SAMPLES = 20
_LIFE = f"""

@pytest.mark.parametrize("number", range({TESTS}))
def test_life(sqs, number):
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == str(number)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert not sqs.receive_message(QueueUrl=queue).get("Messages")
"""
# The fixture `sqs` of each, as a user of it writes it.
_SKIPMQ = """\
import pytest


@pytest.fixture
def sqs(skipmq):
    return skipmq.client()
"""
_MOTO = """\
import boto3
import pytest
from moto import mock_aws


@pytest.fixture
def sqs():
    with mock_aws():
        yield boto3.client("sqs")
"""
_ELASTICMQ = """\
import os
import boto3
import pytest
from bench import peers
from pathlib import Path


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    with peers.elasticmq(tmp_path_factory.mktemp("elasticmq")) as broker:
        yield broker.url


@pytest.fixture
def sqs(url):
    client = boto3.client("sqs", endpoint_url=url)
    yield client
    for queue in client.list_queues().get("QueueUrls", []):
        client.delete_queue(QueueUrl=queue)
"""


def suites(run: Run) -> None:
    """Time of a server to be ready, of a reset, and of twenty tests with all that they begin."""
    run.absent = {}
    ready: dict[str, Measure] = {}
    whole: dict[str, Measure] = {}
    if run.wants(SKIPMQ_NAME):
        ready[SKIPMQ_NAME] = lambda _: _timed(Server)
        whole[SKIPMQ_NAME] = _suite(run.folder, _SKIPMQ)
    if run.wants(ELASTICMQ):
        with run.noting(ELASTICMQ):
            machine.elasticmq_jars()
            ready[ELASTICMQ] = lambda _: _timed(lambda: peers.elasticmq(run.folder))
            whole[ELASTICMQ] = _suite(run.folder, _ELASTICMQ)
    if run.wants(MOTO):
        with run.noting(MOTO):
            machine.check_moto()
            ready[MOTO] = lambda _: _timed(lambda: peers.moto(run.folder))
            whole[f"{MOTO}, mock_aws"] = _suite(run.folder, _MOTO)
    # The first start of all makes the template.
    with Server():
        pass
    run.compare(
        "a server for tests is ready", "s", ready, SKIPMQ_NAME,
        warm=False, less_is_better=True, limits={SKIPMQ_NAME: 1.0},
    )  # fmt: skip
    run.compare(
        f"{TESTS} tests by pytest, start and end included", "s", whole, SKIPMQ_NAME,
        warm=False, less_is_better=True, pairs=[Pair(SKIPMQ_NAME, f"{MOTO}, mock_aws", 1.0)],
    )  # fmt: skip
    if run.wants(SKIPMQ_NAME):
        with Server() as server:
            acts = {"reset": _reset, "restore of a snapshot": _restore}
            run.compare(
                "an account with 100 messages is as before", "ms",
                {name: _median(server, act) for name, act in acts.items()}, "reset",
                warm=False, less_is_better=True, limits=dict.fromkeys(acts, 20.0),
            )  # fmt: skip


def _timed(start: Callable[[], object]) -> Outcome:
    began = time.monotonic()
    with start():  # type: ignore[attr-defined]
        return Outcome(time.monotonic() - began, {})


def _suite(folder: Path, fixtures: str) -> Measure:
    """Return a measure of a run of pytest, from the command to its end."""

    def measure(_: int) -> Outcome:
        with _folder(folder) as suite:
            (suite / "test_suite.py").write_text(fixtures + _LIFE)
            options = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-q"]
            paths = os.pathsep.join(sys.path)
            began = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, "-c", os.devnull, suite],
                env=os.environ | CREDENTIALS | {"PYTHONPATH": paths},  # noqa: TID251
                capture_output=True,
                text=True,
                check=False,
            )
            took = time.monotonic() - began
        if f"{TESTS} passed" not in done.stdout:
            raise Failed(f"the tests failed: {done.stdout[-500:]}{done.stderr[-500:]}")
        return Outcome(took, {})

    return measure


@contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    suite = folder / "suite"
    suite.mkdir()
    yield suite
    shutil.rmtree(suite)


def _median(server: Server, act: Callable[[Account], float]) -> Measure:
    """Return a measure of what an act takes, in milliseconds."""

    def measure(_: int) -> Outcome:
        return Outcome(1000 * median(act(server.new_account()) for _ in range(_SAMPLES)), {})

    return measure


def _reset(account: Account) -> float:
    _fill(account)
    began = time.monotonic()
    account.reset()
    return time.monotonic() - began


def _restore(account: Account) -> float:
    _fill(account)
    state = account.snapshot()
    sqs = account.client()
    sqs.purge_queue(QueueUrl=sqs.get_queue_url(QueueName="orders")["QueueUrl"])
    began = time.monotonic()
    state.restore()
    return time.monotonic() - began


def _fill(account: Account) -> None:
    sqs = account.client()
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    entries = [{"Id": str(number), "MessageBody": "x" * 256} for number in range(10)]
    for _ in range(10):
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)

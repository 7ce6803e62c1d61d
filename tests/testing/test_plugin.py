"""The pytest plugin and the base for unittest, in runs of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import runs
from support.accounts import ACCOUNT, python_of_others
from support.processes import until, until_gone

LIFE = """
import os, pytest

@pytest.mark.parametrize("number", range(4))
def test_life(skipmq, skipmq_server, number):
    sqs = skipmq.client()
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    assert skipmq.messages("orders").bodies() == [str(number)]
    skipmq.clock.advance(hours=number)
    (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert skipmq.messages("orders") == []
    with open(os.environ["PIDS"], "a") as pids:
        pids.write(f"{skipmq_server.pid}\\n")
"""
CASES = """
import boto3, os, unittest
from skipmq.testing import TestCase, TestingError

EARLY = boto3.client("sqs", "us-east-1")  # Without keys, as in CI.

class Orders(TestCase, unittest.IsolatedAsyncioTestCase):
    def setUp(self):  # As most do, without super().setUp().
        self.queue = boto3.client("sqs").create_queue(QueueName="orders")["QueueUrl"]
    def test_one(self):
        self.skipmq.client().send_message(QueueUrl=self.queue, MessageBody="x")
        self.assertEqual(self.skipmq.messages("orders").bodies(), ["x"])
        url = boto3.client("sqs").get_queue_url(QueueName="orders")["QueueUrl"]
        self.assertEqual(url, self.queue)
        with self.assertRaisesRegex(TestingError, "asks AWS itself, sqs.us-east-1.amazonaws.com"):
            EARLY.list_queues()
    async def test_two(self):
        self.assertEqual(self.skipmq.messages("orders").bodies(), [])
        url = boto3.client("sqs").get_queue_url(QueueName="orders")["QueueUrl"]
        self.assertEqual(url, self.queue)

class Mixed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sqs = boto3.client("sqs")
        cls.queue = cls.sqs.create_queue(QueueName="orders")["QueueUrl"]
        cls.sqs.send_message(QueueUrl=cls.queue, MessageBody="of the class")

class Shared(TestCase, Mixed):
    def test_one(self):
        self.sqs.send_message(QueueUrl=self.queue, MessageBody="x")
        boto3.client("sqs").create_queue(QueueName="others")
        self.assertEqual(self.skipmq.messages("orders").bodies(), ["of the class", "x"])
    def test_two(self):
        self.test_one()

class Inherited(Shared):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sqs.create_queue(QueueName="third")

class Others(unittest.TestCase):
    def test_variables_are_those_of_before(self):
        self.assertNotIn("AWS_ENDPOINT_URL_SQS", os.environ)
"""


DJANGO = """
import django
from django.conf import settings
settings.configure()
django.setup()
from django.test import SimpleTestCase
from skipmq.testing import TestCase

class Orders(TestCase, SimpleTestCase):
    def test_order(self):
        with self.settings(ENDPOINT=self.skipmq.url):
            url = self.skipmq.client().create_queue(QueueName="orders")["QueueUrl"]
            self.assertTrue(url.startswith(settings.ENDPOINT))
"""


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Give the variables of a run that finds the plugin by its entry point."""
    return runs.variables() | {"PIDS": str(tmp_path / "pids")}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """Give a folder for tests, with a configuration as strict as this repository's."""
    return runs.folder(tmp_path)


@pytest.mark.parametrize(
    ("options", "servers"),
    [
        pytest.param((), 1, id="one", marks=pytest.mark.slow),
        pytest.param(("-n", "2"), 2, id="xdist"),
    ],
)
def test_fixture_gives_each_test_an_empty_account(
    tests: Path, variables: dict[str, str], place: Path, options: tuple[str, ...], servers: int
) -> None:
    (tests / "test_life.py").write_text(LIFE)

    said = runs.run(tests, variables | {"TMPDIR": str(place)}, *options)

    assert "4 passed" in said
    pids = set(Path(variables["PIDS"]).read_text().split())
    assert len(pids) == servers
    for pid in pids:
        until_gone(int(pid))
    until(lambda: not list(place.glob("skipmq-*")), "the folders are gone")


def test_cases_of_unittest_have_an_account_each(tests: Path, variables: dict[str, str]) -> None:
    (tests / "test_cases.py").write_text(CASES)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "unittest", "-v", "test_cases"],
        cwd=tests,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Ran 7 tests" in done.stderr
    assert done.stderr.rstrip().endswith("OK")


@pytest.mark.slow
def test_cases_of_unittest_have_an_account_each_under_pytest(
    tests: Path, variables: dict[str, str]
) -> None:
    (tests / "test_cases.py").write_text(CASES)

    assert "7 passed" in runs.run(tests, variables)


@pytest.mark.slow
def test_cases_of_django_have_an_account_each(tests: Path, variables: dict[str, str]) -> None:
    (tests / "test_cases.py").write_text(DJANGO)

    assert "1 passed" in runs.run(tests, variables)


def test_run_that_asks_for_nothing_imports_nothing(tests: Path, variables: dict[str, str]) -> None:
    program = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport skipmq.testing.plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )

    modules = ["skipmq", "skipmq.release", "skipmq.testing", "skipmq.testing.plugin"]
    assert done.stdout.split() == modules
    (tests / "test_nothing.py").write_text(
        "import sys\ndef test_nothing():\n"
        "    assert 'skipmq.testing.plugin' in sys.modules\n"
        "    assert 'skipmq.testing.server' not in sys.modules\n"
    )
    assert "1 passed" in runs.run(tests, variables)


def test_killed_run_leaves_no_server(tests: Path, variables: dict[str, str], place: Path) -> None:
    (tests / "test_hang.py").write_text(
        "import time\ndef test_hang(skipmq_server):\n"
        "    print(skipmq_server.pid, flush=True)\n    time.sleep(600)\n"
    )
    with runs.Run(
        [*runs.PYTEST, "-s", "-q"],
        cwd=tests,
        env=variables | {"TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pid = int(next(line for line in process.stdout if line.strip().isdigit()))

        process.kill()

    until_gone(pid)
    until(lambda: not list(place.glob("skipmq-*")), "the folder is gone")


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["controller", "all", "workers"])
def test_killed_run_of_several_workers_leaves_no_server(
    tests: Path, variables: dict[str, str], place: Path, victims: str
) -> None:
    (tests / "test_hang.py").write_text(
        "import os, time, pytest\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_hang(skipmq, skipmq_server, number):\n"
        "    with open(os.environ['PIDS'], 'a') as pids:\n"
        "        pids.write(f'{os.getpid()} {skipmq_server.pid}\\n')\n"
        "    time.sleep(600)\n"
    )
    pids = Path(variables["PIDS"])
    with subprocess.Popen(
        [*runs.PYTEST, "-n", "2", "--max-worker-restart", "0"],
        cwd=tests,
        env=variables | {"TMPDIR": str(place)},
        stdout=subprocess.DEVNULL,
    ) as controller:
        until(lambda: pids.exists() and pids.read_text().count("\n") == 2, "two tests hang")
        workers, servers = zip(
            *([int(pid) for pid in line.split()] for line in pids.read_text().splitlines()),
            strict=True,
        )
        if victims != "workers":
            controller.kill()
        if victims != "controller":
            for worker in workers:
                os.kill(worker, signal.SIGKILL)

    for pid in (*workers, *servers):
        until_gone(pid)
    until(lambda: not list(place.glob("skipmq-*")), "the folders are gone")


def test_run_that_is_killed_while_its_server_starts_leaves_nothing(
    variables: dict[str, str], place: Path
) -> None:
    program = (
        "import os, signal, subprocess\nfrom skipmq.testing import Server\n"
        "start = subprocess.Popen\n"
        "def started(*words, **options):\n"
        "    print(start(*words, **options).pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "subprocess.Popen = started\nServer().start()\n"
    )

    killed = subprocess.run(
        [sys.executable, "-c", program],
        env=variables | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert killed.returncode == -signal.SIGKILL
    until_gone(int(killed.stdout))
    until(lambda: not list(place.glob("skipmq-*")), "the folder is gone")


@pytest.mark.slow
def test_run_of_another_account_without_a_home(place: Path) -> None:
    program, others = python_of_others()
    (place / "test_life.py").write_text(LIFE)
    (place / "pids").touch(mode=0o666)
    (place / "pids").chmod(0o666)
    given = {**others, "TMPDIR": str(place), "HOME": "/nonexistent", "PIDS": str(place / "pids")}

    done = subprocess.run(
        [program, *runs.PYTEST[1:], "-c", "/dev/null", "test_life.py"],
        cwd=place,
        env=given,
        capture_output=True,
        text=True,
        check=False,
        **ACCOUNT,
    )

    assert "4 passed" in done.stdout, done.stdout + done.stderr
    until(lambda: not list(place.glob("skipmq-*")), "the folder is gone")

"""`skipmq serve --ephemeral --json`, which test servers of all languages start."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.accounts import ACCOUNT, python_of_others
from support.forks import Forked
from support.http import SKIPMQ, client, environment, raw
from support.processes import ask, is_alive, until, until_gone

Running = tuple[subprocess.Popen[bytes], dict[str, Any]]
STARTER = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(server.stdout.readline().decode(), end="", flush=True)
server.wait()
"""


@contextmanager
def serving(
    place: Path, *options: str, program: tuple[str, ...] = (), **settings: Any
) -> Iterator[Running]:
    """Start a server that stops with its standard input; give it with what it says."""
    words = [*SKIPMQ, "serve", "--ephemeral", "--json", "--stop-on-eof", *options]
    process = Forked(
        [*program, *words],
        env=environment(settings) | {"TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            if process.stdin and not process.stdin.closed:
                process.stdin.close()
            process.wait(60)


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[Running]:
    """Give a server that tests share, whose queues can be purged once a minute."""
    place = server_folder / "shared"
    place.mkdir()
    with serving(place, "--port", "0", purge_cooldown=60) as found:
        yield found


def test_ready_server_says_in_a_line_of_json_where_it_is(server: Running) -> None:
    process, said = server
    sqs = client(said["url"])

    queue = sqs.create_queue(QueueName="ready")["QueueUrl"]

    assert queue == f"{said['url']}/{said['account']}/ready"
    assert said["console"] == f"{said['url']}/console/"
    assert said["region"] == "us-east-1"
    assert said["pid"] == process.pid
    found = ask(said["database_url"], "select name from skipmq.queue where name = 'ready'")
    assert found == "ready"


def test_servers_of_port_0_run_at_once(server: Running, place: Path) -> None:
    with serving(place, "--port", "0") as (_, two):
        _, one = server
        client(one["url"]).create_queue(QueueName="orders")

        assert one["url"] != two["url"]
        assert "QueueUrls" not in client(two["url"]).list_queues()


def test_throw_away_server_has_no_pauses_unless_told(server: Running) -> None:
    _, said = server
    sqs = client(said["url"])
    queue = sqs.create_queue(QueueName="no-pause")["QueueUrl"]
    sqs.delete_queue(QueueUrl=queue)

    assert sqs.create_queue(QueueName="no-pause")["QueueUrl"] == queue
    sqs.purge_queue(QueueUrl=queue)
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        sqs.purge_queue(QueueUrl=queue)


@pytest.mark.parametrize(("settings", "is_told"), [({}, False), ({"log_level": "info"}, True)])
def test_server_that_a_program_starts_logs_warnings_only_unless_told(
    place: Path, capfd: pytest.CaptureFixture[str], settings: dict[str, str], *, is_told: bool
) -> None:
    with serving(place, "--port", "0", **settings) as (_, said):
        client(said["url"]).create_queue(QueueName="orders")

    assert ("CreateQueue" in capfd.readouterr().err) == is_told


def test_containers_reach_a_throw_away_server_by_any_name_and_foreign_pages_do_not(
    server: Running,
) -> None:
    _, said = server
    names = {"skipmq:9324": 200, "host.testcontainers.internal": 200, "queue_1": 200}
    names |= {"attacker.example": 403, "skipmq.attacker.example": 403, "internal.example": 403}
    url = f"{said['url']}/?Action=ListQueues"
    found = {host: raw(url, None, {"Host": host}).status for host in names}
    page = raw(url, None, {"Host": "skipmq", "Origin": "http://attacker.example"})
    image = raw(url, None, {"Host": "skipmq", "Sec-Fetch-Site": "cross-site"})

    assert found == names
    assert (page.status, image.status) == (403, 403)


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_server_ends_with_its_standard_input_and_leaves_nothing(place: Path, workers: str) -> None:
    with serving(place, "--port", "0", "--workers", workers) as (process, said):
        assert process.stdin is not None
        process.stdin.write(b"a line is no end\n")
        process.stdin.flush()
        assert client(said["url"]).list_queues()

        process.stdin.close()

        assert process.wait(60) == 0
    until(lambda: not list(place.iterdir()), "the folder is gone")


def test_server_ends_when_its_starter_is_killed(place: Path) -> None:
    with serving(place, "--port", "0", program=(sys.executable, "-c", STARTER)) as (starter, said):
        assert is_alive(said["pid"])

        starter.send_signal(signal.SIGKILL)

        until_gone(said["pid"])
        until(lambda: not list(place.iterdir()), "the folder is gone")


def test_standard_input_that_no_program_holds_is_refused() -> None:
    done = subprocess.run(
        [*SKIPMQ, "serve", "--ephemeral", "--stop-on-eof"],
        env=environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "--stop-on-eof needs a pipe as standard input" in done.stderr


def test_server_runs_as_another_account_without_a_home(place: Path) -> None:
    program, variables = python_of_others()
    options = ["serve", "--ephemeral", "--json", "--stop-on-eof", "--port", "0"]
    with subprocess.Popen(
        [program, "-m", "skipmq", *options],
        env={**variables, "TMPDIR": str(place), "HOME": "/nonexistent"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **ACCOUNT,
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        found = client(said["url"]).list_queues()

    assert found["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert process.returncode == 0
    until(lambda: not list(place.iterdir()), "the folder is gone")

"""What commands print when they fail: one line with one prefix, and an object for programs."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from skipmq.config.settings import Settings
from skipmq.server.processes import listening
from support import commands
from support.commands import invoke
from support.forks import Forked
from support.http import SKIPMQ, environment
from support.postgres import as_node

UNREACHABLE = "postgresql://127.0.0.1:1/x"
_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")


@pytest.fixture
def url(lent: str) -> str:
    return as_node(lent)


@pytest.mark.parametrize(
    ("words", "settings", "code", "kind", "part"),
    [
        (("queue", "show", "nope"), {}, 1, "QueueDoesNotExist", "queue nope does not exist"),
        (("queue", "delete", "nope", "--yes"), {}, 1, "QueueDoesNotExist", "queue list` shows"),
        (("queue", "send", "nope", "x"), {}, 1, "QueueDoesNotExist", "with `skipmq queue create`"),
        (("queue", "show"), {}, 2, "Usage", "Missing argument 'NAME'."),
        (("queue", "fly"), {}, 2, "Usage", "No such command 'fly'."),
        (("config",), {"port": ""}, 2, "Settings", "SKIPMQ_PORT='': it is empty: leave it out"),
        (("import", "no.toml"), {}, 2, "Settings", "no.toml: there is no such file: check the"),
        (("queue", "list"), {"database_url": UNREACHABLE}, 1, "ServiceUnavailable", "refused"),
        (
            ("queue", "list", "--endpoint", "http://127.0.0.1:1"),
            {},
            1,
            "ServiceUnavailable",
            "http://127.0.0.1:1 cannot be reached",
        ),
    ],
)
def test_error_is_one_line_and_an_object_for_programs(
    url: str, words: tuple[str, ...], settings: dict[str, str], code: int, kind: str, part: str
) -> None:
    variables = environment({"database_url": url} | settings)

    told, shown = invoke(words, variables), invoke((*words, "--json"), variables)

    assert (told.code, shown.code, told.stdout, shown.stdout) == (code, code, "", "")
    *usage, line = told.stderr.splitlines()
    assert line.startswith("skipmq: ")
    assert part in line
    assert bool(usage) is (kind == "Usage")
    found = json.loads(shown.stderr)["error"]
    assert found["code"] == kind
    assert f"skipmq: {found['message']}" == line


@pytest.mark.parametrize(
    ("words", "to", "variables", "part"),
    [
        (("config",), "/dev/full", {}, "cannot be written: No space left on device"),
        (("config", "--json"), "/dev/full", {}, "cannot be written: No space left on device"),
        (
            ("config",),
            os.devnull,
            {"PYTHONIOENCODING": "ascii", "SKIPMQ_DATA_DIR": "/grün"},
            "is ascii, which cannot show all characters: set PYTHONIOENCODING=utf-8",
        ),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(
    words: tuple[str, ...], to: str, variables: dict[str, str], part: str
) -> None:
    # A fork has the encoding of its parent.
    start = subprocess.Popen[str] if variables else Forked
    with (
        Path(to).open("wb") as output,
        start(
            [*SKIPMQ, *words],
            env=environment({}) | variables,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert part in said
    assert len(said.splitlines()) == 1


def test_reader_that_is_gone_ends_a_command_without_a_word(url: str) -> None:
    commands.run("queue", "create", "orders", database_url=url)
    with Forked(
        [*SKIPMQ, "queue", "list", "--json"],
        env=environment({"database_url": url}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_interrupt_at_a_question_ends_with_130(url: str) -> None:
    commands.run("queue", "create", "orders", database_url=url)
    with Forked(
        [*SKIPMQ, "queue", "purge", "orders"],
        env=environment({"database_url": url}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        assert process.stderr.read(len("Delete all")) == "Delete all"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said.splitlines()[-1] == "skipmq: stopped"


@pytest.mark.skipif(
    os.getuid() != 0 or int(_PORTS.read_text()) < 81,
    reason="needs root to become an ordinary account, which may not listen on port 80",
)
def test_low_port_of_an_ordinary_account_is_one_sentence_with_the_remedy() -> None:
    "localhost".encode("idna")  # Loaded here: the other account may not read Python's files.
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.setuid(65_534)
            with listening.address(Settings(port=80)):
                pass
        except listening.PortError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        told = pipe.read()

    assert "cannot listen on 127.0.0.1 port 80: Permission denied." in told
    assert "choose one from 1024 on with --port" in told

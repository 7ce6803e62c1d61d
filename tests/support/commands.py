"""The commands of the command line, and runs of them in this process."""

import io
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import click
import structlog

from skipmq.cli import main
from skipmq.cli.groups import Deferred
from skipmq.telemetry.logs import to_standard_error
from support.forks import Forked
from support.http import SKIPMQ, environment


class Done(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    stdout: str
    stderr: str


def invoke(words: tuple[str, ...], variables: Mapping[str, str], given: str | bytes = "") -> Done:
    """Run a command in this process, which saves the start of an interpreter.

    `variables` are its environment, `given` its standard input; errors that it does not explain
    are raised. What depends on the process itself runs in one of its own: signals, terminals,
    start-up and threads.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    text = given.encode() if isinstance(given, str) else given
    with (
        mock.patch.dict("os.environ", variables, clear=True),
        mock.patch.object(sys, "argv", ["skipmq", *words]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8")),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            to_standard_error()  # As the first line of a process does.
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        finally:
            structlog.reset_defaults()  # Its lines went to the replaced standard error.
    return Done(code, _text(out), _text(err))


def run(*words: str, code: int = 0, given: str | bytes = "", **settings: object) -> str:
    """Run a command with settings, as `invoke` does; return what it printed."""
    done = invoke(words, environment(settings) | {"COLUMNS": "200"}, given)
    assert done.code == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def following(variables: Mapping[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """Give a `queue tail` in a process of its own that follows already."""
    with Forked(
        [*SKIPMQ, "queue", "tail", *words],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "Ctrl-C stops" in process.stderr.readline()
        try:
            yield process
        finally:
            process.kill()


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def loaded(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Import all commands of a group and below it; give each with its words."""
    for name, command in group.commands.items():
        found = command.load() if isinstance(command, Deferred) else command
        yield " ".join((*words, name)), found
        if isinstance(found, click.Group):
            yield from loaded(found, *words, name)


def imported(*words: str, variables: dict[str, str] | None = None) -> set[str]:
    """Run a command; return the modules that it imported."""
    return imported_by(*SKIPMQ[1:], *words, variables=variables)


def imported_by(*program: str, variables: dict[str, str] | None = None) -> set[str]:
    """Run a program of Python's; return the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *program],
        env=environment({}) | (variables or {}),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^import time:.*\|\s+(\S+)$", done.stderr, re.MULTILINE))

"""Every command of README.md, run as it stands there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support.applications import applications_of
from support.http import ROOT, NodeProcess
from support.postgres import Databases, as_node

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
# These two install everything again; the gate is one of them, and the other is below.
SET_UP = {"make run", "make test"}
# What a reader writes instead: a database of their own.
OWN_DATABASE = "postgresql://owner:password@localhost/skipmq"


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def block(part: str) -> str:
    """Return the one block that contains a text."""
    (found,) = (text for _, text in BLOCKS if part in text)
    return found


@pytest.fixture(scope="module")
def environment(embedded_databases: Databases) -> Iterator[dict[str, str]]:
    """Give the environment of a reader who has a broker on the standard port's stead."""
    url = embedded_databases.migrated()
    with applications_of(url) as applications, NodeProcess(database_url=as_node(url)) as node:
        applications.adopt("my_application")
        node.ready()
        yield {
            **os.environ,  # noqa: TID251 - the commands are run as a reader would.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251
            "SKIPMQ_DATABASE_URL": url,
            "SKIPMQ_PORT": str(node.port),
            "PORT": str(node.port),
        }


@pytest.fixture(scope="module")
def granted(environment: dict[str, str]) -> dict[str, str]:
    """Give the environment after the block that makes a role which may use the queue."""
    run("sh", block("skipmq grant"), environment)
    return environment


def run(language: str, text: str, environment: dict[str, str], *, code: int = 0) -> str:
    # What is changed is the port, since a reader's own broker may have the standard one, and the
    # address that the reader changes too.
    text = text.replace("localhost:9324", f"localhost:{environment['PORT']}")
    text = text.replace(OWN_DATABASE, f"'{environment['SKIPMQ_DATABASE_URL']}'")
    words = ["sh", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
    if language == "sql":
        words = ["skipmq", "psql", "-XU", "my_application"]
        # Statements that stand in no transaction are one each, as they are when they are typed.
        words += ["-v", f"ON_ERROR_STOP={int(not code)}"]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment,
        input=text if language == "sql" else "",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_readme_begins_with_the_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in blocks("sh")[0].strip().splitlines()] == [
        "make run",
        "make test",
    ]


def test_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_python_of_the_readme_runs(environment: dict[str, str]) -> None:
    told = run("python", "".join(blocks("python")), environment)

    assert told.splitlines() == ["hello"]


@pytest.mark.parametrize("text", [text for text in blocks("sh")[1:] if "skipmq grant" not in text])
def test_shell_of_the_readme_runs(environment: dict[str, str], text: str) -> None:
    run("sh", text, environment)


def test_block_on_an_own_database_names_it_before_it_migrates() -> None:
    first, second, *_ = block("skipmq migrate").splitlines()

    assert first.startswith(f"export SKIPMQ_DATABASE_URL={OWN_DATABASE}")
    assert second.startswith("skipmq migrate")


RECEIVERS = {
    "README.md": block("delete_message('shipments'"),
    "sql/README.md": next(
        text.replace("'orders'", "'shipments'").partition("-- or, when the work failed")[0]
        for _, text in BLOCK.findall((ROOT / "sql" / "README.md").read_text(encoding="utf-8"))
        if "create temporary table received" in text
    ),
}


@pytest.mark.parametrize("page", RECEIVERS)
def test_sql_of_the_readme_sends_and_deletes_what_it_received(
    granted: dict[str, str], page: str
) -> None:
    printed = run("sql", block("my_orders") + RECEIVERS[page], granted)

    assert re.search(r" delete_message \n-+\n t\n", printed)


def test_work_that_fails_waits_a_minute_and_is_dead_lettered_in_the_end(
    granted: dict[str, str],
) -> None:
    policy = (
        '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:lost","maxReceiveCount":"2"}'
    )
    commands = f"skipmq queue create lost; skipmq queue set shipments 'RedrivePolicy={policy}'"
    run("sh", commands, granted)
    work = block("delete_message('shipments'").replace("-- … do the work …", "select 1/0;")
    failing = work + block("change_message_visibility")

    def peeked(state: str, queue: str = "shipments") -> str:
        return run("sh", f"skipmq queue peek {queue} --state {state} --json", granted)

    run("sql", block("my_orders"), granted)
    said = run("sql", failing, granted, code=1)

    assert "division by zero" in said
    assert re.search(r" change_message_visibility \n-+\n t\n", said)
    # It does not return before the minute is over.
    assert peeked("visible").strip() == "[]"
    soon = failing.replace(", 60)", ", 0)")
    assert soon != failing
    with psycopg.connect(granted["SKIPMQ_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("update skipmq.message set visible_at = now() where receive_count > 0")
    for _ in range(2):
        run("sql", soon, granted, code=1)
    assert peeked("visible").strip() == "[]"
    (dead,) = json.loads(peeked("visible", "lost"))
    assert dead["Body"] == '{"order": 1}'

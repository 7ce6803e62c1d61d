"""Every command of README.md, run as it stands there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.applications import applications_of
from support.http import ROOT, NodeProcess
from support.postgres import Databases, as_node

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
# These two install everything again; the gate is one of them, and the other is below.
SET_UP = {"make run", "make test"}


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


@pytest.fixture(scope="module")
def environment(embedded_databases: Databases) -> Iterator[dict[str, str]]:
    """Give the environment of a reader who has a broker on the standard port's stead."""
    url = embedded_databases.migrated()
    with applications_of(url) as applications, NodeProcess(database_url=as_node(url)) as node:
        applications.create("my_application")
        node.ready()
        yield {
            **os.environ,  # noqa: TID251 - the commands are run as a reader would.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251
            "SKIPMQ_DATABASE_URL": url,
            "DATABASE": url.replace("//postgres@", "//my_application@"),
            "SKIPMQ_PORT": str(node.port),
            "PORT": str(node.port),
        }


def run(language: str, text: str, environment: dict[str, str]) -> str:
    # The one thing changed is the port, since a reader's own broker may have the standard one.
    text = text.replace("localhost:9324", f"localhost:{environment['PORT']}")
    words = ["sh", "-euc", text] if language == "sh" else [sys.executable, "-c", text]
    if language == "sql":
        words = ["psql", "-Xv", "ON_ERROR_STOP=1", environment["DATABASE"], "-c", text]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_readme_begins_with_the_two_commands() -> None:
    assert [line.split("#")[0].strip() for line in blocks("sh")[0].strip().splitlines()] == [
        "make run",
        "make test",
    ]


def test_python_of_the_readme_runs(environment: dict[str, str]) -> None:
    told = run("python", "".join(blocks("python")), environment)

    assert told.splitlines() == ["hello"]


@pytest.mark.parametrize("text", blocks("sh")[1:])
def test_shell_of_the_readme_runs(environment: dict[str, str], text: str) -> None:
    run("sh", text, environment)


@pytest.mark.parametrize("text", blocks("sql"))
def test_sql_of_the_readme_deletes_what_it_received(environment: dict[str, str], text: str) -> None:
    (granting,) = (block for block in blocks("sh") if "skipmq grant" in block)
    run("sh", granting, environment)

    told = run("sql", text, environment)

    assert re.search(r" delete_message \n-+\n t\n", told)

"""Where only the client is installed, what needs more says so in one sentence with the remedy."""

import json
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from skipmq import extras
from support.client_alone import client_alone
from support.http import ROOT, environment

# Every command in its own words, and what it says.
EACH_COMMAND = """
import json
import click
from skipmq import extras
from skipmq.cli import cli

def run(group, *words):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from run(command, *words, name)
            continue
        try:
            cli.main([*words, name, "--help"], prog_name="skipmq", standalone_mode=False)
        except extras.MissingExtraError as error:
            yield " ".join((*words, name)), str(error)

print(json.dumps(dict(run(cli))))
"""
PYTEST = ("pytest", "pytest-randomly", "pytest-xdist")


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the Python of an environment with the client only, and pytest."""
    return client_alone(tmp_path_factory.mktemp("alone"), *PYTEST)


def run(
    python: Path, *words: str, cwd: Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *words],
        env=environment({}) | (variables or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_modules_of_the_server_are_those_that_it_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {
        canonicalize_name(Requirement(each).name)
        for each in project["optional-dependencies"]["server"]
    }

    found = metadata.packages_distributions()
    named = {canonicalize_name(found[name][0]) for name in extras.SERVER}

    assert named == required


def test_every_command_but_those_of_the_client_names_its_extra(alone: Path, tmp_path: Path) -> None:
    done = run(alone, "-c", EACH_COMMAND, cwd=tmp_path)

    *helped, last = done.stdout.splitlines()
    said = json.loads(last)
    assert "Usage: skipmq work [OPTIONS] MODULE:APP" in helped
    assert len(re.findall("^Usage: ", done.stdout, re.MULTILINE)) == 1
    assert said["serve"] == "`skipmq serve` needs the server: pip install 'skipmq[server]'"
    assert said["queue send"].startswith("`skipmq queue send` needs the server: ")
    assert {
        words: text
        for words, text in said.items()
        if f"skipmq[{'analytics' if words.startswith('analytics ') else 'server'}]" not in text
    } == {}
    assert len(said) > 20


def test_command_says_it_in_one_line(alone: Path, tmp_path: Path) -> None:
    done = run(alone, "-m", "skipmq", "serve", "--ephemeral", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "skipmq: `skipmq serve` needs the server: pip install 'skipmq[server]'\n",
    )


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["queue", "--help"]])
def test_what_runs_no_command_works(words: list[str], alone: Path, tmp_path: Path) -> None:
    done = run(alone, "-m", "skipmq", *words, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("typed", "offered"), [("serv", "plain,serve"), ("serve --", "")])
def test_shells_complete_without_errors(
    typed: str, offered: str, alone: Path, tmp_path: Path
) -> None:
    variables = {
        "_SKIPMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": f"skipmq {typed}",
        "COMP_CWORD": str(len(typed.split())),
    }

    done = run(alone, "-m", "skipmq", cwd=tmp_path, variables=variables)

    assert (done.stderr, offered in done.stdout) == ("", True)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("import skipmq.wsgi", "skipmq.wsgi needs the server: pip install 'skipmq[server]'"),
        (
            "import skipmq.testing; skipmq.testing.Server().start()",
            "a test server needs the server: pip install 'skipmq[testing]'",
        ),
        (
            "import skipmq.testing; skipmq.testing.install('postgresql://127.0.0.1:1/test')",
            "skipmq.testing.install needs the server: pip install 'skipmq[testing]'",
        ),
    ],
)
def test_what_is_imported_says_it_last(
    program: str, sentence: str, alone: Path, tmp_path: Path
) -> None:
    done = run(alone, "-c", program, cwd=tmp_path)

    assert done.stderr.splitlines()[-1] == f"skipmq.extras.MissingExtraError: {sentence}"


def test_pytest_runs_and_only_a_test_that_asks_for_a_server_fails(
    alone: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_shop.py").write_text(
        "import sys\n"
        "def test_of_mine(): assert 'skipmq.testing.server' not in sys.modules\n"
        "def test_with_a_server(skipmq): pass\n"
    )

    done = run(alone, "-m", "pytest", "-p", "no:randomly", cwd=tmp_path)

    assert "1 passed, 1 error" in done.stdout
    assert "a test server needs the server: pip install 'skipmq[testing]'" in done.stdout
    assert "warning" not in done.stdout


def test_source_of_spark_says_it_when_it_is_used(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    alone = client_alone(tmp_path / "alone", "pyspark", "pyarrow", "pandas")
    program = "import pyspark_skipmq as p; print(p.DefaultSource.name()); p.DefaultSource({})"

    done = run(alone, "-c", program, cwd=tmp_path)

    assert done.stdout == "skipmq\n"
    assert done.stderr.splitlines()[-1] == (
        "skipmq.extras.MissingExtraError: Spark's format skipmq needs the server:"
        " pip install 'skipmq[analytics]'"
    )
